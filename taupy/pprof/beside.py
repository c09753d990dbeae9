"""Other metrics beside the one that a table is of: a column for each.

A flat table gets exclusive values, a call tree inclusive ones. Values of several threads are
added with `+`, so that of a ratio the total is the ratio of the sums; there is no mean of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from taupy.model.profile import Metric
from taupy.model.rows import FlatRow, TreeRow
from taupy.pprof import figures
from taupy.pprof.selection import Place
from taupy.pprof.view import Cell, Column, View

_SUMMARIES = ("total", "mean")


@dataclass(frozen=True, slots=True)
class Beside:
    """One more metric; `rows` are of the threads that are shown, of a flat profile or a tree."""

    metric: Metric
    additive: bool
    rows: Sequence[FlatRow] | Sequence[TreeRow]


def with_metrics(view: View, others: Sequence[Beside], plain: bool) -> View:
    """The table with the others' columns before the names; any other view as it is.

    Minima, maxima and deviations over threads are of the table's own metric alone.
    """
    names = [column.name for column in view.columns]
    if "table" not in names or "timer" not in names:
        return view
    in_tree = "callpath_id" in names
    at = names.index("outline" if in_tree else "timer")
    columns: list[Column] = []
    cells: list[list[Cell]] = [[] for _ in view.rows]
    for other in others:
        word = "inclusive" if in_tree else "exclusive"
        kind = figures.value_kind(other.metric, plain)
        unit = "msec" if other.metric.unit == "ns" else other.metric.unit
        name = figures.value_name(f"{other.metric.name}_{word}", other.metric)
        columns.append(Column(name, kind, f"{other.metric.name}\n{unit}", width=10))
        column = _column(view, other, names, in_tree)
        for row, value in zip(cells, column, strict=True):
            row.append(value)
    return replace(
        view,
        columns=[*view.columns[:at], *columns, *view.columns[at:]],
        rows=[(*row[:at], *more, *row[at:]) for row, more in zip(view.rows, cells, strict=True)],
    )


def _column(view: View, other: Beside, names: Sequence[str], in_tree: bool) -> list[Cell]:
    by_thread: dict[tuple[Place, Hashable], float] = {}
    summed: dict[Hashable, float] = {}
    places = set()
    for row in other.rows:
        place = (row.node, row.context, row.thread)
        key: Hashable = row.callpath_id if isinstance(row, TreeRow) else row.timer
        value = row.inclusive if in_tree else row.exclusive
        by_thread[place, key] = value
        summed[key] = summed.get(key, 0) + value
        places.add(place)
    table, first = names.index("table"), names.index("node")
    key_at = names.index("callpath_id" if in_tree else "timer")
    found: list[Cell] = []
    for cells in view.rows:
        key = cells[key_at]
        if cells[table] == "thread":
            place = tuple(cells[first : first + 3])  # type: ignore[assignment]
            found.append(_cell(by_thread.get((place, key))))
        elif cells[table] in _SUMMARIES and key in summed:
            share = len(places) if cells[table] == "mean" and other.additive else 1
            found.append(_cell(summed[key] / share))
        else:
            found.append(None)
    return found


def _cell(value: float | None) -> Cell:
    """What is not a number is absent."""
    return value if value is None or value == value else None
