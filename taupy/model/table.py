"""Columns of sums by dimensions: the answer to every question about values.

A table holds only what can be combined: sums, counts, minima and maxima. Tables of
parts of the data can therefore be joined (`combine`), and groups of rows merged (`by`,
`grouped`), without reading the data again. What does not add up, such as a ratio, is computed
from a table's columns at the very end (`model/formula.py`).

Labels are stored once: for each dimension a row holds a code, the position of its label among
the dimension's labels. None in a column means that nothing was measured, which is not the same as
0.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add
from typing import Any, Literal

from taupy.dataclass import NamedTuple, dataclass, replace
from taupy.model.forest import MANY, by_first, taken

Amount = int | float | None
How = Literal["sum", "max", "min"]


class Column(NamedTuple):
    """What a column holds.

    Attributes:
        value: "exclusive", "inclusive", "calls" or "subroutines".
        metric: as the question names it; empty for values independent of any metric.
        how: how several numbers are combined.
    """

    value: str
    metric: str = ""
    unit: str = ""
    how: How = "sum"


@dataclass(frozen=True, slots=True)
class Table:
    """Sums by dimensions.

    Attributes:
        codes: for each dimension, one code per row.
        labels: for each dimension, the label of each code.
        columns: for each column, one number per row.
        size: number of rows.
    """

    codes: Mapping[str, Sequence[int]]
    labels: Mapping[str, Sequence[Any]]
    columns: Mapping[Column, Sequence[Amount]]
    size: int

    def __len__(self) -> int:
        return self.size

    def column(self, value: str, metric: str = "") -> Sequence[Amount]:
        """Each row's sum.

        Raises:
            KeyError: the question did not include it.
        """
        return self.columns[self.named(value, metric)]

    def named(self, value: str, metric: str = "") -> Column:
        """The column of this value and metric; KeyError if there is none."""
        for column in self.columns:
            if column.value == value and column.metric == metric:
                return column
        raise KeyError(f"{value} {metric}".strip())

    def row_labels(self, dimension: str) -> list[Any]:
        """The label of each row."""
        return list(map(self.labels[dimension].__getitem__, self.codes[dimension]))

    def taken(self, rows: Sequence[int]) -> Table:
        """These rows, in this order."""
        chosen = array("q", rows)
        return Table(
            {name: _taken(codes, chosen) for name, codes in self.codes.items()},
            self.labels,
            {name: _taken(column, chosen) for name, column in self.columns.items()},
            len(rows),
        )

    def where(self, dimension: str, is_kept: Callable[[Any], bool]) -> Table:
        """The rows whose label meets the condition, with the labels that they have, in the order of
        their rows: as the answer to a question with this condition."""
        kept = list(map(is_kept, self.labels[dimension]))
        if all(kept):
            return self
        of_rows = self.codes[dimension]
        taken = self.taken([row for row, code in enumerate(of_rows) if kept[code]])
        codes: dict[str, Sequence[int]] = {}
        labels: dict[str, Sequence[Any]] = {}
        for name, own in taken.codes.items():
            codes[name], firsts = numbered(own, size=len(taken))
            labels[name] = [self.labels[name][own[row]] for row in firsts]
        return replace(taken, codes=codes, labels=labels)

    def parts(self, dimension: str) -> dict[Any, Table]:
        """The table split by label."""
        labels = self.labels[dimension]
        rows: list[list[int]] = [[] for _ in labels]
        for row, code in enumerate(self.codes[dimension]):
            rows[code].append(row)
        return {label: self.taken(own) for label, own in zip(labels, rows, strict=True) if own}

    def by(self, *dimensions: str) -> Table:
        """Summed over all other dimensions.

        Inclusive values are dropped if timers are summed over, because they call each other.
        """
        groups, firsts = numbered(*(self.codes[name] for name in dimensions), size=self.size)
        kept = {name: [self.codes[name][row] for row in firsts] for name in dimensions}
        labels = {name: self.labels[name] for name in dimensions}
        columns = self.summed(groups, len(firsts))
        finest = "callpath" if "callpath" in self.codes else "timer"
        if finest in self.codes and finest not in dimensions:
            columns = {name: sums for name, sums in columns.items() if name.value != "inclusive"}
        return Table(kept, labels, columns, len(firsts))

    def summed(
        self,
        groups: Sequence[int],
        count: int,
        outermost: Iterable[int] | None = None,
    ) -> dict[Column, list[Amount]]:
        """The columns of a table whose rows are groups of this table's rows.

        Args:
            groups: each row's group, from 0; -1 for none.
            count: number of groups.
            outermost: rows whose inclusive values count, because they contain those of the
                others; None if all count.
        """
        if outermost is None:
            outermost = range(self.size)
        outermost = list(outermost)
        return {
            column: _together(
                column.how, values, groups, count,
                outermost if column.value == "inclusive" else range(self.size),
            )
            for column, values in self.columns.items()
        }  # fmt: skip


def _taken(column: Sequence[Any], rows: array[int]) -> Sequence[Any]:
    """These rows of a column, which may be an array."""
    if isinstance(column, array):
        return taken(column, rows)
    return list(map(column.__getitem__, rows))


_JOINED: Mapping[How, Callable[[Any, Any], Any]] = {"sum": add, "max": max, "min": min}


def numbered(*keys: Sequence[int], size: int) -> tuple[list[int], list[int]]:
    """A number per row, equal for equal keys, and the first row with each number."""
    if not keys:
        return [0] * size, [0] if size else []
    if len(keys) == 1 and size >= MANY:
        return by_first(keys[0])
    numbers: dict[Any, int] = {}
    groups: list[int] = []
    firsts: list[int] = []
    for row, key in enumerate(keys[0] if len(keys) == 1 else zip(*keys, strict=True)):
        number = numbers.setdefault(key, len(firsts))
        if number == len(firsts):
            firsts.append(row)
        groups.append(number)
    return groups, firsts


def combine(tables: Sequence[Table]) -> Table:
    """Combine tables of parts of the data into one; rows with equal labels are merged.

    Raises:
        ValueError: there is no table, or their columns or dimensions differ.
    """
    if not tables:
        raise ValueError("there are no tables to combine")
    first = tables[0]
    if any(
        list(table.codes) != list(first.codes) or list(table.columns) != list(first.columns)
        for table in tables
    ):
        raise ValueError("tables of different questions cannot be combined")
    labels: dict[str, list[Any]] = {}
    codes: dict[str, list[int]] = {}
    for name in first.codes:
        numbers: dict[Any, int] = {}
        codes[name] = []
        for table in tables:
            code_of = [numbers.setdefault(label, len(numbers)) for label in table.labels[name]]
            codes[name] += [code_of[code] for code in table.codes[name]]
        labels[name] = list(numbers)
    columns = {
        column: [value for table in tables for value in table.columns[column]]
        for column in first.columns
    }
    return merged(Table(codes, labels, columns, sum(map(len, tables))))


def merged(table: Table) -> Table:
    """The table with rows of equal labels merged."""
    groups, firsts = numbered(*table.codes.values(), size=table.size)
    if len(firsts) == table.size:
        return table
    codes = {name: [column[row] for row in firsts] for name, column in table.codes.items()}
    return Table(codes, table.labels, table.summed(groups, len(firsts)), len(firsts))


def _together(
    how: How, values: Sequence[Amount], groups: Sequence[int], count: int, rows: Iterable[int]
) -> list[Amount]:
    """One number per group; None if none of its rows has a value."""
    sums: list[Amount] = [None] * count
    joined = _JOINED[how]
    for row in rows:
        value, group = values[row], groups[row]
        if value is not None and group >= 0:
            before = sums[group]
            sums[group] = value if before is None else joined(before, value)
    return sums
