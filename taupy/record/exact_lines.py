"""Decode the exact lines of a thread (`_native/line_events.h`).

The engine charges the time of a call path to its lines whenever one begins. What has passed since
then, to the end of the call or of the process, is added here to the line that began last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taupy.errors import FormatError
from taupy.record.engine_layout import LINE_NODE, LINE_RECORD, LINE_SUMS, Array
from taupy.record.engine_layout import LINES_APART as APART
from taupy.record.part_blocks import LINE_NODES, LINES, LINES_APART
from taupy.record.part_check import LARGEST
from taupy.record.part_data import ExactLine, PartThread
from taupy.state.container import Block

if TYPE_CHECKING:
    from collections.abc import Callable

    from taupy.record.native_part import NativePart


def add_exact_lines(
    part: NativePart,
    row_at: Callable[[int], int | None],
    blocks: Mapping[int, Sequence[Block]],
    thread: PartThread,
) -> None:
    """Add the lines that have begun, by routine and line.

    Args:
        row_at: the row of the thread's call path at an address.
        blocks: the thread's, by kind.
        thread: with times, decoded so far.
    """
    sums = {
        part.file.address_of(block.start): _Sums(part, block) for block in blocks.get(LINES, ())
    }
    apart: dict[int, list[int]] = defaultdict(list)
    for record in _records(part, blocks.get(LINES_APART, ()), APART):
        row, caller = (row_at(int(record[name])) for name in ("node", "caller"))
        if row is not None and caller is not None:
            apart[caller].append(row)
    inclusive = thread.inclusive
    in_line: dict[int, tuple[_Sums, int, bool]] = {}
    lines: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for record in _records(part, blocks.get(LINE_NODES, ()), LINE_NODE):
        at, row = sums.get(int(record["sums"])), row_at(int(record["node"]))
        if at is None or row is None:
            if part.is_partial:
                continue
            raise FormatError(f"{part.name} is damaged: lines without a call path")
        at.routine = int(thread.routine[row])
        whole = int(inclusive[row])
        own = whole - sum(int(inclusive[other]) for other in apart[row])
        in_line[row] = at, int(record["open"]), bool(record["is_inner"])
        at.end(
            int(record["open"]),
            own - part.duration(int(record["own"])),
            0 if record["is_inner"] else whole - part.duration(int(record["inclusive"])),
        )
    for of_routine in sums.values():
        for number, row_of_sums in enumerate(of_routine.rows):
            if of_routine.routine >= 0 and row_of_sums[0]:
                line = lines[of_routine.routine, of_routine.first + number]
                for place, value in enumerate(row_of_sums):
                    line[place] += value
    if any(not 0 <= value <= LARGEST for line in lines.values() for value in line):
        raise FormatError(f"{part.name} is damaged: impossible times of lines")
    thread.lines = [ExactLine(*key, *line) for key, line in sorted(lines.items())]
    position = {key: place for place, key in enumerate(sorted(lines))}
    not_theirs = {other for others in apart.values() for other in others}
    is_innermost = True
    for row, _ in thread.open:
        if row in in_line:
            of_routine, number, is_inner = in_line[row]
            where = position.get((of_routine.routine, of_routine.first + number))
            if where is not None:
                thread.open_lines.append((where, is_innermost, is_inner))
        is_innermost = is_innermost and row not in in_line and row not in not_theirs


class _Sums:
    """The lines of a routine: for each, how often it began, and its times [ns]."""

    def __init__(self, part: NativePart, block: Block) -> None:
        (head,) = np.frombuffer(part.data, LINE_SUMS, 1, block.start)
        self.routine, self.first = -1, int(head["first"])
        start, number = block.start + LINE_SUMS.itemsize, int(head["number"])
        if number > (block.end - start) // LINE_RECORD.itemsize:
            raise FormatError(f"{part.name} is damaged: lines beyond their block")
        records = np.frombuffer(part.data, LINE_RECORD, number, start)
        self.rows = [
            [int(count), part.duration(int(own)), part.duration(int(inclusive))]
            for count, own, inclusive in records.tolist()
        ]

    def end(self, line: int, own: int, inclusive: int) -> None:
        """The end of the line that began last."""
        if 0 <= line < len(self.rows):
            self.rows[line][1] += max(0, own)
            self.rows[line][2] += max(0, inclusive)


def _records(part: NativePart, blocks: Sequence[Block], layout: np.dtype[Any]) -> Iterator[Array]:
    for block in blocks:
        count = (block.end - block.start) // layout.itemsize
        records = np.frombuffer(part.data, layout, count, block.start)
        yield from records[records["node"] != 0]
