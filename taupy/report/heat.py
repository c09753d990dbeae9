"""Ranks and steps as a heat map: how long each step took on each rank, and how long it waited.

If there are more steps than columns, a column covers several steps and shows the longest, so that
a single slow step remains visible (`static/heat.js` reads this).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from taupy.report import planes

UNIT_NS = 1000
"""Cells hold microseconds."""
NOT_KNOWN = -1


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
        return {"ranks": self.ranks, "first": self.first, "unit": UNIT_NS, "widths": widths}

    def packed(self) -> tuple[bytes, dict[str, int]]:
        """As `planes.packed`."""
        return planes.packed(self.cells)
