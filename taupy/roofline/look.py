"""Who gets which colour and marker, and what the legend says.

One trial: a colour for each of the top points, grey for the others. Several trials or
series: a colour for each of those, a marker for each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taupy.roofline.chart import COLORS, MARKERS, Entry
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
    """What a colour stands for where there are several: a series, else a trial."""
    point = placement.point
    processor = processor_name(point.processor)
    return point.series or f"{point.trial} {point.trial_name}, {processor}".rstrip(", ")


def look(placements: Sequence[Placement], top: int) -> Look:
    """Colours for the `top` points with the most time."""
    groups = tuple(dict.fromkeys(map(group_of, placements)))
    top = max(1, min(top, COLORS))
    if len(groups) > 1 or any(each.point.parameter is not None for each in placements):
        return _by_group(placements, groups, top)
    colors = {number: f"c{number}" for number in range(min(top, len(placements)))}
    legend = [
        Entry(f"{name}  {percent(100 * each.point.share)} %", colors[number])
        for number, (each, name) in enumerate(
            zip(placements[:top], labels(placements), strict=False)
        )
    ]
    rest = placements[top:]
    if rest:
        share = percent(100 * sum(each.point.share for each in rest))
        legend.append(Entry(f"others ({len(rest)})  {share} %", "other"))
    return Look(colors, {}, groups, tuple(legend))


def _by_group(placements: Sequence[Placement], groups: tuple[str, ...], top: int) -> Look:
    place = {group: f"c{number % COLORS}" for number, group in enumerate(groups)}
    colors = {number: place[group_of(each)] for number, each in enumerate(placements)}
    legend = [Entry(clipped(group), place[group]) for group in groups]
    each_name = labels(placements)
    names = list(dict.fromkeys(each_name))
    swept = any(each.point.parameter is not None for each in placements)
    markers: dict[int, int] = {}
    if not swept and len(names) > 1:
        marker = {name: min(rank, MARKERS - 1) for rank, name in enumerate(names)}
        markers = {number: marker[name] for number, name in enumerate(each_name)}
        legend += [Entry(name, "ink", marker[name]) for name in names[: min(top, MARKERS - 1)]]
        if len(names) > min(top, MARKERS - 1):
            legend.append(Entry(f"others ({len(names) - top})", "ink", MARKERS - 1))
    return Look(colors, markers, groups, tuple(legend))


def processor_name(name: str) -> str:
    """A processor's name without its maker's: "V100-SXM2-16GB"."""
    words = [word for word in name.split() if word not in ("NVIDIA", "Tesla", "GeForce")]
    return " ".join(words) or name
