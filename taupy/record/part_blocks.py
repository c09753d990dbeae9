"""The blocks of a part mapped by the compiled engine, by kind.

`native_part.py` turns them into threads. Offsets and sizes are those of `_native/part.h`.
"""

from __future__ import annotations

import _struct as struct
from collections import defaultdict

from taupy.dataclass import dataclass, field
from taupy.record.part_data import Routine
from taupy.state.container import BLOCK_BYTES, Block, Container, Layout
from taupy.state.limits import PART_VERSION

THROTTLED = 2  # flag of a routine
STAMPED = 16
SOME_STAMPED = STAMPED | 64
"""Flag of a call path whose spans are recorded, as in `_native/calltree.h`."""
_ROUTINE = struct.Struct("<QIIqQQQQ")
NODES, THREAD, ROUTINE, METADATA, EVENT, SAMPLES, STEPS, STEP_VALUE = range(1, 9)
COMMUNICATORS, OPERATIONS, COLLECTIVES, COLLECTIVE_SUMS, LAYERS, SPANS, STRETCHES = range(10, 17)
LINES, LINE_NODES, LINES_APART, SUSPENSIONS = range(18, 22)
THREAD_ROW, GROWTH = 22, 23
KIND_NAMES = ("python", "c", "timer")
SUSPENSION_BYTES = 64
GROWTH_BYTES = 544
OPERATION_BYTES = 64
"""Size of the name of a collective operation."""
LAYOUT = Layout(
    b"TAUPYPRT",
    PART_VERSION,
    "part of a run",
    {
        # Sizes of the structures in `engine_layout.py`, which needs NumPy; a test compares them.
        **{THREAD: 392, ROUTINE: _ROUTINE.size, METADATA: 16, EVENT: 24, SAMPLES: 64},
        **{STEPS: 496, STEP_VALUE: 16, LAYERS: 936, SPANS: 24},
        **{COMMUNICATORS: 256, OPERATIONS: OPERATION_BYTES, COLLECTIVES: 64},
        **{COLLECTIVE_SUMS: 64, STRETCHES: 192},
        **{LINES: 24, LINE_NODES: 64, LINES_APART: 32, SUSPENSIONS: SUSPENSION_BYTES},
        **{THREAD_ROW: 80, GROWTH: GROWTH_BYTES},
    },
)


def _as_filled(file: Container, blocks: list[Block]) -> list[Block]:
    """The blocks of a thread's call paths in the order in which they were filled, which is not that
    of the file where memory is used again. Each has the address of the one before it."""
    after = {block.words[0]: block for block in reversed(blocks)}
    filled, address = [], 0
    while (block := after.pop(address, None)) is not None:
        filled.append(block)
        address = file.address_of(block.start) - BLOCK_BYTES
    ordered = {block.start for block in filled}
    return filled + [block for block in blocks if block.start not in ordered]  # new, and empty


@dataclass(slots=True)
class Blocks:
    """The blocks of a mapped file by kind: decoded texts, and positions of other blocks."""

    routines: list[Routine] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)  # of the routines, while they could be entered
    routine_at: dict[int, int] = field(default_factory=dict)  # key -> position
    events: dict[int, tuple[str, str]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    threads: list[Block] = field(default_factory=list)
    thread_rows: dict[int, int] = field(default_factory=dict)  # thread -> position
    steps: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    lines: dict[int, dict[int, list[Block]]] = field(default_factory=dict)  # thread -> by kind
    suspensions: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    growth: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    layers: list[int] = field(default_factory=list)
    step_values: dict[int, str] = field(default_factory=dict)  # place -> name
    collectives: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, file: Container) -> Blocks:
        self = cls()
        data = file.data
        for block in file.blocks:
            kind, thread, start, end, _ = block
            if kind == ROUTINE:
                self._add_routine(file, start, end)
            elif kind == NODES:
                self.nodes[thread].append(block)
            elif kind == THREAD:
                self.threads.append(block)
            elif kind == THREAD_ROW:
                self.thread_rows[thread] = start
            elif kind == METADATA:
                sizes = list(struct.unpack_from("<QQ", data, start))
                if sizes[0]:
                    name, value = file.texts(start + 16, end, *sizes)
                    self.metadata[name] = value
            elif kind == EVENT:
                number, *sizes = struct.unpack_from("<QQQ", data, start)
                name, unit = file.texts(start + 24, end, *sizes)
                self.events[number] = name, unit
            elif kind == SAMPLES:
                self.samples[thread].append(start)
            elif kind == STEPS:
                self.steps[thread].append(block)
            elif kind == SPANS:
                self.spans[thread].append(block)
            elif kind in (LINES, LINE_NODES, LINES_APART):
                self.lines.setdefault(thread, {}).setdefault(kind, []).append(block)
            elif kind == SUSPENSIONS:
                self.suspensions[thread].append(block)
            elif kind == GROWTH:
                self.growth[thread].append(start)
            elif kind == LAYERS:
                self.layers.append(start)
            elif kind == STEP_VALUE:
                place, size = struct.unpack_from("<QQ", data, start)
                if size:
                    (self.step_values[place],) = file.texts(start + 16, end, size)
            elif kind in (COMMUNICATORS, OPERATIONS, COLLECTIVES, COLLECTIVE_SUMS, STRETCHES):
                self.collectives[kind].append(block)
        if self.thread_rows:
            for thread, blocks in self.nodes.items():
                self.nodes[thread] = _as_filled(file, blocks)
        return self

    def _add_routine(self, file_held: Container, start: int, end: int) -> None:
        key, what, flags, line, *sizes, entered_key = _ROUTINE.unpack_from(file_held.data, start)
        if key:
            name, file, group = file_held.texts(start + _ROUTINE.size, end, *sizes)
            self.routine_at[key] = len(self.routines)
            self.keys.append(entered_key)
            kind = KIND_NAMES[what] if what < len(KIND_NAMES) else "python"
            inputs = file[1:-1] if kind == "timer" and file else None
            self.routines.append(
                Routine(name, "" if kind == "timer" else file, line, kind, group,
                        bool(flags & THROTTLED), inputs)
            )  # fmt: skip
