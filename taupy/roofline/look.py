"""Assign colours and markers, and build the legend.

With one trial, each of the top points has a colour, and the others are grey. With several trials
or series, each of them has a colour, and each point a marker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from taupy.roofline.chart import COLORS, MARKERS, Entry, Strip, Symbol
from taupy.roofline.naming import clipped, labels
from taupy.roofline.placement import Placement
from taupy.units import percent


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and marker of each point, by its position."""

    colors: dict[int, str]
    markers: dict[int, int]
    groups: tuple[str, ...]
    legend: tuple[Entry, ...]


def group_of(placement: Placement) -> str:
    """The label of a colour if there are several: the series, or else the trial."""
    point = placement.point
    processor = processor_name(point.processor)
    return point.series or f"{point.trial} {point.trial_name}, {processor}".rstrip(", ")


def look(placements: Sequence[Placement], top: int, shown: Collection[int]) -> Look:
    """Colours for the `top` shown points with the most time.

    Args:
        shown: positions of the points that the chart shows.
    """
    some = [number for number in range(len(placements)) if number in shown]
    groups = tuple(dict.fromkeys(group_of(placements[number]) for number in some))
    top = max(1, min(top, COLORS))
    if len(groups) > 1 or any(placement.point.parameter is not None for placement in placements):
        return _by_group(placements, some, groups, top)
    names = labels(placements)
    colors = {number: f"c{rank}" for rank, number in enumerate(some[:top])}
    legend = [
        Entry(f"{names[number]}  {percent(100 * placements[number].point.share)} %", color)
        for number, color in colors.items()
    ]
    legend += _others(placements, some[top:], Entry("", "other"))
    return Look(colors, {}, groups, tuple(legend))


def by_level(
    placements: Sequence[Placement], top: int, symbols: Sequence[Symbol], levels: Sequence[str]
) -> Look:
    """A colour for each level, a marker for each of the `top` points that have symbols."""
    shown = {symbol.point for symbol in symbols}
    some = [number for number in range(len(placements)) if number in shown]
    top = max(1, min(top, MARKERS - 1))
    markers = {number: min(rank, top) for rank, number in enumerate(some)}
    groups = tuple(dict.fromkeys(group_of(placements[number]) for number in some))
    apart = len({placement.point.processor for placement in placements}) > 1
    drawn = {symbol.level for symbol in symbols}
    legend = [Entry(level, level) for level in levels if level in drawn]
    names = labels(placements)
    for number in some[:top]:
        point = placements[number].point
        name = f"{names[number]}  {percent(100 * point.share)} %"
        if len(groups) > 1:
            where = processor_name(point.processor) if apart else f"trial {point.trial}"
            name += f"  [{point.series or where}]"
        legend.append(Entry(name, "ink", markers[number]))
    legend += _others(placements, some[top:], Entry("", "ink", top))
    return Look({}, markers, groups, tuple(legend))


def painted(symbols: Iterable[Symbol], style: Look) -> tuple[Symbol, ...]:
    """Symbols with their colours and markers; without assigned colours, the level's."""
    return tuple(
        replace(
            symbol,
            color=style.colors.get(symbol.point, "other" if style.colors else symbol.level),
            marker=style.markers.get(symbol.point, 0),
        )
        for symbol in symbols
    )


def painted_strips(strips: Iterable[Strip], style: Look) -> tuple[Strip, ...]:
    """Strips with coloured marks; grey for points without a colour."""
    return tuple(
        replace(
            strip,
            marks=tuple(
                replace(mark, color=style.colors.get(mark.point, "other")) for mark in strip.marks
            ),
        )
        for strip in strips
    )


def _others(placements: Sequence[Placement], rest: Sequence[int], entry: Entry) -> list[Entry]:
    """The legend entry of the unnamed points."""
    if not rest:
        return []
    share = percent(100 * sum(placements[number].point.share for number in rest))
    return [replace(entry, label=f"others ({len(rest)})  {share} %")]


def _by_group(
    placements: Sequence[Placement], some: Sequence[int], groups: tuple[str, ...], top: int
) -> Look:
    place = {group: f"c{number % COLORS}" for number, group in enumerate(groups)}
    colors = {number: place[group_of(placements[number])] for number in some}
    legend = [Entry(clipped(group), place[group]) for group in groups]
    every_name = labels(placements)
    names = list(dict.fromkeys(every_name[number] for number in some))
    swept = any(placement.point.parameter is not None for placement in placements)
    markers: dict[int, int] = {}
    if not swept and len(names) > 1:
        marker = {name: min(rank, MARKERS - 1) for rank, name in enumerate(names)}
        markers = {number: marker[every_name[number]] for number in some}
        named = min(top, MARKERS - 1)
        legend += [Entry(name, "ink", marker[name]) for name in names[:named]]
        if len(names) > named:
            legend.append(Entry(f"others ({len(names) - named})", "ink", MARKERS - 1))
    return Look(colors, markers, groups, tuple(legend))


def processor_name(name: str) -> str:
    """A processor's name without the manufacturer: "V100-SXM2-16GB"."""
    words = [word for word in name.split() if word not in ("NVIDIA", "Tesla", "GeForce")]
    return " ".join(words) or name
