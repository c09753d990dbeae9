"""Where the time of one GPU went: compute, communication, copies, and idle time by its cause.

Whole nanoseconds that add up: from the first work of the device to its last, each moment is in
exactly one part. It is kept as metadata of the GPU's node, one JSON text for each device.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, get_args

from taupy.dataclass import NamedTuple, dataclass
from taupy.model import gpu_path
from taupy.model.gpu_path import Path, one_of, stored_ns

TIME: Final = "taupy.gpu.time."
"""Name of the metadata of a node, with a GPU's context."""

Cause = Literal[
    "host", "synchronisation", "memory allocation", "loading code", "data loading",
    "nothing recorded on the host", "launch latency", "long launch call", "waits for an event",
    "queued, started late", "between kernels", "inside a graph", "launch not seen",
]  # fmt: skip
"""docs/gpu.md says what each means, and how it is found."""

CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)


def slug(cause: Cause) -> str:
    """The cause as part of a column's name: `memory_allocation`."""
    return cause.replace(",", "").replace(" ", "_")


OUTSIDE: Final = "an event of work that the trace does not have"
"""The place of a wait for an event, if nothing in the trace ran meanwhile."""

PLACES: Final = 5
"""Places that are kept of a cause, the longest."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Idle time of one cause.

    Attributes:
        gaps: periods between two works that it is part of.
        longest_ns: its longest part of one of them.
        places: what the host did, or what was launched; the longest first.
    """

    cause: Cause
    ns: int
    gaps: int
    longest_ns: int
    places: tuple[tuple[str, int], ...] = ()


class Gap(NamedTuple):
    """One period between two works.

    Attributes:
        at_ns: after the begin of the device's first work.
        parts: cause, place and time [ns] of each part of it, the longest first.
    """

    at_ns: int
    ns: int
    parts: tuple[tuple[Cause, str, int], ...]


GAPS: Final = 8
"""Gaps that are kept, the longest."""


@dataclass(frozen=True, slots=True)
class GpuTime:
    """Times of one GPU, all of its streams together.

    Attributes:
        communication_ns: kernels that communicate, while nothing computes.
        copies_ns: copies and memsets, while no kernel runs.
        idle: by cause, the longest first.
        host: how well the host's part is known: "slices" if its routines and operators have times,
            "calls" if only its calls of the GPU's API have, "" if nothing has.
        paths: the critical paths of the last steps, the last one first, or of the whole time.
        gaps: the longest ones.
    """

    compute_ns: int
    communication_ns: int
    copies_ns: int
    idle: tuple[Idle, ...] = ()
    host: str = ""
    paths: tuple[Path, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def busy_ns(self) -> int:
        return self.compute_ns + self.communication_ns + self.copies_ns

    @property
    def idle_ns(self) -> int:
        return sum(part.ns for part in self.idle)

    @property
    def span_ns(self) -> int:
        """From the first start to the last end."""
        return self.busy_ns + self.idle_ns

    def of(self, *causes: Cause) -> int:
        """Idle time of these causes [ns]."""
        return sum(part.ns for part in self.idle if part.cause in causes)

    @property
    def unproven_ns(self) -> int:
        """Time in which the GPU waited for work that the trace does not have: it may have worked
        for another process."""
        return sum(ns for part in self.idle for place, ns in part.places if place == OUTSIDE)

    def text(self) -> str:
        """As it is stored."""
        parts = [[*_numbers(part), [list(place) for place in part.places]] for part in self.idle]
        whole = {"compute_ns": self.compute_ns, "communication_ns": self.communication_ns,
                 "copies_ns": self.copies_ns, "idle": parts, "host": self.host}  # fmt: skip
        if self.paths:
            whole["paths"] = [*map(gpu_path.written, self.paths)]
        if self.gaps:
            whole["gaps"] = self.gaps
        return json.dumps(whole, ensure_ascii=False)


def _numbers(part: Idle) -> tuple[Cause, int, int, int]:
    return part.cause, part.ns, part.gaps, part.longest_ns


def parsed(text: str) -> GpuTime | None:
    """From its stored text; None if it is none."""
    try:
        whole = json.loads(text)
        idle = tuple(
            Idle(one_of(CAUSES, cause), stored_ns(ns), stored_ns(gaps), stored_ns(longest),
                 tuple((str(place), stored_ns(of_place)) for place, of_place in places))
            for cause, ns, gaps, longest, places in whole["idle"]
        )  # fmt: skip
        names = ("compute_ns", "communication_ns", "copies_ns")
        compute, communication, copies = (stored_ns(whole[name]) for name in names)
        paths = tuple(map(gpu_path.read, whole.get("paths", ())))
        gaps = tuple(
            Gap(stored_ns(at), stored_ns(ns),
                tuple((one_of(CAUSES, cause), str(place), stored_ns(part))
                      for cause, place, part in parts))
            for at, ns, parts in whole.get("gaps", ())
        )  # fmt: skip
        host = str(whole.get("host", ""))
        return GpuTime(compute, communication, copies, idle, host, paths, gaps)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def gpu_name(gpu: tuple[int, int], gpus: Collection[tuple[int, int]], model: str = "") -> str:
    """As `GPU 2 of node 1 (AMD Instinct MI300X)`.

    Args:
        gpu: its node and context.
        gpus: all of the trial; the node is named if there are several.
        model: "" if unknown. The number alone is not enough: torch.profiler numbers AMD's GPUs
            together with the machine's processors.
    """
    node, context = gpu
    of_node = f" of node {node}" if len({node for node, _ in gpus}) > 1 else ""
    number = f"GPU {context - 1}"
    return f"{number}{of_node}" + (f" ({model})" if model not in ("", number) else "")


def stored(facts: Mapping[Any, Mapping[str, str]]) -> dict[tuple[int, int], GpuTime]:
    """Node and context of each GPU -> its times, from the metadata of nodes."""
    times = {}
    for node, own in facts.items():
        for name, text in own.items():
            context = name.removeprefix(TIME)
            if node is None or context == name or not (context.isascii() and context.isdigit()):
                continue
            if (time := parsed(text)) is not None:
                times[node, int(context)] = time
    return dict(sorted(times.items()))
