"""The blocks of a part mapped by the compiled engine: their kinds, and call paths.

`host_part.py` turns them into threads. Offsets and sizes are those of `_native/part.h`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taupy.errors import FormatError
from taupy.record.engine_layout import (
    COLLECTIVE,
    COLLECTIVE_SUM,
    COMMUNICATOR,
    LAYER,
    OPERATION_BYTES,
    SPAN,
    STEP,
    STRETCH,
    Array,
)
from taupy.record.engine_layout import THREAD as THREAD_LAYOUT
from taupy.record.part_data import Routine
from taupy.state.container import Block, Container, Layout

THROTTLED = 2  # flag of a routine
STAMPED = 16
"""Flag of a call path whose spans are recorded, as in `_native/calltree.h`."""
_ROUTINE = struct.Struct("<QIIqQQQ")
NODES, THREAD, ROUTINE, METADATA, EVENT, SAMPLES, STEPS, STEP_VALUE = range(1, 9)
COMMUNICATORS, OPERATIONS, COLLECTIVES, COLLECTIVE_SUMS, LAYERS, SPANS, STRETCHES = range(10, 17)
KIND_NAMES = ("python", "c", "timer")
LAYOUT = Layout(
    b"TAUPYPRT",
    5,
    "part of a run",
    {
        **{
            THREAD: THREAD_LAYOUT.itemsize,
            ROUTINE: _ROUTINE.size,
            METADATA: 16,
            EVENT: 24,
            SAMPLES: 64,
        },
        **{STEPS: STEP.itemsize, STEP_VALUE: 16, LAYERS: LAYER.itemsize, SPANS: SPAN.itemsize},
        **{COMMUNICATORS: COMMUNICATOR.itemsize, OPERATIONS: OPERATION_BYTES},
        **{COLLECTIVES: COLLECTIVE.itemsize, COLLECTIVE_SUMS: COLLECTIVE_SUM.itemsize},
        **{STRETCHES: STRETCH.itemsize},
    },
)
_NOWHERE = 1 << 60


@dataclass(slots=True)
class Blocks:
    """The blocks of a mapped file by kind: decoded texts, and positions of other blocks."""

    routines: list[Routine] = field(default_factory=list)
    routine_at: dict[int, int] = field(default_factory=dict)  # key -> position
    events: dict[int, tuple[str, str]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    samples: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    threads: list[Block] = field(default_factory=list)
    steps: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[int, list[Block]] = field(default_factory=lambda: defaultdict(list))
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
            elif kind == LAYERS:
                self.layers.append(start)
            elif kind == STEP_VALUE:
                place, size = struct.unpack_from("<QQ", data, start)
                if size:
                    (self.step_values[place],) = file.texts(start + 16, end, size)
            elif kind in (COMMUNICATORS, OPERATIONS, COLLECTIVES, COLLECTIVE_SUMS, STRETCHES):
                self.collectives[kind].append(block)
        return self

    def _add_routine(self, file_held: Container, start: int, end: int) -> None:
        key, what, flags, line, *sizes = _ROUTINE.unpack_from(file_held.data, start)
        if key:
            name, file, group = file_held.texts(start + _ROUTINE.size, end, *sizes)
            self.routine_at[key] = len(self.routines)
            kind = KIND_NAMES[what] if what < len(KIND_NAMES) else "python"
            self.routines.append(Routine(name, file, line, kind, group, bool(flags & THROTTLED)))


@dataclass(slots=True)
class Rows:
    """The call paths of one thread as stored in the file, and the address of each row."""

    name: str  # of the part
    nodes: Array  # of NODE or MEASURED_NODE: rows from 1 on; row 0 is the root
    root: int  # its address
    stretches: list[tuple[int, int, int]]  # address, first row, number of rows
    address: Array  # of each stretch, ascending; the first stretch has no rows
    first: Array  # first row of each stretch

    @classmethod
    def of(cls, file: Container, root: int, blocks: list[Block], layout: np.dtype[Any]) -> Rows:
        pieces, stretches, row = [], [], 1
        for block in blocks:
            count = (block.end - block.start) // layout.itemsize
            nodes = np.frombuffer(file.data, layout, count, block.start)
            free = np.flatnonzero(nodes["key"] == 0)
            pieces.append(nodes[: free[0]] if len(free) else nodes)
            stretches.append((file.address_of(block.start), row, len(pieces[-1])))
            row += len(pieces[-1])
        nodes = np.concatenate(pieces) if pieces else np.empty(0, layout)
        in_order = sorted(stretches)  # chunks may lie in any order in memory
        address = np.array([0, *(address for address, _, _ in in_order)], "u8")
        first = np.array([-_NOWHERE, *(row for _, row, _ in in_order)], "i8")
        return cls(file.name, nodes, root, stretches, address, first)

    def at(self, addresses: Array) -> Array:
        """The rows of the call paths at these addresses.

        Raises:
            FormatError: an address holds no call path.
        """
        rows = self.find(addresses)
        if (rows < 0).any():
            raise FormatError(f"{self.name}: a call path has no parent in its thread")
        return rows

    def find(self, addresses: Array) -> Array:
        """Like `at`, but negative for addresses without a call path."""
        stretch = np.searchsorted(self.address, addresses, "right") - 1
        behind = (addresses - self.address[stretch]) // np.uint64(self.nodes.itemsize)
        rows = np.where(addresses == self.root, 0, self.first[stretch] + behind.astype("i8"))
        return np.where(rows > len(self.nodes), -1, rows)
