"""Charts of classic and hierarchical rooflines: performance over arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taupy.model.work import LEVELS
from taupy.roofline import chart
from taupy.roofline.chart import Chart, Line, Strip, Symbol
from taupy.roofline.look import (
    Look,
    by_level,
    group_of,
    look,
    painted,
    painted_strips,
    processor_name,
)
from taupy.roofline.naming import clipped
from taupy.roofline.numbers import record
from taupy.roofline.placement import Placement
from taupy.roofline.point import PLURALS
from taupy.roofline.roof_lines import (
    Drawn,
    drawn_roofs,
    launch_ceiling,
    machines,
    missing_roofs,
    processor_color,
    roof_lines,
)
from taupy.roofline.roofs import Roofs

Limits = tuple[tuple[float, float], tuple[float, float]]
"""Limits of the horizontal and of the vertical axis."""


def levels_in(placements: Sequence[Placement]) -> list[str]:
    """Memory levels at which some point has bytes, nearest first."""
    return [
        level for level in LEVELS if any(level in placement.point.bytes for placement in placements)
    ]


def classic(
    placements: Sequence[Placement],
    level: str,
    top: int = 10,
    also: Sequence[Roofs] = (),
    equal_decades: bool = False,
) -> Chart:
    """Performance over the intensity at one level, one symbol per point.

    Args:
        also: additional roofs, drawn dashed, such as another machine's.
    """
    symbols, hidden = chart.in_view(_symbols(placements, [level]), placements)
    strips = chart.strips(placements, _unmoved(placements, [level]))
    style = look(placements, top, chart.in_chart(symbols, strips))
    plane = _Plane(
        placements,
        (level,),
        painted(symbols, style),
        painted_strips(strips, style),
        style,
        drawn_roofs(placements, [level], also),
    )
    return _chart("classic", plane, hidden, equal_decades)


def hierarchical(
    placements: Sequence[Placement],
    top: int = 10,
    also: Sequence[Roofs] = (),
    equal_decades: bool = False,
) -> Chart:
    """One symbol per point and level: colours for levels, markers for points."""
    levels = tuple(levels_in(placements))
    symbols, hidden = chart.in_view(_symbols(placements, levels), placements)
    style = by_level(placements, top, symbols, levels)
    plane = _Plane(
        placements,
        levels,
        painted(symbols, style),
        chart.strips(placements, _unmoved(placements, levels)),
        style,
        drawn_roofs(placements, levels, also),
    )
    return _chart("hierarchical", plane, hidden, equal_decades)


@dataclass(frozen=True, slots=True)
class _Plane:
    """The contents of a chart before its axes have limits."""

    placements: Sequence[Placement]
    levels: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    strips: tuple[Strip, ...]
    style: Look
    drawn: Sequence[Drawn]

    def limits(self, equal_decades: bool) -> Limits:
        """Limits around the symbols, the roofs with their ridges, and a near launch ceiling."""
        ridges = [ridge for drawn in self.drawn for ridge in drawn.ridges]
        across = chart.span([symbol.x for symbol in self.symbols] + ridges, 4, 6)
        heights = [symbol.y for symbol in self.symbols]
        heights += [peak.value for drawn in self.drawn for peak in drawn.peaks]
        launch = launch_ceiling(self.placements)
        if launch and heights and min(heights) / 100 < launch.height < max(heights):
            heights.append(launch.height)
        up = chart.span(heights, 3, 2.5)
        return chart.widened(across, up) if equal_decades else (across, up)

    def lines(self, limits: Limits) -> tuple[list[Line], list[str]]:
        """Roofs, launch ceiling and trajectories; notes on dashed lines and hidden points."""
        across, (bottom, top) = limits
        several = len(machines(self.placements)) > 1
        lines: list[Line] = []
        notes = []
        launch = launch_ceiling(self.placements)
        if launch and bottom < launch.height < top:
            line = launch.line(self.symbols, self.style, across)
            lines += [line] if line else []
        if launch:
            notes.append(launch.note)
        for drawn in self.drawn:
            name = f"{processor_name(drawn.roofs.processor)}: " if several or drawn.further else ""
            color = "" if len(self.levels) > 1 else "ink"
            if several and len(self.levels) == 1:
                color = processor_color(drawn.roofs, self.placements, self.style)
            roofs = roof_lines(drawn, across, bottom, name, color)
            if drawn.further:
                notes.append(f"dashed: {', '.join(line.label for line in roofs)}")
            lines += roofs
        return lines + _trajectories(self.placements, self.symbols, self.style), notes


def _chart(kind: chart.Kind, plane: _Plane, hidden: list[str], equal_decades: bool) -> Chart:
    placements, levels = plane.placements, plane.levels
    limits = plane.limits(equal_decades)
    lines, notes = plane.lines(limits)
    across = f" at {levels[0]}" if len(levels) == 1 else ", by level"
    return Chart(
        kind=kind,
        level=levels[0] if kind == "classic" else "",
        title=_title(kind, placements, levels),
        subtitle=subtitle(placements),
        x=chart.Axis(f"Arithmetic intensity{across}", "flop/B", *limits[0]),
        y=chart.Axis("Performance", "flop/s", *limits[1]),
        x2=None,
        y2=None,
        lines=tuple(lines),
        boxes=(),
        symbols=plane.symbols,
        strips=plane.strips,
        legend=plane.style.legend,
        notes=(
            *chart.remarks(placements),
            *hidden,
            *notes,
            *missing_roofs(machines(placements), levels),
        ),
        warnings=tuple(chart.warnings(placements)),
        points=tuple(record(placement, rank) for rank, placement in enumerate(placements, 1)),
        equal_decades=equal_decades,
    )


def _symbols(placements: Sequence[Placement], levels: Sequence[str]) -> list[Symbol]:
    """A symbol, without colour yet, for each point and level that the plane can show."""
    largest = max((placement.point.share for placement in placements), default=0.0)
    symbols = []
    for number, placement in enumerate(placements):
        area = chart.area(placement, largest)
        text = "" if placement.point.parameter is None else f"{placement.point.parameter:g}"
        for level in levels:
            x, y = placement.point.intensity(level), placement.point.performance
            if x is not None and chart.drawable(x, y):
                symbols.append(Symbol(number, x, y, area, "", level=level, text=text))
    return symbols


def _unmoved(placements: Sequence[Placement], levels: Sequence[str]) -> list[int]:
    """Points that have flop but no bytes at some level."""
    return [
        number
        for number, placement in enumerate(placements)
        if placement.point.total_flop > 0
        and any(placement.point.bytes.get(level) == 0 for level in levels)
    ]


def _trajectories(
    placements: Sequence[Placement], symbols: Sequence[Symbol], style: Look
) -> list[Line]:
    tracks: dict[tuple[str, str], list[tuple[float, float, float, str]]] = {}
    for symbol in symbols:
        placement = placements[symbol.point]
        if placement.point.parameter is not None:
            step = (placement.point.parameter, symbol.x, symbol.y, symbol.color)
            tracks.setdefault((group_of(placement), symbol.level), []).append(step)
    return [
        Line("trajectory", group, tuple((x, y) for _, x, y, _ in sorted(track)), track[0][3])
        for (group, _), track in tracks.items()
        if len(track) > 1
    ]


def _title(kind: chart.Kind, placements: Sequence[Placement], levels: Sequence[str]) -> str:
    of = " and ".join(dict.fromkeys(PLURALS[placement.point.of] for placement in placements))
    title = f"{chart.TITLES[kind]} of {of}" if of else chart.TITLES[kind]
    return f"{title}, {levels[0]}" if kind == "classic" else title


def subtitle(placements: Sequence[Placement]) -> str:
    """The trials and their processors."""
    names = [
        f"trial {placement.point.trial} {placement.point.trial_name}"
        + (f" on {placement.point.processor}" if placement.point.processor else "")
        for placement in placements
    ]
    distinct = list(dict.fromkeys(names))
    others = len(distinct) - 3
    more = f" and {others} more trial{'s' if others > 1 else ''}" if others > 0 else ""
    return "; ".join(clipped(name, 90) for name in distinct[:3]) + more
