"""Time-based rooflines after Wang et al. (2020) as charts: complexity, time, and both.

- complexity: bytes across, flop up; equal intensities are diagonals, the machine balance
  parts bandwidth-bound from compute-bound.
- time: bandwidth time across, compute time up (see `model.py`); the larger is the run time.
- combined: closed symbols in the complexity plane, open ones at (bandwidth time * W,
  compute time * P), read on the secondary axes. The further apart, the further from the roof.

Where the sums of a trial's kernels are placed, each stands for one launch of it (sums over
launches, divided by their number), so that one overhead box is true for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taupy.roofline import chart, model
from taupy.roofline.chart import Axis, Box, Chart, Entry, Line, Symbol
from taupy.roofline.classic import machines, processor_color, subtitle
from taupy.roofline.look import Look, group_of, look, processor_name
from taupy.roofline.naming import clipped
from taupy.roofline.placement import Placement
from taupy.units import percent, prefixed

_MOST_BOXES = 4
_MOST_PAIRS = 60


@dataclass(frozen=True, slots=True)
class Spot:
    """One point in both planes; bytes, flop and seconds of what one symbol stands for."""

    number: int
    bytes: float
    flop: float
    times: model.Times
    peak: float
    bandwidth: float


def spots(placements: Sequence[Placement], level: str, per_launch: bool) -> list[Spot]:
    """The points that have a place: with flop or bytes, and with roofs for both."""
    found = []
    for number, each in enumerate(placements):
        times = each.times(level)
        if times is None or level not in each.point.bytes:
            continue
        by = max(each.point.counted, 1) if per_launch else 1
        bandwidth = each.roofs.bandwidth[level].value
        peak = each.peak or (_reference(placements) or (0.0, ""))[0]
        found.append(
            Spot(
                number,
                each.point.bytes[level] / by,
                each.point.total_flop / by,
                model.Times(times.compute / by, times.bandwidth / by),
                peak,
                bandwidth,
            )
        )
    return found


def complexity(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Bytes and flop of each point, whatever time it took."""
    return _chart("complexity", placements, level, top, equal_decades)


