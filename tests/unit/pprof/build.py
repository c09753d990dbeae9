"""Rows by hand: short spellings for what the database would give."""

from __future__ import annotations

from taupy.model.rows import FlatRow, ThreadRow, TreeRow


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
