"""A part of a program: everything below a routine, or everything except imports and start-up.

The input is an answer by trial, thread, call path, parent and timer; the result is one by trial,
thread and timer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.forest import callers_first, outermost
from taupy.model.kinds import Named
from taupy.model.metric import ROOT_TIMER
from taupy.model.table import Amount, Column, Table, numbered

_IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_KEPT = ("trial", "thread", "timer")


def is_import(timer: Named) -> bool:
    """Whether it belongs to Python's import machinery; call paths below it are part of the import,
    too."""
    return timer.file in _IMPORTING or "IMPORT" in timer.groups.split("|")


def below(answer: Answer, matches: Callable[[Named], bool]) -> Answer:
    """The selected routines and everything that ran below them."""
    parent = _parents(answer.table)
    inside = _reached(answer, parent, matches)
    return _by_timer(answer, parent, inside)


def without_imports(answer: Answer) -> Answer:
    """Everything except imports, the exit's own time and work outside routines, also in callers'
    inclusive values."""
    parent = _parents(answer.table)
    outside = _reached(answer, parent, is_import)
    columns = dict(answer.table.columns)
    for column in columns:
        if column.value == "inclusive":
            columns[column] = _less(columns[column], parent, outside)
    rest = replace(answer, table=replace(answer.table, columns=columns))
    kept = [
        not out and timer.timer != ROOT_TIMER and timer.groups != "EXIT"
        for out, timer in zip(outside, answer.timers, strict=True)
    ]
    return _by_timer(rest, parent, kept)


def _parents(table: Table) -> list[int]:
    """Each row's parent row; equal thread numbers of different trials are different threads."""
    count = len(table.labels["thread"])
    pairs = zip(table.codes["trial"], table.codes["thread"], strict=True)
    apart = [trial * count + thread for trial, thread in pairs]
    return callpaths.parents(replace(table, codes={**table.codes, "thread": apart}))


def _reached(answer: Answer, parent: Sequence[int], matches: Callable[[Named], bool]) -> list[bool]:
    """For each row, whether it belongs to a selected timer or is below one."""
    fits = [matches(timer) for timer in answer.table.labels["timer"]]
    fits_below = [fits[code] for code in answer.table.codes["timer"]]
    for row in callers_first(parent):
        if parent[row] >= 0 and fits_below[parent[row]]:
            fits_below[row] = True
    return fits_below


def _less(values: Sequence[Amount], parent: Sequence[int], outside: Sequence[bool]) -> list[Amount]:
    """Inclusive values minus those of the excluded rows below."""
    lost: list[int | float] = [0] * len(parent)
    for row in reversed(callers_first(parent)):
        above = parent[row]
        if above >= 0 and not outside[above]:
            lost[above] += (values[row] or 0) if outside[row] else lost[row]
    return [
        None if value is None else value - gone for value, gone in zip(values, lost, strict=True)
    ]


def _by_timer(answer: Answer, parent: Sequence[int], kept: Sequence[bool]) -> Answer:
    table = answer.table
    rows = [row for row, here in enumerate(kept) if here]
    numbers, firsts = numbered(
        *([table.codes[name][row] for row in rows] for name in _KEPT), size=len(rows)
    )
    groups = [-1] * table.size
    for row, number in zip(rows, numbers, strict=True):
        groups[row] = number
    columns: dict[Column, list[Amount]] = table.summed(
        groups, len(firsts), outermost(parent, groups)
    )
    first_rows = [rows[at] for at in firsts]
    codes = {name: [table.codes[name][row] for row in first_rows] for name in _KEPT}
    labels = {name: table.labels[name] for name in _KEPT}
    return replace(answer, table=Table(codes, labels, columns, len(firsts)))
