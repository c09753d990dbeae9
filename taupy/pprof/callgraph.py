"""Callers and callees of one routine.

A line covers the direct calls from one routine to the other: calls and exclusive are sums over
those calls; inclusive counts nested calls of the same pair once. A line among a routine's
callers therefore equals the caller's line among its callees. In recursion, lines may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.forest import outermost
from taupy.model.rows import TimerRow
from taupy.pprof import figures
from taupy.pprof.figures import Figures, Order
from taupy.pprof.flat import metric_remark
from taupy.pprof.view import Column, View

ROOT = TimerRow("(root)", "(root)", None, None, "")
"""The caller of routines that have none."""


def callers(answer: Answer, routine: str, order: Order) -> View:
    """Callers of the routine (full name), over all threads of the call paths."""
    timers = answer.timers
    parent = callpaths.parents(answer.table)
    named: list[TimerRow | None] = [None] * len(answer)
    for at, above in enumerate(parent):
        if timers[at].timer == routine:
            named[at] = timers[above] if above >= 0 else ROOT
    return _view("CALLERS", answer, parent, named, routine, order)


def callees(answer: Answer, routine: str, order: Order) -> View:
    """Routines that the routine (full name) calls, over all threads of the call paths."""
    timers = answer.timers
    parent = callpaths.parents(answer.table)
    named = [
        timers[at] if above >= 0 and timers[above].timer == routine else None
        for at, above in enumerate(parent)
    ]
    return _view("CALLEES", answer, parent, named, routine, order)


def _view(
    relation: str,
    answer: Answer,
    parent: Sequence[int],
    named: Sequence[TimerRow | None],
    routine: str,
    order: Order,
) -> View:
    """The routine itself, then its callers or callees.

    Args:
        named: for each row, the routine to which it counts; None if it does not count.
    """
    own = next(timer for timer in answer.timers if timer.timer == routine)
    mine = [own if timer.timer == routine else None for timer in answer.timers]
    itself, _ = _summed(answer, parent, mine)
    relatives, pairs = _summed(answer, parent, named)
    whole = itself[0].inclusive or 0
    relatives = [
        relative._replace(percent=figures.share(relative.inclusive, whole))
        for relative in relatives
    ]
    chosen = figures.first(relatives, order, pairs)
    first = itself[0]._replace(percent=100.0 if whole else None)
    lines = [("itself", first), *((relation[:-1].lower(), relative) for relative in chosen)]
    columns = figures.value_columns(answer.metric, order.plain)
    return View(
        f"{relation} of {routine}:{metric_remark(answer.metric)}",
        [Column("relation", "text", "Relation"), *columns, *figures.NAME_COLUMNS],
        [
            (word, *figures.value_cells(figure), *figures.name_cells(figure))
            for word, figure in lines
        ],
    )


def _summed(
    answer: Answer, parent: Sequence[int], named: Sequence[TimerRow | None]
) -> tuple[list[Figures], Answer]:
    """Figures of the rows that count, by the other routine of the pair, and their sums."""
    numbers: dict[str, int] = {}
    names: list[TimerRow] = []
    keys = [-1] * len(named)
    for at, other in enumerate(named):
        if other is not None:
            keys[at] = numbers.setdefault(other.timer, len(numbers))
            if keys[at] == len(names):
                names.append(other)
    summed = answer.summed(keys, len(names), outermost(parent, keys))
    return figures.of(figures.Values.of(summed), range(len(names)), names), summed
