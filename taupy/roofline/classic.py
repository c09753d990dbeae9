"""Classic and hierarchical rooflines as charts: performance over arithmetic intensity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taupy.model.machine import Ceiling
from taupy.model.work import LEVELS
from taupy.roofline import chart, model
from taupy.roofline.chart import Chart, Entry, Line, Symbol
from taupy.roofline.look import Look, group_of, look, processor_name
from taupy.roofline.naming import clipped, labels
from taupy.roofline.placement import Placement
from taupy.roofline.roofs import Roofs, none_known
from taupy.units import percent, prefixed

_MOST_LABELLED = 6


def levels_in(placements: Sequence[Placement]) -> list[str]:
    """Memory levels that some point has bytes of, the nearest first."""
    return [level for level in LEVELS if any(level in each.point.bytes for each in placements)]


def classic(
    placements: Sequence[Placement],
    level: str,
    top: int = 10,
    also: Sequence[Roofs] = (),
    equal_decades: bool = False,
) -> Chart:
    """Performance over the intensity at one level; one symbol a point.

    Args:
        also: further roofs, drawn dashed: another machine's, or the maker's beside ours.
    """
    style = look(placements, top)
    symbols = _symbols(placements, [level], style)
    return _chart("classic", placements, [level], style, symbols, style.legend, also, equal_decades)


def hierarchical(
    placements: Sequence[Placement],
    top: int = 10,
    also: Sequence[Roofs] = (),
    equal_decades: bool = False,
) -> Chart:
    """One symbol a point and level: a colour for each level, a marker for each point."""
    levels = levels_in(placements)
    style = look(placements, top)
    top = max(1, min(top, chart.MARKERS - 1))
    markers = {number: min(number, top) for number in range(len(placements))}
    legend = [Entry(level, level) for level in levels]
    several = len(style.groups) > 1
    apart = len(machines(placements)) > 1
    named = zip(placements[:top], labels(placements), strict=False)
    for number, (each, label) in enumerate(named):
        name = f"{label}  {percent(100 * each.point.share)} %"
        if several:
            where = processor_name(each.point.processor) if apart else f"trial {each.point.trial}"
            name += f"  [{each.point.series or where}]"
        legend.append(Entry(name, "ink", markers[number]))
    if len(placements) > top:
        share = percent(100 * sum(each.point.share for each in placements[top:]))
        legend.append(Entry(f"others ({len(placements) - top})  {share} %", "ink", top))
    by_level = Look({}, markers, style.groups, tuple(legend))
    symbols = _symbols(placements, levels, by_level)
    return _chart(
        "hierarchical", placements, levels, by_level, symbols, tuple(legend), also, equal_decades
    )


def _symbols(placements: Sequence[Placement], levels: Sequence[str], style: Look) -> list[Symbol]:
    largest = max((each.point.share for each in placements), default=0.0)
    symbols = []
    for number, each in enumerate(placements):
        for level in levels:
            intensity = each.point.intensity(level)
            height = each.point.performance
            if intensity is None or not chart.drawable(intensity, height):
                continue
            symbols.append(
                Symbol(
                    number,
                    intensity,
                    height,
                    chart.area(each, largest),
                    style.colors.get(
                        number, level if len(levels) > 1 or not style.colors else "other"
                    ),
                    style.markers.get(number, 0),
                    level=level,
                    text="" if each.point.parameter is None else f"{each.point.parameter:g}",
                )
            )
    return symbols


def _chart(
    kind: chart.Kind,
    placements: Sequence[Placement],
    levels: Sequence[str],
    style: Look,
    symbols: list[Symbol],
    legend: tuple[Entry, ...],
    also: Sequence[Roofs],
    equal_decades: bool,
) -> Chart:
    symbols, hidden = chart.in_view(symbols, placements)
    found_machines = machines(placements)
    drawn = [(roofs, _peaks(roofs, placements)) for roofs in found_machines]
    names = {peak.name for _, peaks in drawn for peak in peaks}
    others = [
        (roofs, [roofs.compute[one] for one in roofs.compute if one in names]) for roofs in also
    ]
    ridges = [
        model.ridge(peak.value, roofs.bandwidth[level].value)
        for roofs, peaks in drawn + others
        for peak in peaks
        for level in levels
        if level in roofs.bandwidth
    ]
    low, high = chart.span([symbol.x for symbol in symbols] + ridges, 4, 6)
    tops = [peak.value for _, peaks in drawn + others for peak in peaks]
    heights = [symbol.y for symbol in symbols] + tops
    heights += _launch_height(placements, heights)
    bottom, top = chart.span(heights, 3, 2.5)
    if equal_decades:
        (low, high), (bottom, top) = chart.widened((low, high), (bottom, top))
    several = len(found_machines) > 1
    limits = (low, high)
    lines = []
    further: list[str] = []
    for roofs, peaks in drawn:
        color = processor_color(roofs, placements, style) if several else "ink"
        name = f"{processor_name(roofs.processor)}: " if several else ""
        lines += _roofs(roofs, peaks, levels, limits, bottom, name, color)
    for roofs, peaks in others:
        name = f"{processor_name(roofs.processor)}: "
        dashed = _roofs(roofs, peaks, levels, limits, bottom, name, "muted")
        lines += [replace(line, style="dashed", color="muted") for line in dashed]
        further.append(f"dashed: {', '.join(line.label for line in dashed)}")
    launch, note = _launch_ceiling(placements, (low, high), (bottom, top))
    lines += launch
    lines += _trajectories(placements, symbols, style)
    zero = [(number, each) for number, each in enumerate(placements) if each.point.idle]
    unmoved = [
        (number, each)
        for number, each in enumerate(placements)
        if each.point.total_flop > 0 and any(each.point.bytes.get(one) == 0 for one in levels)
    ]
    trials = max(len({each.point.trial for each in placements}), 1)
    marks = chart.stack(zero, "left", style.colors, trials)
    marks += chart.stack(unmoved, "right", style.colors, trials)
    share = percent(100 * sum(each.point.share for _, each in zero) / trials)
    return Chart(
        kind=kind,
        level=levels[0] if kind == "classic" else "",
        title=_title(kind, placements, levels),
        subtitle=subtitle(placements),
        x=chart.Axis(_intensity_label(levels), "flop/B", low, high),
        y=chart.Axis("Performance", "flop/s", bottom, top),
        x2=None,
        y2=None,
        lines=tuple(lines),
        boxes=(),
        symbols=tuple(symbols),
        marks=tuple(marks),
        marks_label=f"no flop: {len(zero)}, {share} % of time" if zero else "",
        legend=chart.drawn(legend, symbols, marks, style.markers),
        notes=tuple(
            [
                *chart.remarks(placements),
                *hidden,
                *note,
                *further,
                *_missing_roofs(found_machines, levels),
            ]
        ),
        warnings=tuple(chart.warnings(placements)),
        points=tuple(chart.record(each, rank + 1) for rank, each in enumerate(placements)),
        equal_decades=equal_decades,
    )


def machines(placements: Sequence[Placement]) -> list[Roofs]:
    """The processors of the points, each once."""
    found: dict[str, Roofs] = {}
    for each in placements:
        found.setdefault(each.roofs.processor, each.roofs)
    return list(found.values())


_MATTERS = 0.01


def matters(placement: Placement, precision: str, flop: float) -> bool:
    """Do these flop take a share of their point's ideal compute time worth a roof? A few indices
    computed in double precision do not make fp64 a roof of the chart."""
    peak = placement.roofs.peak(precision)
    if flop <= 0 or peak is None or not placement.compute:
        return False
    return flop / peak.value >= _MATTERS * placement.compute


def _peaks(roofs: Roofs, placements: Sequence[Placement]) -> list[Ceiling]:
    """The compute roofs that the points count against; all, where no point has flop."""
    used = {
        found.name: found
        for each in placements
        if each.roofs.processor == roofs.processor
        for precision, flop in each.point.flop.items()
        if matters(each, precision, flop) and (found := roofs.peak(precision))
    }
    if not used:
        used = dict(roofs.compute)
    found_roofs = sorted(used.values(), key=lambda each: -each.value)
    return found_roofs[:_MOST_LABELLED]


def _roofs(
    roofs: Roofs,
    peaks: Sequence[Ceiling],
    levels: Sequence[str],
    limits: tuple[float, float],
    bottom: float,
    name: str,
    color: str,
) -> list[Line]:
    """Slanted roofs up to their ridge with the highest flat one; flat ones from theirs on."""
    peaks = sorted(peaks, key=lambda each: -each.value)
    bands = [(level, roofs.bandwidth[level]) for level in levels if level in roofs.bandwidth]
    low, high = limits
    lines = []
    for level, found in bands:
        start = max(low, bottom / found.value)
        end = min(high, model.ridge(peaks[0].value, found.value)) if peaks else high
        if end <= start:
            continue
        lines.append(
            Line(
                "bandwidth",
                name + chart.value_label(level, found.value, found.unit, found.source),
                ((start, start * found.value), (end, end * found.value)),
                level if len(levels) > 1 else color,
                "solid",
                found.value,
                found.unit,
                found.source,
                found.reference or found.pattern,
                roofs.processor,
            )
        )
    fastest = max((found.value for _, found in bands), default=0.0)
    for peak in peaks:
        start = max(low, model.ridge(peak.value, fastest)) if fastest else low
        if start >= high:
            continue
        lines.append(
            Line(
                "compute",
                name + chart.value_label(peak.name, peak.value, peak.unit, peak.source),
                ((start, peak.value), (high, peak.value)),
                color,
                "solid",
                peak.value,
                peak.unit,
                peak.source,
                peak.reference or peak.pattern,
                roofs.processor,
            )
        )
    return lines


def _launch_height(placements: Sequence[Placement], heights: Sequence[float]) -> list[float]:
    """The launch ceiling, where it is near enough to the points to be worth the room."""
    if not heights:
        return []
    lines, _ = _launch_ceiling(placements, (1.0, 1.0), (min(heights) / 100, max(heights)))
    return [line.value for line in lines if line.value is not None]


def _launch_ceiling(
    placements: Sequence[Placement], x: tuple[float, float], y: tuple[float, float]
) -> tuple[list[Line], list[str]]:
    """What launching alone allows the point with the most time: its flop over the time of its own
    launches. Each kernel has a ceiling of its own; one of all together would be of none."""
    launched = [each for each in placements if each.overhead and each.point.total_flop > 0]
    if not launched or len(machines(placements)) > 1:
        return [], []
    largest = max(launched, key=lambda each: each.point.run_time)
    flop, overhead = largest.point.total_flop, largest.overhead or 0.0
    launches = largest.point.counted
    whose = f"of {clipped(largest.point.short, 24)}"
    ceiling = placements[0].roofs.launch
    height = flop / overhead
    label = f"launch ceiling {whose}: {launches:,} launches, {prefixed(height, 'flop/s')}"
    if not y[0] < height < y[1]:
        return [], [f"{label} (outside the chart)"]
    line = Line(
        "launch",
        label,
        ((x[0], height), (x[1], height)),
        "muted",
        "dotted",
        height,
        "flop/s",
        ceiling.source if ceiling else "",
        ceiling.reference if ceiling else "",
    )
    return [line], []


def _trajectories(
    placements: Sequence[Placement], symbols: Sequence[Symbol], style: Look
) -> list[Line]:
    lines = []
    tracks: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for symbol in symbols:
        each = placements[symbol.point]
        if each.point.parameter is not None:
            key = (group_of(each), symbol.level)
            tracks.setdefault(key, []).append((each.point.parameter, symbol.x, symbol.y))
    colors = {
        group_of(each): style.colors.get(number, "ink") for number, each in enumerate(placements)
    }
    for (group, level), track in tracks.items():
        if len(track) > 1:
            path = tuple((x, y) for _, x, y in sorted(track))
            color = colors[group] if style.colors else level
            lines.append(Line("trajectory", group, path, color))
    return lines


def _title(kind: chart.Kind, placements: Sequence[Placement], levels: Sequence[str]) -> str:
    what = {
        "kernel": "kernels",
        "launch": "launches",
        "routine": "routines",
        "phase": "phases",
        "program": "whole program",
    }
    of = " and ".join(dict.fromkeys(what[each.point.of] for each in placements))
    title = f"{chart.TITLES[kind]} of {of}" if of else chart.TITLES[kind]
    return f"{title}, {levels[0]}" if kind == "classic" else title


def processor_color(roofs: Roofs, placements: Sequence[Placement], style: Look) -> str:
    """The colour of the points that ran there, where it is one."""
    found = {
        style.colors[number]
        for number, each in enumerate(placements)
        if each.roofs.processor == roofs.processor and number in style.colors
    }
    return found.pop() if len(found) == 1 else "ink"


def subtitle(placements: Sequence[Placement]) -> str:
    """Which trials, on what."""
    names = [
        f"trial {each.point.trial} {each.point.trial_name}"
        + (f" on {each.point.processor}" if each.point.processor else "")
        for each in placements
    ]
    found = list(dict.fromkeys(names))
    others = len(found) - 3
    more = f" and {others} more trial{'s' if others > 1 else ''}" if others > 0 else ""
    return "; ".join(clipped(name, 90) for name in found[:3]) + more


def _intensity_label(levels: Sequence[str]) -> str:
    if len(levels) == 1:
        return f"Arithmetic intensity at {levels[0]}"
    return "Arithmetic intensity, by level"


def _missing_roofs(processors: Sequence[Roofs], levels: Sequence[str]) -> list[str]:
    notes = []
    for roofs in processors:
        name = roofs.processor or "this processor"
        if roofs.empty:
            notes.append(none_known(name))
            continue
        lacking = [level for level in levels if level not in roofs.bandwidth]
        if lacking:
            notes.append(
                f"no roof is known for {', '.join(lacking)} of {name}: `taupy ceilings` measures it"
            )
    return notes
