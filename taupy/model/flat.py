"""A thread's call tree summed by timer: the flat profile.

Every flat profile computed from a tree is computed here: the one stored with each trial, which
`values()` reads, and those of exported files and of `taupy top`.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from math import isnan

from taupy.dataclass import dataclass, field
from taupy.model.forest import outermost
from taupy.model.profile import CallTree


@dataclass(slots=True)
class FlatSums:
    """One timer on one thread, summed over all its call paths.

    `inclusive` and `exclusive` lack a metric for which no row of the timer has a value.
    """

    calls: int = 0
    subroutines: int = 0
    inclusive: dict[str, int] = field(default_factory=dict)
    exclusive: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether all numbers are 0: the timer is only an ancestor of others."""
        return not (
            self.calls
            or self.subroutines
            or any(self.inclusive.values())
            or any(self.exclusive.values())
        )

    def has_run(self, on_stream: bool) -> bool:
        """Whether it ran here: on a GPU stream, host routines are only launch sites of kernels."""
        return not self.is_empty and (self.calls > 0 or not on_stream)


def flat_sums(tree: CallTree, timers: Sequence[int]) -> dict[int, FlatSums]:
    """Sum a tree by timer.

    Calls, subroutines and exclusive are summed over all rows of a timer, inclusive
    over the outermost ones only, which already contain the time of recursive calls.

    Args:
        tree: must satisfy the structural invariants.
        timers: each row's timer id; rows with equal ids are summed.
    """
    sums: dict[int, FlatSums] = {timer: FlatSums() for timer in timers}
    for timer, calls, subroutines in zip(timers, tree.calls, tree.subroutines, strict=True):
        flat = sums[timer]
        flat.calls += calls
        flat.subroutines += subroutines
    top = outermost(tree.parent, timers)
    for metric, column in tree.exclusive.items():
        for timer, total in _totals(timers, column, range(len(column))).items():
            sums[timer].exclusive[metric] = total
    for metric, column in tree.inclusive.items():
        for timer, total in _totals(timers, column, top).items():
            sums[timer].inclusive[metric] = total
    return sums


def _totals(timers: Sequence[int], column: array[int], rows: Collection[int]) -> dict[int, int]:
    """The column's sum over the rows, by timer; rows without a value (NaN) are skipped."""
    if column.typecode == "d":
        rows = [row for row in rows if not isnan(column[row])]
    totals = dict.fromkeys(map(timers.__getitem__, rows), 0)
    for row in rows:
        totals[timers[row]] += column[row]
    return totals
