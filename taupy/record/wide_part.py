"""Decode the call paths of a part of any size, column by column with NumPy (`small_part.py` needs
none)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from taupy.dataclass import dataclass
from taupy.errors import FormatError
from taupy.record.engine_layout import (
    COLLECTIVE,
    COLLECTIVE_SUM,
    COMMUNICATOR,
    HIDDEN_BYTES,
    MEASURED_NODE,
    NODE,
    SPAN,
    STEP,
    STRETCH,
    THREAD,
    Array,
)
from taupy.record.native_part import UNKNOWN, NativePart, is_native, refusal
from taupy.record.part_blocks import (
    COLLECTIVE_SUMS,
    COLLECTIVES,
    COMMUNICATORS,
    OPERATION_BYTES,
    OPERATIONS,
    SOME_STAMPED,
    STAMPED,
    STRETCHES,
    Blocks,
)
from taupy.record.part_check import LARGEST
from taupy.record.part_data import PartThread, Routine
from taupy.state import container
from taupy.state.container import Block, Container

if TYPE_CHECKING:
    from taupy.record.part_collectives import PartCollectives
    from taupy.record.part_spans import PartSpans
    from taupy.record.part_steps import PartSteps

_NOWHERE = 1 << 60


class WidePart(NativePart):
    """Decodes one mapped file."""

    def __init__(self, file: Container, blocks: Blocks, is_changing: bool = False) -> None:
        super().__init__(file, blocks, is_changing)
        self.layout = MEASURED_NODE if self.metric_count else NODE
        self.routines = _Routines(blocks)

    def last_ticks(self, blocks: Blocks) -> int:
        """The last moment recorded by a killed process."""
        last: int = max(self.header.last_ticks, self.header.start_ticks)
        for block in blocks.threads:
            (thread,) = np.frombuffer(self.data, THREAD, 1, block.start)
            last = max(last, int(thread["root"]["t0"]))
        for block in (block for of_thread in blocks.nodes.values() for block in of_thread):
            count = (block.end - block.start) // self.layout.itemsize
            nodes = np.frombuffer(self.data, self.layout, count, block.start)
            last = max(last, int(nodes["t0"].max(initial=0)))
        return last

    def thread(self, position: int, block: Block, blocks: Blocks) -> PartThread:
        (own,) = np.frombuffer(self.data, THREAD, 1, block.start)
        root = self.file.address_of(block.start)
        rows = Rows.of(self.file, root, blocks.nodes[block.thread], self.layout)
        self.place([(root, 0, 1), *rows.stretches], position, self.layout.itemsize)
        parent = self.parents(rows)
        inclusive, open_rows = self.times(own, rows, parent)
        thread = PartThread(
            int(own["native_id"]),
            container.text(own["name"].split(b"\0", 1)[0]),
            max(0, int(own["cpu_ns"]) - int(own["cpu_start_ns"])),
            routine=_behind(-1, self.routines.numbers(rows.nodes["key"])),
            parent=parent,
            calls=_behind(1, rows.nodes["calls"]),
            resumes=_behind(0, rows.nodes["resumes"]),
            inclusive=inclusive,
            native=is_native(block),
            refused=refusal(block),
            open=open_rows,
            ended=int(own["ended_ticks"]) != 0,
        )
        further = [
            _behind(own["root"]["metrics"][number, 1], rows.nodes["metrics"][:, number, 1])
            for number in range(self.metric_count)
        ]
        first = len(self.metrics)
        if not thread.native:  # it has counters only
            thread.metrics = dict(zip(self.metrics, further[:first], strict=True))
        thread.counters = further[first:]
        if (thread.counters and not self.at_calls) or not all(of.at_calls for of in self.metrics):
            thread.counted = _behind(1, rows.nodes["region"]) != 0
        thread.samples = self.samples(partial(self.row_at, rows), block.thread)
        thread.steps = self.steps(block.thread, blocks)
        until = int(own["ended_ticks"]) or self.end_ticks
        thread.spans = self.spans(rows, block, blocks, [row for row, _ in open_rows], until)
        if waits := blocks.suspensions.get(block.thread):
            from taupy.record.suspensions import suspensions

            thread.suspensions = suspensions(self, partial(self.row_at, rows), waits, until)
        if notes := blocks.growth.get(block.thread):
            from taupy.record.growth import growth

            thread.growth = growth(self, partial(self.row_at, rows), notes)
        if of_thread := blocks.lines.get(block.thread):
            from taupy.record.exact_lines import add_exact_lines

            add_exact_lines(self, partial(self.row_at, rows), of_thread, thread)
        return thread

    def parents(self, rows: Rows) -> Array:
        """The row of each row's parent."""
        parent = _behind(-1, rows.at(rows.nodes["parent"]))
        if (parent >= np.arange(len(parent))).any():
            raise FormatError(f"{self.name}: a call path precedes its parent")
        return parent

    def row_at(self, rows: Rows, address: int) -> int | None:
        """The row of a call path; None if that is newer than what was read, or was lost."""
        try:
            return int(rows.at(np.array([address], "u8"))[0])
        except FormatError:
            if not self.is_partial:
                raise
            return None

    def times(self, own: Any, rows: Rows, parent: Array) -> tuple[Array, list[tuple[int, int]]]:
        """Inclusive times in nanoseconds, with open frames counted up to the end; and the open
        frames."""
        end = int(own["ended_ticks"]) or self.end_ticks
        ticks = _behind(0, rows.nodes["inclusive"])
        cursor = int(own["cursor"])
        if cursor == rows.root + HIDDEN_BYTES:
            cursor = int(own["hidden"]["parent"])
        at = 0
        if cursor and cursor != rows.root:  # the thread had not returned from all its calls
            at = self.row_at(rows, cursor) or 0
        open_rows = []
        while at > 0:
            entered = int(rows.nodes["t0"][at - 1])
            ticks[at] = int(ticks[at]) + max(0, end - entered)
            open_rows.append((at, self.moment(entered)))
            at = int(parent[at])
        began = int(own["root"]["t0"])
        ticks[0] = max(0, end - began) if began else 0  # 0: it was about to begin
        times = np.maximum(ticks, 0) * self.ns_per_tick
        if not (times <= LARGEST).all():
            raise FormatError(f"{self.name} is damaged: impossible times")
        return times.astype("i8"), open_rows

    def rows(self, layout: np.dtype[Any], blocks: list[Block]) -> Iterator[Array]:
        """The complete rows of each block."""
        for block in blocks:
            count = (block.end - block.start) // layout.itemsize
            yield np.frombuffer(self.data, layout, count, block.start)

    def collectives(self, blocks: dict[int, list[Block]]) -> PartCollectives:
        from taupy.record.part_collectives import Communicator, PartCollectives

        held = PartCollectives(self.clock())
        for rows in self.rows(COMMUNICATOR, blocks[COMMUNICATORS]):
            record = rows[0]
            held.communicators[int(record["place"])] = Communicator(
                name=_text(record["name"]),
                ranks=_text(record["ranks"]),
                size=int(record["size"]),
                begun=int(record["begun"]),
                stride=int(record["stride"]),
            )
        names = self.rows(np.dtype(f"S{OPERATION_BYTES}"), blocks[OPERATIONS])
        held.operations = [_text(name) for stretch in names for name in stretch if name]
        for rows in self.rows(COLLECTIVE, blocks[COLLECTIVES]):
            held.rows.append(rows[(rows["is_used"] == 1) & (rows["number"] > 0)])
        for rows in self.rows(COLLECTIVE_SUM, blocks[COLLECTIVE_SUMS]):
            held.sums.append(rows[rows["count"] > 0])
        for rows in self.rows(STRETCH, blocks[STRETCHES]):
            held.stretches.append(rows[rows["is_used"] == 1])
        return held

    def steps(self, index: int, blocks: Blocks) -> list[PartSteps]:
        if not blocks.steps[index]:
            return []
        from taupy.record import part_steps

        stretches: dict[int, list[Array]] = defaultdict(list)
        for block, rows in zip(
            blocks.steps[index], self.rows(STEP, blocks.steps[index]), strict=True
        ):
            stretches[block.words[0]].append(rows)
        return [
            part_steps.series(kind, np.concatenate(pieces), self.clock(), blocks.step_values)
            for kind, pieces in sorted(stretches.items())
        ]

    def spans(
        self, rows: Rows, block: Block, blocks: Blocks, at_work: list[int], until: int
    ) -> PartSpans | None:
        """The spans of a thread's layers, phases and long calls; open ones end with it."""
        if not blocks.spans[block.thread] and not at_work:
            return None
        stretches = self.rows(SPAN, blocks.spans[block.thread])
        pieces = [stretch[stretch["node"] != 0] for stretch in stretches]
        last = self.traced_until or (LARGEST, 0)
        open_nodes = rows.nodes[np.array(at_work, "i8") - 1]
        is_kept = (open_nodes["flags"] & SOME_STAMPED != 0) & (open_nodes["t0"] < last[0])
        began = open_nodes["t0"][is_kept]
        ended = np.concatenate([np.empty(0, SPAN), *pieces])
        if self.is_partial:
            ended = ended[rows.find(ended["node"]) >= 0]
        if not len(ended) and not len(began):
            return None
        from taupy.record.part_spans import PartSpans

        spans = PartSpans(
            self.clock(),
            of_row := np.concatenate([rows.at(ended["node"]), np.array(at_work, "i8")[is_kept]]),
            np.concatenate([ended["start"], began]),
            np.concatenate([ended["end"], np.maximum(began, np.uint64(until))]),
            np.arange(len(ended) + len(began)) >= len(ended),
            rows.nodes["flags"][of_row - 1] & STAMPED == 0,
        )
        spans.check()
        return spans


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