def time_plane(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Bandwidth time and compute time of each point."""
    return _chart("time", placements, level, top, equal_decades)


def combined(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Both at once: closed symbols for complexity, open ones for time."""
    return _chart("combined", placements, level, top, equal_decades)


def _reference(placements: Sequence[Placement]) -> tuple[float, str] | None:
    """The peak of the secondary axis: of the precision with the most ideal compute time."""
    by_name: dict[str, tuple[float, float]] = {}
    for each in placements:
        for precision, flop in each.point.flop.items():
            peak = each.roofs.peak(precision)
            if peak is not None and flop > 0:
                seconds, _ = by_name.get(peak.name, (0.0, 0.0))
                by_name[peak.name] = (seconds + flop / peak.value, peak.value)
    if by_name:
        name = max(by_name, key=lambda one: by_name[one][0])
        return by_name[name][1], name
    for each in placements:
        if each.roofs.compute:
            best = max(each.roofs.compute.values(), key=lambda one: one.value)
            return best.value, best.name
    return None


def _chart(
    kind: chart.Kind,
    placements: Sequence[Placement],
    level: str,
    top: int,
    equal_decades: bool,
) -> Chart:
    per_launch = any(each.point.of_gpu for each in placements)
    style = look(placements, top)
    found = spots(placements, level, per_launch)
    processors = machines(placements)
    alone = len(processors) == 1
    in_time = kind == "time"
    reference = _reference(placements)
    symbols, pairs = _symbols(kind, placements, found, style)
    symbols, hidden = chart.in_view(symbols, placements)
    boxes = _boxes(placements, level, per_launch, in_time, style, reference)
    x_low, x_high = chart.span([one.x for one in symbols] + [box.x for box in boxes], 4, 4)
    y_low, y_high = chart.span([one.y for one in symbols] + [box.y for box in boxes], 4, 4)
    if in_time:  # one scale, so that the diagonal is one
        x_low = y_low = min(x_low, y_low)
        x_high = y_high = max(x_high, y_high)
    elif equal_decades:
        (x_low, x_high), (y_low, y_high) = chart.widened((x_low, x_high), (y_low, y_high))
    limits = ((x_low, x_high), (y_low, y_high))
    lines = [*pairs, *_balances(placements, level, limits, in_time, style)]
    if in_time or (kind == "combined" and alone and reference):
        scale = (1.0, 1.0) if in_time else (found[0].bandwidth if found else 1.0, _value(reference))
        lines += _isochrones(limits, scale)
    lines += _trajectories(placements, symbols, style)
    x2 = y2 = None
    if kind == "combined" and alone and reference and found:
        width, peak = found[0].bandwidth, reference[0]
        x2 = Axis(f"Bandwidth time at {prefixed(width, 'B/s')}", "s", x_low / width, x_high / width)
        y2 = Axis(
            f"Compute time at {prefixed(peak, 'flop/s')} ({reference[1]})",
            "s",
            y_low / peak,
            y_high / peak,
        )
    marks, label = _marks(placements, found, style)
    return Chart(
        kind=kind,
        level=level,
        title=_title(kind, placements, level, per_launch),
        subtitle=subtitle(placements),
        x=Axis("Bandwidth time", "s", x_low, x_high)
        if in_time
        else Axis(f"Bandwidth complexity at {level}", "B", x_low, x_high),
        y=Axis("Compute time", "s", y_low, y_high)
        if in_time
        else Axis("Computational complexity", "flop", y_low, y_high),
        x2=x2,
        y2=y2,
        lines=tuple(lines),
        boxes=tuple(boxes),
        symbols=tuple(symbols),
        marks=tuple(marks),
        marks_label=label,
        legend=_legend(kind, chart.drawn(style.legend, symbols, marks, style.markers)),
        notes=tuple(
            [*chart.remarks(placements), *hidden, *_remarks(kind, placements, found, alone)]
        ),
        warnings=tuple(chart.warnings(placements)),
        points=tuple(chart.record(each, rank + 1) for rank, each in enumerate(placements)),
        equal_decades=equal_decades,
    )


def _value(reference: tuple[float, str] | None) -> float:
    return reference[0] if reference else 1.0


def _symbols(
    kind: chart.Kind, placements: Sequence[Placement], found: Sequence[Spot], style: Look
) -> tuple[list[Symbol], list[Line]]:
    largest = max((each.point.share for each in placements), default=0.0)
    symbols: list[Symbol] = []
    pairs: list[Line] = []
    for spot in found:
        point = placements[spot.number].point
        color = style.colors.get(spot.number, "other")
        marker = style.markers.get(spot.number, 0)
        size = chart.area(placements[spot.number], largest)
        text = "" if point.parameter is None else f"{point.parameter:g}"
        closed = (spot.bytes, spot.flop)
        opened = (spot.times.bandwidth, spot.times.compute)
        if kind == "combined":
            opened = (opened[0] * spot.bandwidth, opened[1] * spot.peak)
        if kind != "time" and chart.drawable(*closed):
            symbols.append(Symbol(spot.number, *closed, size, color, marker, True, "", text))
        if kind != "complexity" and chart.drawable(*opened):
            symbols.append(Symbol(spot.number, *opened, size, color, marker, False, "", text))
        crowded = len(found) > _MOST_PAIRS and color == "other"
        if kind == "combined" and not crowded and chart.drawable(*closed, *opened):
            pairs.append(Line("pair", "", (closed, opened), color, "dotted"))
    return symbols, pairs


def _balances(
    placements: Sequence[Placement],
    level: str,
    limits: tuple[tuple[float, float], tuple[float, float]],
    in_time: bool,
    style: Look,
) -> list[Line]:
    """The diagonal where computing and moving take equal time; one a peak that is used."""
    if in_time:
        low, high = limits[0]
        text = "compute time = bandwidth time"
        return [Line("balance", text, ((low, low), (high, high)), "ink", "solid", 1.0)]
    lines = []
    processors = machines(placements)
    for roofs in processors:
        if level not in roofs.bandwidth:
            continue
        width = roofs.bandwidth[level]
        used = {
            peak.name: peak
            for each in placements
            if each.roofs.processor == roofs.processor
            for precision, flop in each.point.flop.items()
            if flop > 0 and (peak := roofs.peak(precision))
        }
        for peak in used.values():
            balance = model.ridge(peak.value, width.value)
            path = _diagonal(balance, limits)
            if path is None:
                continue
            name = f"{processor_name(roofs.processor)}: " if len(processors) > 1 else ""
            label = f"{name}balance {balance:.4g} flop/B ({peak.name})"
            source = " / ".join(dict.fromkeys((peak.source, width.source)))
            color = processor_color(roofs, placements, style) if len(processors) > 1 else "ink"
            lines.append(Line("balance", label, path, color, "solid", balance, "flop/B", source))
    return lines


def _diagonal(
    slope: float, limits: tuple[tuple[float, float], tuple[float, float]]
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    (x_low, x_high), (y_low, y_high) = limits
    start, end = max(x_low, y_low / slope), min(x_high, y_high / slope)
    return ((start, start * slope), (end, end * slope)) if start < end else None


def _isochrones(
    limits: tuple[tuple[float, float], tuple[float, float]], scale: tuple[float, float]
) -> list[Line]:
    """Where run times are equal: squares x = t W, y = t P, one a decade."""
    (x_low, x_high), (y_low, y_high) = limits
    low = max(x_low / scale[0], y_low / scale[1])
    high = min(x_high / scale[0], y_high / scale[1])
    if not low < high:
        return []
    first, last = math.ceil(math.log10(low * 3)), math.floor(math.log10(high))
    step = max(1, (last - first) // 6 + 1)
    lines = []
    for exponent in range(first, last + 1, step):
        seconds = 10.0**exponent
        x, y = seconds * scale[0], seconds * scale[1]
        lines.append(
            Line(
                "isochrone",
                prefixed(seconds, "s").replace(".00", "").replace("10.0", "10"),
                ((x_low, y), (x, y), (x, y_low)),
                "muted",
                "dotted",
                seconds,
                "s",
            )
        )
    return lines


def _boxes(
    placements: Sequence[Placement],
    level: str,
    per_launch: bool,
    in_time: bool,
    style: Look,
    reference: tuple[float, str] | None,
) -> list[Box]:
    """Overhead boxes: of one launch, or of each series' (trial's) largest number of them."""
    wanted: dict[str, tuple[int, float, Placement, str]] = {}
    for number, each in enumerate(placements):
        if each.overhead is None or level not in each.roofs.bandwidth:
            continue
        if per_launch:
            launch = each.roofs.launch
            key = each.roofs.processor
            if launch is not None:
                wanted.setdefault(key, (1, launch.value, each, "muted"))
        else:
            key = group_of(each)
            color = style.colors.get(number, "muted") if len(style.groups) > 1 else "muted"
            if key not in wanted or wanted[key][0] < each.point.counted:
                wanted[key] = (each.point.counted, each.overhead, each, color)
    boxes = []
    for key, (launches, seconds, each, color) in list(wanted.items())[:_MOST_BOXES]:
        same = [one for one in placements if one.roofs.processor == each.roofs.processor]
        peak = _value(_reference(same) or reference)
        width = each.roofs.bandwidth[level].value
        box = model.overhead_box(1, seconds, peak, width)
        label = f"overhead of {launches:,} launch{'es' if launches > 1 else ''}: "
        label += prefixed(seconds, "s")
        if len(wanted) > 1 or (per_launch and len(machines(placements)) > 1):
            label = f"{clipped(processor_name(key), 24)}: {label}"
        corner = (box.seconds, box.seconds) if in_time else (box.bytes, box.flop)
        boxes.append(Box(label, *corner, color))
    return boxes


def _trajectories(
    placements: Sequence[Placement], symbols: Sequence[Symbol], style: Look
) -> list[Line]:
    """Solid through closed symbols, dashed through open ones, in the order of the parameter."""
    tracks: dict[tuple[str, bool], list[tuple[float, float, float, str]]] = {}
    for symbol in symbols:
        each = placements[symbol.point]
        if each.point.parameter is not None:
            key = (group_of(each), symbol.filled)
            step = (each.point.parameter, symbol.x, symbol.y, symbol.color)
            tracks.setdefault(key, []).append(step)
    return [
        Line(
            "trajectory",
            group,
            tuple((x, y) for _, x, y, _ in sorted(track)),
            track[0][3],
            "solid" if filled else "dashed",
        )
        for (group, filled), track in tracks.items()
        if len(track) > 1
    ]


def _marks(
    placements: Sequence[Placement], found: Sequence[Spot], style: Look
) -> tuple[list[chart.Mark], str]:
    idle = [(number, each) for number, each in enumerate(placements) if each.point.idle]
    still = [(spot.number, placements[spot.number]) for spot in found if spot.bytes <= 0]
    trials = max(len({each.point.trial for each in placements}), 1)
    marks = chart.stack(idle, "bottom", style.colors, trials)
    marks += chart.stack(still, "left", style.colors, trials)
    share = percent(100 * sum(each.point.share for _, each in idle) / trials)
    return marks, f"no flop: {len(idle)}, {share} % of time" if idle else ""


def _legend(kind: chart.Kind, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    legend = list(entries)
    if kind != "time":
        legend.append(Entry("closed: complexity (B, F)", "ink", 0, True))
    if kind == "combined":
        legend.append(Entry("open: time, on the other axes", "ink", 0, False))
    elif kind == "time":
        legend = [Entry(each.label, each.color, each.marker, False) for each in legend]
    return tuple(legend)


def _remarks(
    kind: chart.Kind, placements: Sequence[Placement], found: Sequence[Spot], alone: bool
) -> list[str]:
    notes = []
    there = {spot.number for spot in found}
    missing = [
        each
        for number, each in enumerate(placements)
        if each.point.known and each.point.total_flop and number not in there
    ]
    if missing:
        notes.append(f"{len(missing)} without a roof for their flop or bytes are not drawn")
    if kind == "combined" and not alone:
        notes.append("several processors: times have no common axis; see the time plane")
    peaks = {
        peak.name
        for each in placements
        for precision, flop in each.point.flop.items()
        if flop > 0 and (peak := each.roofs.peak(precision))
    }
    if kind == "combined" and len(peaks) > 1:
        notes.append(
            "each precision counts against its own peak; compute times of other precisions "
            "than the axis' stand in the table (`--peak NAME` uses one peak for all)"
        )
    return notes


def _title(kind: chart.Kind, placements: Sequence[Placement], level: str, per_launch: bool) -> str:
    what = {"routine": "routines", "phase": "phases", "program": "whole program"}
    if per_launch:
        return f"{chart.TITLES[kind]}, one launch of each kernel, {level}"
    of = " and ".join(dict.fromkeys(what.get(each.point.of, "") for each in placements))
    return f"{chart.TITLES[kind]} of {of}, {level}" if of else chart.TITLES[kind]
