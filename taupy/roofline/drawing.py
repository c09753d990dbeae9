"""Choose the charts to draw from placed points: kinds, levels, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from taupy.errors import UsageError
from taupy.roofline import chart as charts
from taupy.roofline import classic, timebased
from taupy.roofline.chart import Chart
from taupy.roofline.palette import Theme
from taupy.roofline.placement import Placement
from taupy.roofline.roofs import Roofs

KINDS = get_args(charts.Kind)


@dataclass(frozen=True, slots=True)
class Drawing:
    """What to draw, and how.

    Attributes:
        kinds: requested kinds of charts; empty for the default.
        level: memory level; None for the default.
        top: number of points with labels.
        also: further roofs to draw.
        equal_decades: whether a decade is equally long on both axes.
        title: title of all charts; empty for the default ones.
        size: size of pictures in inches; None for automatic.
    """

    placements: Sequence[Placement]
    kinds: Sequence[charts.Kind] = ()
    level: str | None = None
    theme: Theme | None = None
    top: int = 10
    also: Sequence[Roofs] = ()
    equal_decades: bool = False
    title: str = ""
    size: tuple[float, float] | None = None

    def chart(self, kind: charts.Kind, level: str) -> Chart:
        drawn = self._chart(kind, level)
        return replace(drawn, title=self.title) if self.title else drawn

    def _chart(self, kind: charts.Kind, level: str) -> Chart:
        placed, top, equal = self.placements, self.top, self.equal_decades
        if kind == "hierarchical":
            return classic.hierarchical(placed, top, self.also, equal)
        if kind == "classic":
            return classic.classic(placed, level, top, self.also, equal)
        build = {
            "complexity": timebased.complexity,
            "time": timebased.time_plane,
            "combined": timebased.combined,
        }[kind]
        return build(placed, level, top, equal)

    def first_level(self) -> str:
        """The requested level, or DRAM, or else the farthest one measured."""
        levels = classic.levels_in(self.placements)
        if self.level is None:
            return "DRAM" if "DRAM" in levels else levels[-1]
        if self.level not in levels:
            raise UsageError(
                f"no point has bytes of level {self.level} (measured: {', '.join(levels)})"
            )
        return self.level

    def all_charts(self) -> list[Chart]:
        """All charts that are not empty, the requested kinds and level first."""
        first = self.first_level()
        measured = classic.levels_in(self.placements)
        levels = [first, *(level for level in measured if level != first)]
        all_charts = []
        for kind in dict.fromkeys([*self.kinds, *KINDS]):
            if kind == "hierarchical":
                if len(levels) > 1:
                    all_charts.append(self.chart(kind, ""))
                continue
            for level in levels:
                if kind == "classic" or any(place.times(level) for place in self.placements):
                    all_charts.append(self.chart(kind, level))
        return all_charts
