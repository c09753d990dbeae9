"""Sum call paths: into flat profiles, over folded rows, and over threads.

All functions are iterative and linear in the number of call paths: there may be a million, and
one may be a hundred thousand deep. Answers are by thread, call path, parent and timer, callers
before callees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.forest import outermost
from taupy.model.table import Table, numbered


def flattened(answer: Answer) -> Answer:
    """The flat profile of call paths: a recursive routine's inclusive is counted once."""
    table = answer.table
    keys = {name: table.codes[name] for name in ("thread", "timer")}
    groups, firsts = numbered(*keys.values(), size=len(table))
    columns = table.summed(groups, len(firsts), outermost(callpaths.parents(table), groups))
    codes = {name: [column[row] for row in firsts] for name, column in keys.items()}
    return replace(answer, table=Table(codes, table.labels, columns, len(firsts)))


def regrouped(answer: Answer, folded: Sequence[bool], across_threads: bool = False) -> Answer:
    """The same forest without some rows, with equal call paths merged.

    The exclusive value of a folded row is added to its nearest remaining ancestor. Its callees
    become children of that ancestor, and callees of the same routine are summed. Inclusive
    values do not change, because siblings never run inside each other. If a root is folded, its
    callees become roots.

    Args:
        folded: for each row, whether to fold it.
        across_threads: sum the call paths of all threads, under the first thread.
    """
    table, parent = answer.table, callpaths.parents(answer.table)
    home, firsts, above = _homes(table, parent, folded, across_threads)
    stays = [-1 if gone else group for gone, group in zip(folded, home, strict=True)]
    columns = table.summed(stays, len(firsts))
    for name, sums in table.summed(home, len(firsts)).items():
        if name.value == "exclusive":
            columns[name] = sums
    subroutines, calls = table.named("subroutines"), columns[table.named("calls")]
    lost = {home[row] for row, gone in enumerate(folded) if gone} - {-1}
    counted = [0 if group in lost else count for group, count in enumerate(columns[subroutines])]
    for group, under in enumerate(above):
        if under in lost:
            counted[under] = (counted[under] or 0) + (calls[group] or 0)
    columns[subroutines] = counted
    codes = {name: [column[row] for row in firsts] for name, column in table.codes.items()}
    if across_threads:
        codes["thread"] = [codes["thread"][0]] * len(firsts) if firsts else []
    paths = table.row_labels("callpath")
    codes["parent"] = range(len(firsts))  # type: ignore[assignment]
    parents = [paths[firsts[under]] if under >= 0 else None for under in above]
    labels = {**table.labels, "parent": parents}
    return replace(answer, table=Table(codes, labels, columns, len(firsts)))


def _homes(
    table: Table, parent: Sequence[int], folded: Sequence[bool], across_threads: bool
) -> tuple[list[int], list[int], list[int]]:
    """The group of each row; for each group, its first row and its parent group (-1 for none)."""
    numbers: dict[tuple[int, int, int], int] = {}
    home = [-1] * len(table)
    firsts: list[int] = []
    above: list[int] = []
    threads, timers = table.codes["thread"], table.codes["timer"]
    for row, over in enumerate(parent):
        under = home[over] if over >= 0 else -1
        if folded[row]:
            home[row] = under
            continue
        thread = -1 if across_threads or under >= 0 else threads[row]
        home[row] = numbers.setdefault((under, thread, timers[row]), len(firsts))
        if home[row] == len(firsts):
            firsts.append(row)
            above.append(under)
    return home, firsts, above


def over_threads(answer: Answer) -> Answer:
    """The call paths summed over all threads."""
    return regrouped(answer, [False] * len(answer), across_threads=True)
