"""Ranks and steps as a heat map: how long each step took on each rank, and how long it waited.

If there are more steps than columns, a column covers several steps and shows the longest, so that
a single slow step remains visible (`static/heat.js` reads this).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taupy.analysis.rank_data import Ranks
from taupy.analysis.ranks import waits_by_step
from taupy.model.step_times import per_step
from taupy.report import planes

MOST = 200_000
"""Maximum number of cells: about 1 MB on a page."""
_WIDEST = 1000
"""Maximum number of columns: a screen has few more pixels."""
_UNIT_NS = 1000
"""Cells hold microseconds."""
NOT_KNOWN = -1

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True)
class HeatMap:
    """One row per rank, one column per step or range of steps.

    Attributes:
        ranks: the rank of each row.
        first: the first step of each column, followed by the step after the last one.
        cells: for "time", "own" (time without waiting) and "wait", all cells, row by row [us];
            `NOT_KNOWN` if a rank did not do such a step.
    """

    ranks: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    cells: dict[str, array[int]] = field(default_factory=dict)

    def layout(self, widths: dict[str, int]) -> dict[str, Any]:
        """The description needed to read `packed`."""
        return {"ranks": self.ranks, "first": self.first, "unit": _UNIT_NS, "widths": widths}

    def packed(self) -> tuple[bytes, dict[str, int]]:
        """As `planes.packed`."""
        return planes.packed(self.cells)


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
    whole = np.where(np.isnan(values), NOT_KNOWN, values / _UNIT_NS)
    longest = np.maximum.reduceat(whole, range(0, whole.shape[1], together), axis=1)
    return array("q", np.rint(longest).astype("i8").tobytes())
