"""A metric's values: a table of sums, and the formula that is applied to them last.

    answer = metrics.answer(db, trial, "ipc", by=("thread", "timer"))
    answer.values("exclusive")                per timer and thread
    answer.by("timer").values("exclusive")    per timer: the ratio of the sums

Only the sums are ever added (`by`, `grouped`), so ratios and other values that do not add up
never are.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from taupy.model import callpaths
from taupy.model.formula import Formula
from taupy.model.metric import Metric
from taupy.model.rows import FlatRow, ThreadRow, TimerRow, TreeRow
from taupy.model.table import Table

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question about a metric.

    Attributes:
        table: the sums that the formula needs, `calls` and `subroutines`.
    """

    metric: Metric
    formula: Formula
    table: Table

    def __len__(self) -> int:
        return len(self.table)

    @property
    def additive(self) -> bool:
        """Whether the values of parts add up to the value of the whole; false for ratios."""
        return self.formula.additive

    def values(self, value: Literal["inclusive", "exclusive"]) -> Sequence[float]:
        """The value of each row; NaN where it has none."""
        return self.formula.values(self.table, value)

    def measured(self) -> list[bool]:
        """For each row, whether all its sums were measured.

        Such a row counts in sums over several rows, even if it has no value itself.
        """
        both = zip(
            self.formula.is_measured(self.table, "inclusive"),
            self.formula.is_measured(self.table, "exclusive"),
            strict=True,
        )
        return [whole or own for whole, own in both]

    def calls(self) -> Sequence[int]:
        return self._counts("calls")

    def subroutines(self) -> Sequence[int]:
        return self._counts("subroutines")

    def _counts(self, value: str) -> Sequence[int]:
        numbers = self.table.column(value)
        return numbers if isinstance(numbers, array) else [int(count or 0) for count in numbers]

    def by(self, *dimensions: str) -> Answer:
        """Summed over all other dimensions."""
        return replace(self, table=self.table.by(*dimensions))

    def taken(self, rows: Sequence[int]) -> Answer:
        """These rows, in this order."""
        return replace(self, table=self.table.taken(rows))

    def total(self, rows: Iterable[int]) -> float:
        """The exclusive value of these rows combined; NaN where they have none."""
        chosen = self.taken([*rows]).by()
        return chosen.values("exclusive")[0] if len(chosen) else math.nan

    def summed(
        self, groups: Sequence[int], count: int, outermost: Iterable[int] | None = None
    ) -> Answer:
        """Groups of rows, without dimensions; see `Table.summed`."""
        columns = self.table.summed(groups, count, outermost)
        return replace(self, table=Table({}, {}, columns, count))

    def grouped(self, keys: Iterable[K | None]) -> tuple[list[K], Answer]:
        """Combine rows with equal keys, in the order in which keys first appear; see `summed`.

        Args:
            keys: one per row; None for a row that does not count.
        """
        of_rows = [*keys]
        names = [key for key in dict.fromkeys(of_rows) if key is not None]
        if len(names) == len(of_rows):
            return names, replace(self, table=replace(self.table, codes={}, labels={}))
        numbers: dict[K | None, int] = {None: -1}
        numbers.update(zip(names, range(len(names)), strict=True))
        return names, self.summed(list(map(numbers.__getitem__, of_rows)), len(names))

    @property
    def timers(self) -> list[TimerRow]:
        """The timer of each row."""
        rows: list[TimerRow] = self.table.row_labels("timer")
        return rows

    @property
    def threads(self) -> list[ThreadRow]:
        """The thread of each row."""
        rows: list[ThreadRow] = self.table.row_labels("thread")
        return rows


def flat_rows(answer: Answer) -> list[FlatRow]:
    """An answer by thread and timer as rows: by thread, decreasing inclusive value and name."""
    rows = [
        FlatRow._make((*thread[:3], *timer, calls, subroutines, inclusive, exclusive))
        for thread, timer, calls, subroutines, inclusive, exclusive, in zip(
            answer.table.row_labels("thread"), answer.table.row_labels("timer"), answer.calls(),
            answer.subroutines(), answer.values("inclusive"),
            answer.values("exclusive"), strict=True,
        )
    ]  # fmt: skip
    rows.sort(
        key=lambda row: (row.node, row.context, row.thread, _descending(row.inclusive), row.timer)
    )
    return rows


def tree_rows(answer: Answer) -> list[TreeRow]:
    """An answer by thread, call path, parent and timer as rows, in the answer's order."""
    parent = callpaths.parents(answer.table)
    paths = answer.table.row_labels("callpath")
    return [
        TreeRow._make(
            (*thread[:3], path, paths[above] if above >= 0 else None, depth, *timer,
             calls, subroutines, inclusive, exclusive)
        )
        for thread, path, above, depth, timer, calls, subroutines, inclusive, exclusive in zip(
            answer.table.row_labels("thread"), paths, parent, callpaths.depths(parent),
            answer.table.row_labels("timer"), answer.calls(), answer.subroutines(),
            answer.values("inclusive"),
            answer.values("exclusive"), strict=True,
        )
    ]  # fmt: skip


def in_order(answer: Answer) -> Answer:
    """Call paths in preorder, the largest siblings first."""
    inclusive = [-math.inf if value != value else value for value in answer.values("inclusive")]
    parent = callpaths.parents(answer.table)
    return answer.taken(callpaths.in_order(answer.table, inclusive, parent))


def _descending(value: float) -> float:
    return -value if value == value else math.inf