def _text(value: Any) -> str:
    return bytes(value).split(b"\0", 1)[0].decode("utf-8", "replace")


def _behind(first: int, column: Array) -> Array:
    """The root's number followed by those of the other rows, as signed integers; `check` rejects
    numbers too large for that."""
    whole = np.empty(len(column) + 1, "i8")
    whole[0] = min(int(first), LARGEST + 1)
    whole[1:] = np.minimum(column, LARGEST + 1) if column.dtype == "u8" else column
    return whole


class _Routines:
    """The routines of a part by their keys, in the order of the keys."""

    def __init__(self, blocks: Blocks) -> None:
        self.routines = blocks.routines
        self.noted = np.array(sorted(blocks.routine_at), "u8")
        self.position = np.array([blocks.routine_at[key] for key in self.noted.tolist()], "i8")

    def numbers(self, keys: Array) -> Array:
        """The routine of each key; an extra routine represents those whose record did not fit."""
        keys = keys & ~np.uint64(4)
        at = np.searchsorted(self.noted, keys)
        if len(self.noted):
            at[at == len(self.noted)] = 0
            missing = self.noted[at] != keys
            numbers = self.position[at]
        else:
            missing = np.ones(len(keys), bool)
            numbers = np.zeros(len(keys), "i8")
        if missing.any():
            numbers[missing] = len(self.routines)
            self.routines.append(Routine(UNKNOWN, "", 0, "python", "PYTHON"))
        return numbers
