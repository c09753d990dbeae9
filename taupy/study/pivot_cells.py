"""Tables of trials: labels down the side, labels across the top, one quantity in the cells.

The input are single values with their labels; trials that share a cell are summarized by their
median (or mean, minimum ...). Cells without measurements stay empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from taupy.analysis.compare import median
from taupy.errors import UsageError
from taupy.units import nearest

Across = Literal["median", "mean", "min", "max", "sum", "count"]
ACROSS: tuple[Across, ...] = get_args(Across)

Labels = tuple[str, ...]

_ACROSS: dict[Across, Callable[[Sequence[float]], float]] = {
    "median": median,
    "mean": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
    "sum": sum,
    "count": len,
}


class Entry(NamedTuple):
    """One trial's value for one cell."""

    row: Labels
    column: Labels
    value: float


@dataclass(slots=True)
class Pivot:
    """The table.

    Attributes:
        rows, columns: labels, in order.
        cells: by row and column; missing cells were not measured.
        counts: number of trials that share each cell.
    """

    rows: list[Labels]
    columns: list[Labels]
    cells: dict[tuple[Labels, Labels], float] = field(default_factory=dict)
    counts: dict[tuple[Labels, Labels], int] = field(default_factory=dict)

    def row(self, labels: Labels) -> list[float | None]:
        """The cells of a row, None where nothing was measured."""
        return [self.cells.get((labels, column)) for column in self.columns]


def pivoted(entries: Iterable[Entry], across: Across = "median") -> Pivot:
    """Put the values in their cells; labels are in natural order (2 before 16)."""
    values: dict[tuple[Labels, Labels], list[float]] = {}
    for entry in entries:
        if entry.value == entry.value:
            values.setdefault((entry.row, entry.column), []).append(float(entry.value))
    rows = sorted({row for row, _ in values}, key=natural)
    columns = sorted({column for _, column in values}, key=natural)
    pivot = Pivot(rows, columns)
    for place, kept in values.items():
        pivot.cells[place] = float(_ACROSS[across](kept))
        pivot.counts[place] = len(kept)
    return pivot


def natural(labels: Labels) -> tuple[tuple[tuple[int, float, str], ...], ...]:
    """A sort key for natural order: numbers within labels are compared by value."""
    return tuple(
        tuple(
            (0, float(part), "") if part[0].isdigit() else (1, 0.0, part.lower())
            for part in re.findall(r"\d+(?:\.\d+)?|\D+", label)
        )
        for label in labels
    )


def by_size(table: Pivot, outer: int, limit: int | None = None) -> tuple[Pivot, int]:
    """Sort rows with the same first `outer` labels from large to small, and keep the first `limit`.

    Returns:
        The table, and the number of rows omitted.
    """

    def size(row: Labels) -> float:
        return max((abs(value) for value in table.row(row) if value is not None), default=0.0)

    rows = sorted(table.rows, key=lambda row: (natural(row[:outer]), -size(row)))
    return first(replace(table, rows=rows), outer, limit)


def first(table: Pivot, outer: int, limit: int | None = None) -> tuple[Pivot, int]:
    """The first `limit` rows of each group with the same first `outer` labels.

    Returns:
        The table, and the number of rows omitted.
    """
    groups: dict[Labels, list[Labels]] = {}
    for row in table.rows:
        groups.setdefault(row[:outer], []).append(row)
    rows = [row for members in groups.values() for row in members[:limit]]
    return replace(table, rows=rows), len(table.rows) - len(rows)


def relative_to(table: Pivot, wanted: str) -> tuple[Pivot, Labels]:
    """Every cell divided by the cell of its row in the baseline's column.

    Rows without a baseline have no cells. `wanted` may be a part of a label that occurs in one
    column only.

    Raises:
        UsageError: no column has that name, or several have.
    """
    column = _column(table, wanted)
    cells = {}
    for (row, here), value in table.cells.items():
        base = table.cells.get((row, column))
        if base:
            cells[row, here] = value / base
    return Pivot(table.rows, table.columns, cells, table.counts), column


def _column(table: Pivot, wanted: str) -> Labels:
    spelled = {", ".join(column): column for column in table.columns}
    if wanted in spelled:
        return spelled[wanted]
    matches = [column for name, column in spelled.items() if wanted.lower() in name.lower()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(", ".join(column) for column in matches)
        raise UsageError(f"--baseline '{wanted}' may be any of {names}; say which")
    near = nearest(wanted, spelled, 1)
    raise UsageError(
        f"--baseline '{wanted}' is none of the columns ({', '.join(spelled)})"
        + (f"; {near[0]} is near it" if near else "")
    )
