"""Ranks as tuning candidates: how much earlier a job could end if one of them were faster."""

from __future__ import annotations

from collections.abc import Mapping

from taupy.model.answer import Answer
from taupy.profiledb.database import ProfileDB
from taupy.ranks.matching import RankTimes, delays, times
from taupy.ranks.reading import read_ranks
from taupy.study.gains import Routine
from taupy.units import duration, several


def rank_routines(
    db: ProfileDB, trial_id: int, walls: Mapping[int, float], values: Answer
) -> list[Routine]:
    """A trial's ranks in place of routines.

    A rank's time is its duration minus its waits for ranks that arrived later at collectives. It
    can save at most the time in which no other rank was missing at a collective, and the time by
    which it outlasted all other ranks.

    Args:
        walls: duration of each rank [ns].
        values: the metric to rank by, by `rank`.
    """
    job, _ = read_ranks(db, trial_id)
    waits = {sums.rank: sums for sums in times(job)}
    missed, outlasted = delays(job), _outlasting(walls)
    numbers = dict(zip(values.table.row_labels("rank"), values.values("exclusive"), strict=True))
    is_time = values.metric.name == "time"
    routines = []
    for rank, wall in walls.items():
        own = wall - (waits[rank].wait_ns if rank in waits else 0.0)
        value = own if is_time else numbers.get(rank)
        saved = missed.get(rank, 0.0) + outlasted[rank]
        why = _why(waits.get(rank))
        routines.append(Routine(str(rank), str(rank), 1, own, saved, value, remarks=why))
    return routines


def _outlasting(walls: Mapping[int, float]) -> dict[int, float]:
    """By how much each rank took longer than the longest of the others [ns]."""
    return {
        rank: max(0.0, wall - max((walls[other] for other in walls if other != rank), default=0.0))
        for rank, wall in walls.items()
    }


def _why(waits: RankTimes | None) -> list[str]:
    if waits is None or not waits.last:
        return []
    return [
        f"last at {several(waits.last, 'collective')}: the others waited "
        f"{duration(waits.caused_ns)} in all; see `taupy ranks`"
    ]
