"""Additional metrics of a table, one column each (`--also`).

A flat table shows exclusive values, a call tree inclusive ones. Over several threads, a ratio is
the ratio of the sums; it has no mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from taupy.model.absent import none_if_nan
from taupy.model.answer import Answer
from taupy.model.rows import ThreadRow, TimerRow
from taupy.pprof import figures, paths
from taupy.pprof.selection import place_of
from taupy.pprof.view import Cell, Column, View

_SUMMARIES = ("total", "mean")


def with_metrics(
    view: View,
    others: Sequence[Answer],
    plain: bool,
    kinds: Mapping[str, Sequence[ThreadRow]],
) -> View:
    """The table with the other metrics' columns before the names; other views unchanged.

    Minima, maxima and deviations over threads exist for the table's main metric only.

    Args:
        kinds: as in the views: the threads that a table of sums over a kind of thread adds up.
    """
    names = [column.name for column in view.columns]
    if "table" not in names or "timer" not in names:
        return view
    in_tree = "callpath_id" in names
    first = dict(zip(names, view.rows[0], strict=True)) if view.rows else {}
    if (kind := first.get("thread_name")) in kinds and first["table"] != "thread":
        mine = {place_of(thread) for thread in kinds[str(kind)]}
        others = [
            other.taken([at for at, thread in enumerate(other.threads) if place_of(thread) in mine])
            for other in others
        ]
    if in_tree and first.get("table") == "total":
        others = [paths.over_threads(other) for other in others]
    at = names.index("outline" if in_tree else "timer")
    columns: list[Column] = []
    cells: list[list[Cell]] = [[] for _ in view.rows]
    for other in others:
        word = "inclusive" if in_tree else "exclusive"
        kind = figures.value_kind(other.metric, plain)
        unit = "msec" if other.metric.unit == "ns" else other.metric.unit
        name = figures.value_name(f"{other.metric.name}_{word}", other.metric)
        columns.append(
            Column(name, kind, f"{other.metric.name}\n{unit}", width=10, says_empty=True)
        )
        column = _column(view, other, names, in_tree)
        for row, value in zip(cells, column, strict=True):
            row.append(value)
    return replace(
        view,
        columns=[*view.columns[:at], *columns, *view.columns[at:]],
        rows=[(*row[:at], *more, *row[at:]) for row, more in zip(view.rows, cells, strict=True)],
    )


def _column(view: View, other: Answer, names: Sequence[str], in_tree: bool) -> list[Cell]:
    value: Literal["inclusive", "exclusive"] = "inclusive" if in_tree else "exclusive"
    keyed, key_at = ("callpath", "callpath_id") if in_tree else ("timer", "timer")
    by_thread = {
        (place_of(thread), _key(label)): number
        for thread, label, number in zip(
            other.threads, other.table.row_labels(keyed), other.values(value), strict=True
        )
    }
    over = other.by(keyed)
    summed = dict(zip(map(_key, over.table.row_labels(keyed)), over.values(value), strict=True))
    threads = len({place for place, _ in by_thread})
    table, first, at = names.index("table"), names.index("node"), names.index(key_at)
    column: list[Cell] = []
    for cells in view.rows:
        key = cells[at]
        if cells[table] == "thread":
            place = tuple(cells[first : first + 3])
            column.append(none_if_nan(by_thread.get((place, key))))  # type: ignore[arg-type]
        elif cells[table] in _SUMMARIES and key in summed:
            share = threads if cells[table] == "mean" and other.additive else 1
            column.append(summed[key] / share)
        else:
            column.append(None)
    return column


def _key(label: TimerRow | int) -> Hashable:
    """How a view names a timer or a call path."""
    return label.timer if isinstance(label, TimerRow) else label
