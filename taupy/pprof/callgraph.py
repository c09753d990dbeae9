"""Callers and callees of one routine.

A line says what happened while one routine was called directly by the other: calls
and exclusive are sums over those calls; inclusive counts a call inside another one
of the same pair once. So a line of a routine's callers is the same as the caller's
line among its callees; in recursion, lines may overlap each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model.forest import outermost
from taupy.model.profile import Metric
from taupy.model.rows import TreeRow
from taupy.pprof import figures, paths
from taupy.pprof.figures import Figures, Order
from taupy.pprof.flat import metric_remark
from taupy.pprof.view import Column, View

ROOT = "(root)"
"""The caller of what nobody calls."""


def callers(rows: Sequence[TreeRow], routine: str, metric: Metric, order: Order) -> View:
    """Who calls the routine (its full name), over all threads of the rows."""
    parent = paths.parents(rows)
    named: list[TreeRow | str | None] = [None] * len(rows)
    for at, (row, above) in enumerate(zip(rows, parent, strict=True)):
        if row.timer == routine:
            named[at] = rows[above] if above >= 0 else ROOT
    found = _pairs(rows, parent, named, routine)
    return _view("CALLERS", rows, routine, found, metric, order)


def callees(rows: Sequence[TreeRow], routine: str, metric: Metric, order: Order) -> View:
    """Whom the routine (its full name) calls, over all threads of the rows."""
    parent = paths.parents(rows)
    named = [
        row if parent[at] >= 0 and rows[parent[at]].timer == routine else None
        for at, row in enumerate(rows)
    ]
    found = _pairs(rows, parent, named, routine)
    return _view("CALLEES", rows, routine, found, metric, order)


def _pairs(
    rows: Sequence[TreeRow],
    parent: Sequence[int],
    named: Sequence[TreeRow | str | None],
    routine: str,
) -> list[Figures]:
    """Sums of the rows that count, by the other routine of the pair.

    Args:
        named: for each row the routine it counts for, None where it does not count.
    """
    numbers: dict[str, int] = {}
    firsts: list[TreeRow | str] = []
    keys = [-1] * len(rows)
    for at, other in enumerate(named):
        if other is not None:
            name = other if isinstance(other, str) else other.timer
            keys[at] = numbers.setdefault(name, len(numbers))
            if keys[at] == len(firsts):
                firsts.append(other)
    calls, subroutines = [0] * len(firsts), [0] * len(firsts)
    exclusive: list[float] = [0] * len(firsts)
    inclusive: list[float] = [0] * len(firsts)
    for key, row in zip(keys, rows, strict=True):
        if key >= 0:
            calls[key] += row.calls
            subroutines[key] += row.subroutines
            exclusive[key] += row.exclusive
    for at in outermost(parent, keys):
        inclusive[keys[at]] += rows[at].inclusive
    whole = _own(rows, routine).inclusive or 0
    return [
        Figures(
            *((other, other, None, None, "") if isinstance(other, str) else other[6:11]),
            calls[key],
            subroutines[key],
            exclusive[key],
            inclusive[key],
            figures.share(inclusive[key], whole),
            figures.ratio(exclusive[key], calls[key]),
            figures.ratio(inclusive[key], calls[key]),
        )
        for key, other in enumerate(firsts)
    ]


def _own(rows: Sequence[TreeRow], routine: str) -> Figures:
    """The routine's own sums."""
    mine = [row for row in rows if row.timer == routine]
    keys = [0 if row.timer == routine else -1 for row in rows]
    inclusive = sum(rows[at].inclusive for at in outermost(paths.parents(rows), keys))
    calls, exclusive = sum(row.calls for row in mine), sum(row.exclusive for row in mine)
    return Figures(
        *mine[0][6:11],
        calls,
        sum(row.subroutines for row in mine),
        exclusive,
        inclusive,
        100.0 if inclusive else None,
        figures.ratio(exclusive, calls),
        figures.ratio(inclusive, calls),
    )


def _view(
    relation: str,
    rows: Sequence[TreeRow],
    routine: str,
    found: Sequence[Figures],
    metric: Metric,
    order: Order,
) -> View:
    chosen = figures.limited(figures.ordered(found, order), order.limit)
    lines = [("itself", _own(rows, routine)), *((relation[:-1].lower(), one) for one in chosen)]
    return View(
        f"{relation} of {routine}:{metric_remark(metric)}",
        [Column("relation", "text", "Relation"), *figures.value_columns(metric, order.plain),
         *figures.NAME_COLUMNS],
        [(word, *figures.value_cells(one), *figures.name_cells(one)) for word, one in lines],
    )  # fmt: skip
