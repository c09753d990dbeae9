"""Fold a profile's small call paths, so that files of call paths stay readable.

Call paths folded below the same caller become a single row, `(folded call paths)`, with their sums:
the caller's inclusive values and calls, and all totals, do not change.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taupy.model.profile import CallTree, Profile, ThreadProfile, Timer

FOLDED = Timer("(folded call paths)", groups=("TAUPY_FOLDED",))


@dataclass(frozen=True, slots=True)
class Folding:
    """Which call paths are folded.

    Attributes:
        share: call paths below this share of the trial's total, 0 to 1, in every metric; the total
            is the sum over the threads' roots.
        depth: call paths more than this many calls below their root; None for no limit.
    """

    share: float = 0.0
    depth: int | None = None


def folded(profile: Profile, folding: Folding) -> tuple[Profile, int]:
    """The profile with fewer call paths, and the number of those folded."""
    least = {metric: folding.share * total for metric, total in _totals(profile.threads).items()}
    timer = len(profile.timers)
    threads = []
    count = 0
    for measured in profile.threads:
        keep = _kept(measured.tree, least, folding.depth)
        count += keep.count(0)
        threads.append(_without(measured, keep, timer) if 0 in keep else measured)
    if not count:
        return profile, 0
    timers, threads = _used([*profile.timers, FOLDED], threads)
    return replace(profile, timers=timers, threads=threads), count


def _used(
    timers: Sequence[Timer], threads: Sequence[ThreadProfile]
) -> tuple[list[Timer], list[ThreadProfile]]:
    """Remove timers without call paths, and renumber the others."""
    used = sorted({timer for measured in threads for timer in measured.tree.timer})
    moved = {timer: place for place, timer in enumerate(used)}
    return [timers[timer] for timer in used], [
        replace(
            measured,
            tree=replace(
                measured.tree, timer=array("q", [moved[timer] for timer in measured.tree.timer])
            ),
        )
        for measured in threads
    ]


def _totals(threads: Sequence[ThreadProfile]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for measured in threads:
        tree = measured.tree
        roots = [row for row, above in enumerate(tree.parent) if above < 0]
        for metric, column in tree.inclusive.items():
            finite = (column[row] for row in roots if column[row] == column[row])
            totals[metric] = totals.get(metric, 0) + sum(finite)
    return totals


def _kept(tree: CallTree, least: dict[str, float], depth: int | None) -> bytearray:
    """1 for each row that is kept; the caller of a kept row is always kept."""
    keep = bytearray(len(tree))
    level = [0] * len(tree)
    columns = [(column, least[metric]) for metric, column in tree.inclusive.items()]
    for row, above in enumerate(tree.parent):
        if above < 0:
            keep[row] = 1
            continue
        level[row] = level[above] + 1
        keep[row] = (
            keep[above]
            and (depth is None or level[row] <= depth)
            and (any(column[row] >= limit for column, limit in columns) or not columns)
        )
    return keep


def _without(measured: ThreadProfile, keep: bytearray, timer: int) -> ThreadProfile:
    tree = measured.tree
    rows: list[int] = []  # the old row of each new one; -1 for a folded one
    parent = array("q")
    moved: list[int] = []
    folds: dict[int, int] = {}  # new row of a caller -> new row of the paths folded below it
    tops: list[tuple[int, int]] = []  # folded rows whose caller is kept, with their new rows
    for row, above in enumerate(tree.parent):
        if keep[row]:
            moved.append(len(rows))
            parent.append(moved[above] if above >= 0 else -1)
            rows.append(row)
            continue
        if not keep[above]:
            moved.append(moved[above])
            continue
        caller = moved[above]
        if caller not in folds:
            folds[caller] = len(rows)
            parent.append(caller)
            rows.append(-1)
        moved.append(folds[caller])
        tops.append((row, folds[caller]))
    inclusive = {name: _column(column, rows, tops) for name, column in tree.inclusive.items()}
    exclusive = {
        name: _column(column, rows, tops, tree.inclusive[name])
        for name, column in tree.exclusive.items()
    }
    smaller = CallTree(
        timer=array("q", [tree.timer[row] if row >= 0 else timer for row in rows]),
        parent=parent,
        calls=_column(tree.calls, rows, tops),
        subroutines=array("q", [tree.subroutines[row] if row >= 0 else 0 for row in rows]),
        inclusive=inclusive,
        exclusive=exclusive,
    )
    events = [
        event if event.row is None else replace(event, row=moved[event.row])
        for event in measured.user_events
    ]
    launches = [replace(launch, row=moved[launch.row]) for launch in measured.launches]
    activities = (activity._replace(row=moved[activity.row]) for activity in measured.activities)
    return replace(
        measured, tree=smaller, user_events=events, launches=launches, activities=activities
    )


def _column(
    column: array[int],
    rows: Sequence[int],
    tops: Sequence[tuple[int, int]],
    of_folded: array[int] | None = None,
) -> array[int]:
    """The values of kept rows; for folded ones, the sum of their topmost rows.

    Args:
        of_folded: the column with the values of folded rows; by default `column`.
    """
    source = column if of_folded is None else of_folded
    values: list[float] = [column[row] if row >= 0 else math.nan for row in rows]
    for row, fold in tops:
        value = source[row]
        if value == value:
            values[fold] = value if values[fold] != values[fold] else values[fold] + value
    if column.typecode == "q":
        return array("q", [int(value) if value == value else 0 for value in values])
    return array("d", values)  # type: ignore[return-value]
