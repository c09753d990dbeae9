"""Rows by hand: short spellings for what the database would give."""

from __future__ import annotations

from taupy.model.answer import Answer
from taupy.model.formula import Formula
from taupy.model.profile import TIME
from taupy.model.rows import FlatRow, ThreadRow, TimerRow, TreeRow
from taupy.model.table import Column, Table


def thread(node=0, context=0, number=0, name="", kind="host"):
    return ThreadRow(node, context, number, kind, name)


def flat(
    timer,
    calls,
    subroutines,
    exclusive,
    inclusive,
    *,
    place=(0, 0, 0),
    groups="PYTHON",
    short_name=None,
    file=None,
    line=None,
):
    short_name = short_name or timer.split(" [{")[0]
    return FlatRow(
        *place, timer, short_name, file, line, groups, calls, subroutines, inclusive, exclusive
    )


def tree(*calls, place=(0, 0, 0), first_id=1, groups=None, files=None):
    """Call paths as `(depth, timer, calls, exclusive)`, in the order of a printed tree.

    Inclusive and subroutines follow from the tree's laws: a call path's inclusive is
    its exclusive plus its children's inclusive, its subroutines its children's calls.
    """
    groups, files = groups or {}, files or {}
    parents, path = [], []
    for at, (depth, *_) in enumerate(calls):
        del path[depth:]
        parents.append(path[-1] if path else None)
        path.append(at)
    inclusive = [exclusive for *_, exclusive in calls]
    subroutines = [0] * len(calls)
    for at in range(len(calls) - 1, -1, -1):
        if parents[at] is not None:
            inclusive[parents[at]] += inclusive[at]
            subroutines[parents[at]] += calls[at][2]
    return [
        TreeRow(
            *place,
            first_id + at,
            None if parents[at] is None else first_id + parents[at],
            depth,
            timer,
            timer.split(" [{")[0],
            files.get(timer),
            None,
            groups.get(timer, "PYTHON"),
            count,
            subroutines[at],
            inclusive[at],
            exclusive,
        )
        for at, (depth, timer, count, exclusive) in enumerate(calls)
    ]


def answer(rows, metric=TIME):
    """What the database would give: rows of a flat profile or a tree as a table of sums."""
    labels = {
        "thread": [ThreadRow(*row[:3], "host", "") for row in rows],
        "timer": [TimerRow(row.timer, row.short_name, row.file, row.line, row.groups)
                  for row in rows],
    }  # fmt: skip
    if any(isinstance(row, TreeRow) for row in rows):
        labels["callpath"] = [row.callpath_id for row in rows]
        labels["parent"] = [row.parent_id for row in rows]
    codes = {}
    for name, column in labels.items():
        labels[name] = list(dict.fromkeys(column))
        code_of = {label: code for code, label in enumerate(labels[name])}
        codes[name] = [code_of[label] for label in column]
    columns = {
        Column("calls"): [row.calls for row in rows],
        Column("subroutines"): [row.subroutines for row in rows],
        Column("inclusive", metric.name, metric.unit): [
            None if row.inclusive != row.inclusive else row.inclusive for row in rows
        ],
        Column("exclusive", metric.name, metric.unit): [row.exclusive for row in rows],
    }
    table = Table(codes, labels, columns, len(rows))
    return Answer(metric, Formula.measured(metric.name, metric.unit), table)
