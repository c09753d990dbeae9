"""Align the rows of trials and compute differences, ratios, shares and impact.

A *side* is one trial or a set of repeated runs; its value in a row is the median over the runs
that have the row. The other sides are compared with the first. Names are matched before
(`match.py`); noise is separated from changes afterwards (`significance.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter, sub
from typing import Any, Generic, TypeVar, overload

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

    rows: Rows[K]
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
    if [len(side) for side in sides] == [1, 1] and not _has_nan(sides[0][0], sides[1][0]):
        rows = Rows(sides, *_of_pair(sides[0][0], sides[1][0], additive))  # nearly always
    else:
        rows = Rows(sides, *_of_all(sides, additive))
    whole = None
    if totals is not None:
        runs = tuple(tuple(map(float, side)) for side in totals)
        values = tuple(_median_of_present(side) for side in runs)
        whole = Row("total", values, runs, _impact(values, True))
        return Comparison(rows, runs, additive, len(sides), whole)
    return Comparison(rows, (), additive, len(sides))


class Rows(Sequence[Row[K]]):
    """Rows in order, each computed on access: few of a million are ever shown.

    Attributes:
        sides: each side's trials.
        keys, impacts: of each row.
    """

    def __init__(
        self, sides: Sequence[Sequence[Runs[K]]], keys: Sequence[K], impacts: Sequence[float]
    ) -> None:
        self.sides = sides
        self.keys = keys
        self.impacts = impacts

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> Row[K]: ...
    @overload
    def __getitem__(self, at: slice) -> Rows[K]: ...
    def __getitem__(self, at: int | slice) -> Row[K] | Rows[K]:
        if isinstance(at, slice):
            return Rows(self.sides, self.keys[at], self.impacts[at])
        key = self.keys[at]
        runs = tuple([tuple([trial.get(key, math.nan) for trial in side]) for side in self.sides])
        return Row(key, tuple(map(_median_of_present, runs)), runs, self.impacts[at])

    def by(self, order: Callable[[Row[K]], Any]) -> Rows[K]:
        """The rows in another order; equal ones stay as they are."""
        sizes = [*map(order, self)]
        places = sorted(range(len(self)), key=sizes.__getitem__)
        keys, impacts = [self.keys[at] for at in places], [self.impacts[at] for at in places]
        return Rows(self.sides, keys, impacts)

    def others(self, shown: Rows[K], side: int, trials: Sequence[Runs[K]]) -> float | None:
        """The sum of medians in the rows that are not shown; None if there are none. A million
        numbers are read much faster in the order in which they were stored.

        Args:
            trials: those of the side, if they are known: their values, or their calls.
        """
        hidden = {*shown.keys}
        if len(trials) == 1:
            cells = iter(trials[0].items())
            if not trials[0].keys() <= self.sides[side][0].keys():  # some may be no rows
                rows = {*self.keys}
                cells = (cell for cell in cells if cell[0] in rows)
            present = [cell for key, cell in cells if key not in hidden and cell == cell]
        else:
            left = {*self.keys}.difference(hidden)
            keys = [key for key in dict.fromkeys(chain.from_iterable(trials)) if key in left]
            present = [cell for cell in medians(trials, keys) if cell is not None]
        return sum(present) if present else None

    @property
    def is_complete(self) -> bool:
        """Whether each trial has each row; of trials without NaN."""
        return all(len(trial) == len(self) for side in self.sides for trial in side)

    def values(self, side: int) -> Sequence[float | None]:
        """A side's median in each row; None if it lacks the row."""
        return medians(self.sides[side], self.keys)


def medians(trials: Sequence[Runs[K]], keys: Sequence[K]) -> Sequence[float | None]:
    """The median of each key over the trials that have it; None if none has."""
    if len(trials) == 1:
        return [None if value != value else value for value in map(trials[0].get, keys)]
    return [_median_of_present([trial.get(key, math.nan) for trial in trials]) for key in keys]


def _of_all(sides: Sequence[Sequence[Runs[K]]], additive: bool) -> tuple[list[K], list[float]]:
    """The keys that have values, and their impacts: by impact, then by value, then in input
    order."""
    keys = [*dict.fromkeys(key for side in sides for trial in side for key in trial)]
    rows = []
    for key, *values in zip(keys, *(medians(side, keys) for side in sides), strict=True):
        present = [abs(value) for value in values if value is not None]
        if present:
            impact = _impact(values, additive)
            rows.append((abs(impact), max(present), key, impact))
    rows.sort(key=itemgetter(0, 1), reverse=True)
    return [key for *_, key, _ in rows], [impact for *_, impact in rows]


def _of_pair(first: Runs[K], second: Runs[K], additive: bool) -> tuple[list[K], list[float]]:
    """The same of two trials."""
    keys = list(second)
    if keys == list(first):
        after = list(second.values())
        impacts = list(map(sub, after, first.values()))
        order = sorted(range(len(keys)), key=after.__getitem__, reverse=True)
    else:
        keys = _in_both_first(first, second)
        alone = 1 if additive else 0
        impacts = [
            second[key] - first[key]
            if key in first and key in second
            else (second.get(key, 0.0) - first.get(key, 0.0)) * alone
            for key in keys
        ]
        order = list(range(len(keys)))
    order.sort(key=list(map(abs, impacts)).__getitem__, reverse=True)
    return [keys[at] for at in order], [impacts[at] for at in order]


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
