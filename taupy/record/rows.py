"""Passes over the call paths of one thread, each from rows to rows.

Equal call paths of different code objects are merged, library code called by library code is
folded into its caller, and ranges that continued elsewhere leave no row. Each pass also returns,
for each row, the row into which it went.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taupy.dataclass import dataclass

if TYPE_CHECKING:
    from taupy.record.part_data import Column

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_ROUNDS = 64
"""Maximum number of column-wise passes for merging below merged call paths."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length: row 0 is the root, a parent precedes its children."""

    timer: Column
    parent: Column
    calls: Column
    resumes: Column
    inclusive: Column
    further: dict[str, Column]  # of other metrics, by name
    counted: Mask | None  # rows with counters; None for all

    def __len__(self) -> int:
        return len(self.timer)

    def put(self, into: Column, heads: Column, summed: Mask | None = None) -> Rows:
        """Merge rows, adding their numbers.

        Args:
            into: for each row, the new row it becomes part of.
            heads: for each new row, the row that gives its timer and place.
            summed: rows whose numbers count; None for all.
        """
        parent = self.parent[heads].copy()
        parent[1:] = into[parent[1:]]

        def added(column: Column) -> Column:
            sums = np.zeros(len(heads), column.dtype)
            if summed is None:
                np.add.at(sums, into, column)
            else:
                np.add.at(sums, into[summed], column[summed])
            return sums

        return Rows(
            timer=self.timer[heads],
            parent=parent,
            calls=added(self.calls),
            resumes=added(self.resumes),
            inclusive=added(self.inclusive),
            further={name: added(column) for name, column in self.further.items()},
            counted=None if self.counted is None else self.counted[heads],
        )


def merged(rows: Rows, timers: int) -> tuple[Rows, Column]:
    """Merge rows of equal timers under equal parents.

    Args:
        timers: number of timers.
    """
    head = np.arange(len(rows))  # the row into which each is merged
    parent = rows.parent
    candidates = head
    for _ in range(_ROUNDS):
        keys = (parent[candidates] + 1) * timers + rows.timer[candidates]
        order = np.argsort(keys, kind="stable")
        begins = np.empty(len(order), bool)
        begins[:1] = True
        np.not_equal(keys[order][1:], keys[order][:-1], out=begins[1:])
        if begins.all():
            break
        in_order = candidates[order]
        heads = in_order[begins][np.cumsum(begins) - 1]
        gone = in_order != heads
        head[in_order[gone]] = heads[gone]
        parent = np.where(parent >= 0, head[parent], -1)
        # Only the children of rows that absorbed others can have become equal.
        grown = np.zeros(len(rows), bool)
        grown[heads[gone]] = True
        candidates = np.flatnonzero((head == np.arange(len(rows))) & grown[parent] & (parent >= 0))
    else:
        return merged_in_order(rows, timers, frozenset())
    while not np.array_equal(head[head], head):
        head = head[head]
    heads = np.flatnonzero(head == np.arange(len(rows)))
    into = np.searchsorted(heads, head)
    return rows.put(into, heads), into


def folded(rows: Rows, library: Sequence[bool]) -> tuple[Rows, Column]:
    """Fold library code called by library code into its caller, whose time already includes it;
    its calls are dropped.

    Args:
        library: for each timer, whether it is library code.
    """
    of_library = np.array(library, bool)[rows.timer]
    goes = of_library & of_library[rows.parent] & (rows.parent > 0)
    kept = np.where(goes, rows.parent, np.arange(len(rows)))
    while not np.array_equal(kept[kept], kept):
        kept = kept[kept]
    heads = np.flatnonzero(~goes)
    into = np.searchsorted(heads, kept)
    return rows.put(into, heads, ~goes), into


def merged_in_order(rows: Rows, timers: int, ranges: frozenset[int]) -> tuple[Rows, Column]:
    """Like `merged`, but also handles ranges that did not continue where they began.

    Args:
        ranges: timers of ranges. A row of a range without calls continues a range from above,
            or the range began in a wrapper of the program.
    """
    calls, resumes = rows.calls.tolist(), rows.resumes.tolist()
    into: list[int] = []
    heads: list[int] = []
    at: dict[int, int] = {}
    called: list[int] = []  # calls of the new rows
    summed = np.ones(len(rows), bool)
    again: list[tuple[int, int]] = []  # a row's numbers also count in a second row
    has_rows_below = set(rows.parent.tolist())
    went_on: dict[int, int] = {}  # rows in a range that continued -> the range
    for row, (timer, up) in enumerate(zip(rows.timer.tolist(), rows.parent.tolist(), strict=True)):
        under = -1 if up < 0 else into[up]
        if timer in ranges and calls[row] == 0 and under >= 0:
            if resumes[row] or row not in has_rows_below:  # not in a fork's child
                into.append(under)
                summed[row] = False
                went_on[row] = timer
                continue
        elif up in went_on and calls[row] == 0:
            # A generator resumes; it counts in the range if the range began inside it.
            outside = at.get((under + 1) * timers + timer, -1)
            inside = at.get((outside + 1) * timers + went_on[up], -1)
            if min(outside, inside) >= 0 and called[inside]:
                into.append(inside)
                again.append((outside, row))
                continue
        place = at.setdefault((under + 1) * timers + timer, len(heads))
        if place == len(heads):
            heads.append(row)
            called.append(0)
        called[place] += calls[row]
        into.append(place)
    row_of = np.array(into, "i8")
    result = rows.put(row_of, np.array(heads, "i8"), summed)
    for outside, row in again:
        result.resumes[outside] += rows.resumes[row]
        result.inclusive[outside] += rows.inclusive[row]
        for name, column in result.further.items():
            column[outside] += rows.further[name][row]
    return result, row_of


def sums_below(column: Column, parent: Column) -> Column:
    """For each row, the sum of its children's values."""
    below = np.zeros(len(column), column.dtype)
    np.add.at(below, parent[1:], column[1:])
    return below


def whole_and_own(inclusive: Column, parent: Column) -> tuple[Column, Column]:
    """Inclusive values that are at least their children's sum, and exclusive values.

    A row can have less than its children only if the process was killed between two writes; then
    the children's values are used.
    """
    below = sums_below(inclusive, parent)
    if (inclusive < below).any():
        values, up = inclusive.tolist(), parent.tolist()
        children = [0] * len(values)
        for row in range(len(values) - 1, -1, -1):
            values[row] = max(values[row], children[row])
            if row:
                children[up[row]] += values[row]
        inclusive, below = np.array(values, "i8"), np.array(children, "i8")
    return inclusive, inclusive - below


def whole_and_own_where_counted(
    inclusive: Column, parent: Column, counted: Mask
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Like `whole_and_own`, if only some call paths were counted; the others have no values.

    A call path's exclusive value is its inclusive value minus those of the nearest counted call
    paths below it.
    """
    values, above, is_counted = inclusive.tolist(), parent.tolist(), counted.tolist()
    below = [0] * len(values)
    whole, own = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for row in range(len(values) - 1, -1, -1):
        value = below[row]
        if is_counted[row]:
            value = max(value, values[row])
            whole[row], own[row] = value, value - below[row]
        if row:
            below[above[row]] += value
    return whole, own


def totals(own: Column, parent: Column) -> Column:
    """For each row, its value and those of all rows below it."""
    values, up = own.tolist(), parent.tolist()
    for row in range(len(values) - 1, 0, -1):
        values[up[row]] += values[row]
    return np.array(values, "i8")
