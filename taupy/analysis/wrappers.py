"""Wrappers of libraries: what a program calls there is the routine that the wrapper is for.

A decorator returns a function that is defined within it, which passes calls on, or one that it has
compiled for a routine, after which it is named: `argmap_pagerank_4` of networkx, or `pagerank`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from taupy.analysis.own_code import generated_for
from taupy.analysis.trees import Tree
from taupy.model.callpaths import rolled_up
from taupy.model.forest import Links
from taupy.model.rows import TimerRow

_HARDLY = 0.1
"""Share of its time that a function takes itself which only passes calls on."""
_DEEP = 4
"""Calls below generated code among which the routine is looked for that it is named for."""


def wrappers(
    tree: Tree, own: Sequence[bool], callers_first: Callable[[], Sequence[int]]
) -> tuple[set[int], Sequence[int]]:
    """The timers that pass on calls of the program, and the timer of each row: that of a function
    which was compiled for a routine is the routine's.

    Args:
        own: of each timer, whether it is the program's own.
        callers_first: the rows in that order.
    """
    timer, parent, timers = tree.timer, tree.parent, tree.timers
    others = [code for code, mine in enumerate(own) if not mine]
    nested = {code for code in others if _is_nested(timers[code])}
    generated = {code for code in others if _is_generated(timers[code])}
    if not nested and not generated:
        return set(), timer
    order, rows = callers_first(), set[int]()
    for row in order:
        code, above = timer[row], parent[row]
        is_wrapper = (code in nested or code in generated) and above >= 0
        if is_wrapper and (own[timer[above]] or (above in rows and timer[above] in nested)):
            rows.add(row)
    if not rows:
        return set(), timer
    children, ns = Links(parent).children, rolled_up(tree.exclusive, parent, order)
    mine: dict[int, float] = defaultdict(float)
    whole: dict[int, float] = defaultdict(float)
    changed = list(timer)
    for row in rows:
        code = timer[row]
        if code in nested:
            mine[code] += tree.exclusive[row] or 0
            whole[code] += ns[row] or 0
            continue
        below = row
        for _ in range(_DEEP):
            below = max(children(below), key=lambda child: ns[child] or 0, default=row)
            if below == row:
                break
            if not own[timer[below]] and _last(timers[timer[below]]) in timers[code].short_name:
                changed[row] = timer[below]
                break
    return {code for code, ns in mine.items() if ns <= _HARDLY * whole[code]}, changed


def _last(timer: TimerRow) -> str:
    return timer.short_name.rpartition(".")[2]


def _is_nested(timer: TimerRow) -> bool:
    _, within, name = timer.short_name.rpartition(".<locals>.")
    return bool(within) and name.isidentifier() and not _is_generated(timer)


def _is_generated(timer: TimerRow) -> bool:
    is_text = (timer.file or "").startswith("<") and not (timer.file or "").startswith("<frozen")
    return is_text and _last(timer).isidentifier() and generated_for(timer) is None
