"""Align the rows of trials and compute differences, ratios, shares and impact.

A *side* is one trial or a set of repeated runs; its value in a row is the median over the runs
that have the row. The other sides are compared with the first. Names are matched before
(`match.py`); noise is separated from changes afterwards (`significance.py`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)

Runs = Mapping[K, float]
"""One trial's values by row; a missing row is absent, which differs from 0."""


@dataclass(slots=True)
class Row(Generic[K]):
    """One row of a comparison.

    Attributes:
        key: identifies the row.
        values: each side's median, None if the side lacks the row.
        runs: each side's values, one per trial; NaN if a trial lacks the row.
        impact: contribution of this row to the change of the side that differs most. If a side
            lacks the row, its whole value is the impact.
    """

    key: K
    values: tuple[float | None, ...]
    runs: tuple[tuple[float, ...], ...]
    impact: float = 0.0

    def difference(self, side: int) -> float | None:
        """The value minus the first side's; None if either is absent."""
        here, first = self.values[side], self.values[0]
        return None if here is None or first is None else here - first

    def ratio(self, side: int) -> float | None:
        """The value divided by the first side's; None if either is absent or the first is 0."""
        here, first = self.values[side], self.values[0]
        return None if here is None or not first else here / first

    def present(self, side: int) -> int:
        """Number of the side's trials that have the row."""
        return sum(1 for value in self.runs[side] if value == value)

    @property
    def sides(self) -> tuple[int, ...]:
        """Positions of the sides that have the row."""
        return tuple(at for at, value in enumerate(self.values) if value is not None)


@dataclass(slots=True)
class Comparison(Generic[K]):
    """All rows, the one with the largest impact first.

    Attributes:
        totals: each side's totals, one per run, to which shares refer. Empty if values do not
            add up.
        additive: whether values of rows add up to the total.
    """

    rows: Sequence[Row[K]]
    totals: tuple[tuple[float, ...], ...] = ()
    additive: bool = True
    sides: int = 2
    whole: Row[str] | None = field(default=None)

    def share(self, row: Row[K], side: int) -> float | None:
        """The row's part of the side's total, in percent."""
        value = row.values[side]
        if value is None or not self.totals:
            return None
        whole = median(self.totals[side])
        return 100 * value / whole if whole and whole == whole else None


def compared(
    sides: Sequence[Sequence[Runs[K]]],
    totals: Sequence[Sequence[float]] | None = None,
    additive: bool = True,
) -> Comparison[K]:
    """Align the sides' rows.

    Args:
        sides: each side's trials; at least two sides.
        totals: each side's totals, one per trial; None if there are none.
        additive: False for ratios such as instructions per cycle.
    """
    rows: Sequence[Row[K]]
    if [len(side) for side in sides] == [1, 1] and not _has_nan(sides[0][0], sides[1][0]):
        rows = Pair(sides[0][0], sides[1][0], additive)  # by far the most frequent case
    else:
        rows = _rows(sides, additive)
    whole = None
    if totals is not None:
        runs = tuple(tuple(map(float, side)) for side in totals)
        values = tuple(_median_of_present(side) for side in runs)
        whole = Row("total", values, runs, _impact(values, True))
        return Comparison(rows, runs, additive, len(sides), whole)
    return Comparison(rows, (), additive, len(sides))


def _rows(sides: Sequence[Sequence[Runs[K]]], additive: bool) -> list[Row[K]]:
    keys: dict[K, None] = {}
    for side in sides:
        for trial in side:
            keys.update(dict.fromkeys(trial))
    rows = []
    for key in keys:
        runs = tuple([tuple([trial.get(key, math.nan) for trial in side]) for side in sides])
        values = tuple([_median_of_present(values) for values in runs])
        rows.append(Row(key, values, runs, _impact(values, additive)))
    rows = [row for row in rows if row.sides]
    # By impact, then by value, then in input order.
    rows.sort(key=_size, reverse=True)
    return rows


class Pair(Sequence[Row[K]]):
    """The rows of two trials, in order, each computed on access: few of them are ever shown."""

    def __init__(self, first: Runs[K], second: Runs[K], additive: bool) -> None:
        self._first, self._second = first, second
        alike = first.keys() == second.keys()
        keys = list(second) if alike else _in_both_first(first, second)
        self._keys = keys
        if alike:
            after = list(second.values())
            self._impacts = list(map(sub, after, map(first.__getitem__, keys)))
            order = sorted(range(len(keys)), key=after.__getitem__, reverse=True)
        else:
            alone = 1 if additive else 0
            self._impacts = [
                second[key] - first[key]
                if key in first and key in second
                else (second.get(key, 0.0) - first.get(key, 0.0)) * alone
                for key in keys
            ]
            order = list(range(len(keys)))
        order.sort(key=list(map(abs, self._impacts)).__getitem__, reverse=True)
        self._order = order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> Row[K]: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row[K]]: ...
    def __getitem__(self, at: int | slice) -> Row[K] | list[Row[K]]:
        if isinstance(at, slice):
            return [self._row(place) for place in self._order[at]]
        return self._row(self._order[at])

    def _row(self, place: int) -> Row[K]:
        key = self._keys[place]
        first, two = self._first.get(key), self._second.get(key)
        runs = (math.nan if first is None else first,), (math.nan if two is None else two,)
        return Row(key, (first, two), runs, self._impacts[place])


def _in_both_first(first: Runs[K], second: Runs[K]) -> list[K]:
    """Keys of both, then keys of the second only, then keys of the first only; each sorted by
    value, largest first."""
    by_value = sorted(second, key=second.__getitem__, reverse=True)
    gone = [key for key in first if key not in second]  # a set's order differs from run to run
    gone.sort(key=first.__getitem__, reverse=True)
    return [
        *(key for key in by_value if key in first),
        *(key for key in by_value if key not in first),
        *gone,
    ]


def _has_nan(first: Runs[K], second: Runs[K]) -> bool:
    whole = sum(first.values()) + sum(second.values())
    return whole != whole


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two. NaN if there are no values."""
    if len(values) == 1:
        return values[0]
    ordered = sorted(value for value in values if value == value)
    if not ordered:
        return math.nan
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _median_of_present(runs: Sequence[float]) -> float | None:
    middle = median(runs)
    return None if middle != middle else middle


def _impact(values: Sequence[float | None], additive: bool) -> float:
    first = values[0]
    largest = 0.0
    for value in values[1:]:
        if not additive and (value is None or first is None):
            continue
        change = (value or 0.0) - (first or 0.0)
        if abs(change) > abs(largest):
            largest = change
    return largest


def _size(row: Row[K]) -> tuple[float, float]:
    return abs(row.impact), max([abs(value) for value in row.values if value is not None])
