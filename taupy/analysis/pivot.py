"""Tables of trials: labels down the side, labels across the top, one quantity in the cells.

Values come in one by one with their labels; trials that share a cell are summarized by
their median (or mean, minimum ...). A cell for which nothing was measured stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from taupy.analysis.compare import median
from taupy.errors import UsageError

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
        counts: how many trials share each cell.
    """

    rows: list[Labels]
    columns: list[Labels]
    cells: dict[tuple[Labels, Labels], float] = field(default_factory=dict)
    counts: dict[tuple[Labels, Labels], int] = field(default_factory=dict)

    def row(self, labels: Labels) -> list[float | None]:
        """The cells of a row, None where nothing was measured."""
        return [self.cells.get((labels, column)) for column in self.columns]


def pivoted(entries: Iterable[Entry], across: Across = "median") -> Pivot:
    """Put the values in their cells; labels are ordered as people count (2 before 16)."""
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
    """A key for sorting labels as people do: numbers in them by size."""
    return tuple(
        tuple(
            (0, float(part), "") if part[0].isdigit() else (1, 0.0, part.lower())
            for part in re.findall(r"\d+(?:\.\d+)?|\D+", label)
        )
        for label in labels
    )


def by_size(table: Pivot, outer: int, limit: int | None = None) -> tuple[Pivot, int]:
    """Rows with the same first `outer` labels ordered from large to small, and cut off.

    Returns:
        The table, and how many rows were left out.
    """

    def size(row: Labels) -> float:
        return max((abs(value) for value in table.row(row) if value is not None), default=0.0)

    rows = sorted(table.rows, key=lambda row: (natural(row[:outer]), -size(row)))
    return first(replace(table, rows=rows), outer, limit)


def first(table: Pivot, outer: int, limit: int | None = None) -> tuple[Pivot, int]:
    """The first rows with the same first `outer` labels, which are next to each other.

    Returns:
        The table, and how many rows were left out.
    """
    groups: dict[Labels, list[Labels]] = {}
    for row in table.rows:
        groups.setdefault(row[:outer], []).append(row)
    rows = [row for members in groups.values() for row in members[:limit]]
    return replace(table, rows=rows), len(table.rows) - len(rows)


def relative_to(table: Pivot, wanted: str) -> tuple[Pivot, Labels]:
    """Every cell divided by the one in the baseline's column of the same row.

    A row without a baseline has no cells left. `wanted` may be part of a label, as long as
    only one column has it.

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
    from difflib import get_close_matches

    near = get_close_matches(wanted, spelled, n=1, cutoff=0.5)
    raise UsageError(
        f"--baseline '{wanted}' is none of the columns ({', '.join(spelled)})"
        + (f"; {near[0]} is near it" if near else "")
    )
