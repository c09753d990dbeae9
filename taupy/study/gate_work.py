"""Flop and bytes for a gate where no counter counted them: what the runs derived from the shapes of
operations, or stated. These are user events, not a metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taupy.comparison.sides import Side
from taupy.model.metric import Metric
from taupy.model.work import LEVEL_OF, PRECISION_OF, TrialWork
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.study.conditions import Applies, Condition, RowRuns

_UNITS = {"flop": "flop", "bytes": "B"}
_STATED = {
    "flop": frozenset(PRECISION_OF),
    "bytes": frozenset(name for name, level in LEVEL_OF.items() if level == "DRAM"),
}


def noted(
    db: ProfileDB,
    sides: Sequence[Side],
    condition: Condition,
    is_meant: Callable[[str, str], bool] | None,
) -> Applies | None:
    """None if a run has no such work. Routines of two scripts pair by their short names.

    Args:
        is_meant: whether a routine of this name and short name is meant; None without ROUTINE.
    """
    if condition.metric not in _STATED:
        return None
    works = [work for side in sides for work in trial_work(db, side.trials)]
    stated = _STATED[condition.metric]
    if not all(any(part.metric in stated for part in work.noted) for work in works):
        return None
    runs = [_sums(work, condition, is_meant) for work in works]
    first = len(sides[0].trials)
    rows, left = [], []
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [run[name] for run in runs if name in run]
        if len(values) < len(runs):
            left.append(name)
        else:
            label = name or "total on the host"
            rows.append(RowRuns(label, tuple(values[:first]), tuple(values[first:])))
    return Applies(rows, Metric(condition.metric, _UNITS[condition.metric]), left)


def _sums(
    work: TrialWork, condition: Condition, is_meant: Callable[[str, str], bool] | None
) -> dict[str, float]:
    """The work of a run by routine; that of the whole has the name ""."""
    inclusive = (condition.value or ("inclusive" if is_meant else "exclusive")) == "inclusive"
    sums: dict[str, float] = {}
    for part in work.noted:
        if part.metric not in _STATED[condition.metric]:
            continue
        owners = part.owners if inclusive else part.owners[:1]
        names = [] if condition.scope == "each" else [""]
        if condition.scope != "total":
            for owner in dict.fromkeys(owners):
                place = work.timers[owner]
                if is_meant is None or is_meant(place.name, place.short):
                    names.append(place.short)
        for name in names:
            sums[name] = sums.get(name, 0.0) + part.value
    return sums
