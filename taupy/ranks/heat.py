"""How long each step took on each rank, and how long the rank waited, as the page's map."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from taupy.model.step_times import per_step
from taupy.profiledb.database import ProfileDB
from taupy.ranks.data import Ranks
from taupy.ranks.matching import waits_by_step
from taupy.ranks.reading import read_ranks
from taupy.report.heat import NOT_KNOWN, UNIT_NS, HeatMap

MOST = 200_000
"""Maximum number of cells: about 1 MB on a page."""
_WIDEST = 1000
"""Maximum number of columns: a screen has few more pixels."""

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def of_trial(db: ProfileDB, trial: int) -> HeatMap:
    """The map of the last attempt of a job."""
    return heat_map(read_ranks(db, trial)[0])


def heat_map(job: Ranks) -> HeatMap:
    """The map of the ranks that have steps; empty for fewer than two ranks or two steps."""
    ranks = [rank for rank in job.ranks if rank.steps is not None and len(rank.steps)]
    numbers = sorted({n for rank in ranks if rank.steps for n in rank.steps.number})
    if len(ranks) < 2 or len(numbers) < 2:
        return HeatMap()
    times = np.full((len(ranks), len(numbers)), np.nan)
    at = {number: place for place, number in enumerate(numbers)}
    for row, rank in enumerate(ranks):
        if rank.steps is not None:
            times[row, [at[number] for number in rank.steps.number]] = per_step(rank.steps)
    waited = waits_by_step(job, numbers)
    waits = np.array([waited[rank.number] for rank in ranks])
    waits[np.isnan(times)] = np.nan
    together = _together(len(ranks), len(numbers))
    return HeatMap(
        [rank.number for rank in ranks],
        [*numbers[::together], numbers[-1] + 1],
        {
            "time": _cells(times, together),
            "own": _cells(np.maximum(times - waits, 0), together),
            "wait": _cells(waits, together),
        },
    )


def _together(rows: int, columns: int) -> int:
    """The number of steps per column."""
    room = max(1, min(_WIDEST, MOST // rows))
    return -(-columns // room)


def _cells(values: Matrix, together: int) -> array[int]:
    whole = np.where(np.isnan(values), NOT_KNOWN, values / UNIT_NS)
    longest = np.maximum.reduceat(whole, range(0, whole.shape[1], together), axis=1)
    return array("q", np.rint(longest).astype("i8").tobytes())
