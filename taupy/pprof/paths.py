"""Call paths as a forest: who stands under whom, and what is summed along the way.

Everything here is iterative and linear in the number of call paths: there may be a
million, and one may be a hundred thousand deep.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model.forest import outermost
from taupy.model.rows import FlatRow, TreeRow
from taupy.pprof.selection import Place


def parents(rows: Sequence[TreeRow]) -> list[int]:
    """Each row's parent as a position in `rows`, -1 for a root (or an unknown parent)."""
    positions: dict[Place, dict[int, int]] = {}
    found = []
    for at, row in enumerate(rows):
        place = row.node, row.context, row.thread
        on_thread = positions.get(place)
        if on_thread is None:
            on_thread = positions[place] = {}
        on_thread[row.callpath_id] = at
        found.append(-1 if row.parent_id is None else on_thread.get(row.parent_id, -1))
    return found


def depths(parent: Sequence[int]) -> list[int]:
    """How many ancestors each row has."""
    found = [0] * len(parent)
    for at, above in enumerate(parent):
        if above >= 0:
            found[at] = found[above] + 1
    return found


def flattened(rows: Sequence[TreeRow]) -> list[FlatRow]:
    """The flat profile of call paths: a recursive routine's inclusive is counted once."""
    numbers: dict[tuple[int, int, int, str], int] = {}
    keys = [
        numbers.setdefault((row.node, row.context, row.thread, row.timer), len(numbers))
        for row in rows
    ]
    calls, subroutines = [0] * len(numbers), [0] * len(numbers)
    exclusive: list[float] = [0] * len(numbers)
    inclusive: list[float] = [0] * len(numbers)
    first: list[TreeRow | None] = [None] * len(numbers)
    for key, row in zip(keys, rows, strict=True):
        first[key] = first[key] or row
        calls[key] += row.calls
        subroutines[key] += row.subroutines
        exclusive[key] += row.exclusive
    for at in outermost(parents(rows), keys):
        inclusive[keys[at]] += rows[at].inclusive
    return [
        FlatRow(
            row.node, row.context, row.thread, row.timer, row.short_name, row.file, row.line,
            row.groups, calls[key], subroutines[key], inclusive[key], exclusive[key],
        )
        for key, row in enumerate(first)
        if row is not None
    ]  # fmt: skip


def regrouped(
    rows: Sequence[TreeRow], folded: Sequence[bool], across_threads: bool = False
) -> list[TreeRow]:
    """The same forest without some rows, and with equal call paths made one.

    What a folded row did itself is added to the row it is folded into, the nearest
    one above that stays; its callees hang there, and callees of the same routine are
    summed. Inclusive is unchanged by that, since siblings never run inside each other.
    A folded root goes, and its callees become roots.

    Args:
        folded: for each row, whether it goes.
        across_threads: call paths of all threads are summed, under the first thread's place.
    """
    numbers: dict[tuple[object, ...], int] = {}
    kept: list[TreeRow] = []  # the first row of each group
    above: list[int] = []
    depth: list[int] = []
    calls: list[int] = []
    subroutines: list[int] = []
    inclusive: list[float] = []
    exclusive: list[float] = []
    lost_callees: set[int] = set()
    home = [-1] * len(rows)  # the group that a row is in, or is folded into
    for at, (row, parent) in enumerate(zip(rows, parents(rows), strict=True)):
        under = home[parent] if parent >= 0 else -1
        if folded[at]:
            home[at] = under
            if under >= 0:
                exclusive[under] += row.exclusive
                lost_callees.add(under)
            continue
        place = None if across_threads or under >= 0 else (row.node, row.context, row.thread)
        number = numbers.setdefault((under, place, row.timer), len(numbers))
        home[at] = number
        if number == len(kept):
            kept.append(row)
            above.append(under)
            depth.append(depth[under] + 1 if under >= 0 else 0)
            calls.append(0)
            subroutines.append(0)
            inclusive.append(0)
            exclusive.append(0)
        calls[number] += row.calls
        subroutines[number] += row.subroutines
        inclusive[number] += row.inclusive
        exclusive[number] += row.exclusive
    for number in lost_callees:
        subroutines[number] = 0
    for number, under in enumerate(above):
        if under in lost_callees:
            subroutines[under] += calls[number]
    first = kept[0] if kept else None
    place_of_all = first[:3] if across_threads and first else None
    return [
        TreeRow(
            *(place_of_all or row[:3]),
            row.callpath_id,
            kept[above[number]].callpath_id if above[number] >= 0 else None,
            depth[number],
            row.timer, row.short_name, row.file, row.line, row.groups,
            calls[number], subroutines[number], inclusive[number], exclusive[number],
        )
        for number, row in enumerate(kept)
    ]  # fmt: skip


def over_threads(rows: Sequence[TreeRow]) -> list[TreeRow]:
    """The call paths of all threads summed up."""
    return regrouped(rows, [False] * len(rows), across_threads=True)
