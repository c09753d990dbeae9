"""The plain-Python engine's shared state: settings, clocks, counts.

Trees and writers get this object and nothing else from the engine, so they depend on it and not on
each other.

Runs inside the measured process: built-in modules only.
"""

import sys
import time

# The program may replace built-in functions; these stay what they are.
from builtins import bool, int, set, str  # noqa: UP029

from taupy.instrument.engine_routines import Routines
from taupy.instrument.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEVER = 1 << 63
_real_clock, _real_cpu_clock = time.perf_counter_ns, time.thread_time_ns


class EngineState:
    """What the modules of the engine share in one process.

    Attributes:
        due: a list with the time after which the part is written again.
        ways_out: C functions whose call the engine must notice.
        disabled: groups of timers that are switched off.
        guard_depth: depth of a stack from which the profile function may be lost.
        row_count: call paths of all threads.
    """

    def __init__(self, options: "dict[str, Any]") -> None:
        self.clock: Any = options.get("clock") or _real_clock
        self.cpu_clock: Any = options.get("cpu_clock") or _real_cpu_clock
        self.real_time = options.get("clock") is None
        self.c_calls = bool(options.get("c_calls"))
        self.depth = int(options.get("depth") or 0)
        self.max_callpaths = int(options.get("max_callpaths") or 8 << 20)
        self.throttling = bool(options.get("throttle"))
        self.throttle_calls = int(options.get("throttle_calls") or 100_000)
        self.throttle_ns = int(options.get("throttle_ns_per_call") or 10_000)
        self.metrics: list[str] = options.get("metrics") or []
        self.helper = bool(options.get("helper"))
        include, exclude = options.get("include") or [], options.get("exclude") or []
        self.routines = Routines(
            Selection(include, exclude) if include or exclude else None,
            options.get("library_folders") or (),
        )
        self.ways_out: set[object] = set()
        self.disabled: set[str] = set()
        self.metadata: dict[str, str] = {}
        if options.get("ancestors"):
            self.metadata["taupy.ancestors"] = str(options["ancestors"], "ascii")
        self.running = True
        self.due = [NEVER]
        self.guard_depth = sys.getrecursionlimit() // 4
        self.pid = self.process_start = self.start_ns = 0
        self.started_at = 0.0
        self.forked = False
        self.exit_status: int | None = None
        self.node: int | None = None
        self.unwritten = self.greenlets = self.refused = self.threads_replaced = False
        self.reset_counts()

    def reset_counts(self) -> None:
        """Start counting at 0, as a new process does."""
        self.lost_events = self.overlaps = self.row_count = self.calls_over_limit = 0
        self.replaced = self.unseen_threads = self.snapshots = 0
