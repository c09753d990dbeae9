"""Charts of time-based rooflines after Wang et al. (2020): complexity, time, and both.

- complexity: x is bytes, y is flop; equal intensities are diagonals, and the machine balance
  separates bandwidth-bound from compute-bound.
- time: x is bandwidth time, y is compute time (see `model.py`); the larger is the run time.
- combined: closed symbols in the complexity plane, open ones at (bandwidth time * W, compute
  time * P), read on the secondary axes. The farther apart, the farther from the roof.

Each kernel is drawn for one launch (sums divided by the number of launches), so that one overhead
box is valid for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taupy.roofline import chart, model
from taupy.roofline.chart import Axis, Box, Chart, Entry, Line, Symbol
from taupy.roofline.classic import subtitle
from taupy.roofline.look import Look, group_of, look, painted, painted_strips, processor_name
from taupy.roofline.naming import clipped
from taupy.roofline.numbers import record
from taupy.roofline.placement import Placement
from taupy.roofline.point import PLURALS
from taupy.roofline.roof_lines import machines, processor_color
from taupy.units import prefixed

_MOST_BOXES = 4
_MOST_PAIRS = 60


@dataclass(frozen=True, slots=True)
class Spot:
    """One point in both planes; bytes, flop and seconds of one symbol."""

    number: int
    bytes: float
    flop: float
    times: model.Times
    peak: float
    bandwidth: float


def spots(placements: Sequence[Placement], level: str, per_launch: bool) -> list[Spot]:
    """The points that can be drawn: with flop or bytes, and with roofs for both."""
    spots = []
    for number, placement in enumerate(placements):
        times = placement.times(level)
        if times is None or level not in placement.point.bytes:
            continue
        by = max(placement.point.counted, 1) if per_launch else 1
        bandwidth = placement.roofs.bandwidth[level].value
        peak = placement.peak or (_reference(placements) or (0.0, ""))[0]
        spots.append(
            Spot(
                number,
                placement.point.bytes[level] / by,
                placement.point.total_flop / by,
                model.Times(times.compute / by, times.bandwidth / by),
                peak,
                bandwidth,
            )
        )
    return spots


def complexity(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Bytes and flop of each point, independent of its time."""
    return _chart("complexity", placements, level, top, equal_decades)


def time_plane(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Bandwidth time and compute time of each point."""
    return _chart("time", placements, level, top, equal_decades)


def combined(
    placements: Sequence[Placement], level: str, top: int = 10, equal_decades: bool = False
) -> Chart:
    """Both planes: closed symbols for complexity, open ones for time."""
    return _chart("combined", placements, level, top, equal_decades)


def _reference(placements: Sequence[Placement]) -> tuple[float, str] | None:
    """The peak of the secondary axis, of the precision with the most ideal compute time."""
    by_name: dict[str, tuple[float, float]] = {}
    for placement in placements:
        for precision, flop in placement.point.flop.items():
            peak = placement.roofs.peak(precision)
            if peak is not None and flop > 0:
                seconds, _ = by_name.get(peak.name, (0.0, 0.0))
                by_name[peak.name] = (seconds + flop / peak.value, peak.value)
    if by_name:
        name = max(by_name, key=lambda group: by_name[group][0])
        return by_name[name][1], name
    for placement in placements:
        if placement.roofs.compute:
            best = max(placement.roofs.compute.values(), key=lambda ceiling: ceiling.value)
            return best.value, best.name
    return None


Limits = tuple[tuple[float, float], tuple[float, float]]
"""Limits of the horizontal and of the vertical axis."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """The contents of a chart before its axes have limits.

    Attributes:
        reference: the peak of the secondary axis, and its precision.
    """

    kind: chart.Kind
    level: str
    placements: Sequence[Placement]
    spots: Sequence[Spot]
    symbols: tuple[Symbol, ...]
    style: Look
    reference: tuple[float, str] | None

    @property
    def in_time(self) -> bool:
        return self.kind == "time"

    @property
    def per_launch(self) -> bool:
        return any(placement.point.of_gpu for placement in self.placements)

    @property
    def alone(self) -> bool:
        """Whether there is only one processor."""
        return len(machines(self.placements)) == 1

    def limits(self, boxes: Sequence[Box], equal_decades: bool) -> Limits:
        x = chart.span([symbol.x for symbol in self.symbols] + [box.x for box in boxes], 4, 4)
        y = chart.span([symbol.y for symbol in self.symbols] + [box.y for box in boxes], 4, 4)
        if self.in_time:  # the same scale on both axes, so that the diagonal is at 45 degrees
            both = min(x[0], y[0]), max(x[1], y[1])
            return both, both
        return chart.widened(x, y) if equal_decades else (x, y)

    def lines(self, limits: Limits) -> list[Line]:
        lines = _pairs(self.spots, self.symbols) if self.kind == "combined" else []
        lines += _balances(self.placements, self.level, limits, self.in_time, self.style)
        if self.in_time:
            lines += _isochrones(limits, (1.0, 1.0))
        elif self.kind == "combined" and self.alone and self.reference:
            width = self.spots[0].bandwidth if self.spots else 1.0
            lines += _isochrones(limits, (width, self.reference[0]))
        return lines + _trajectories(self.placements, self.symbols, self.style)

    def axes(self, limits: Limits) -> tuple[Axis, Axis, Axis | None, Axis | None]:
        """The x and y axes, and the secondary ones if they are well-defined."""
        across, up = limits
        if self.in_time:
            return Axis("Bandwidth time", "s", *across), Axis("Compute time", "s", *up), None, None
        x = Axis(f"Bandwidth complexity at {self.level}", "B", *across)
        y = Axis("Computational complexity", "flop", *up)
        if self.kind != "combined" or not (self.alone and self.reference and self.spots):
            return x, y, None, None
        width, (peak, precision) = self.spots[0].bandwidth, self.reference
        x2 = Axis(f"Bandwidth time at {prefixed(width, 'B/s')}", "s", x.low / width, x.high / width)
        name = f"Compute time at {prefixed(peak, 'flop/s')} ({precision})"
        return x, y, x2, Axis(name, "s", y.low / peak, y.high / peak)


def _chart(
    kind: chart.Kind,
    placements: Sequence[Placement],
    level: str,
    top: int,
    equal_decades: bool,
) -> Chart:
    per_launch = any(placement.point.of_gpu for placement in placements)
    places = spots(placements, level, per_launch)
    symbols, hidden = chart.in_view(_symbols(kind, placements, places), placements)
    strips = chart.strips(placements, [spot.number for spot in places if spot.bytes <= 0])
    style = look(placements, top, chart.in_chart(symbols, strips))
    reference = _reference(placements)
    plane = _Plane(kind, level, placements, places, painted(symbols, style), style, reference)
    boxes = _boxes(placements, level, per_launch, plane.in_time, style, reference)
    limits = plane.limits(boxes, equal_decades)
    x, y, x2, y2 = plane.axes(limits)
    return Chart(
        kind=kind,
        level=level,
        title=_title(kind, placements, level, per_launch),
        subtitle=subtitle(placements),
        x=x,
        y=y,
        x2=x2,
        y2=y2,
        lines=tuple(plane.lines(limits)),
        boxes=tuple(boxes),
        symbols=plane.symbols,
        strips=painted_strips(strips, style),
        legend=_legend(kind, style.legend, plane.symbols),
        notes=(
            *chart.remarks(placements),
            *hidden,
            *_remarks(kind, placements, places, plane.alone),
        ),
        warnings=tuple(chart.warnings(placements)),
        points=tuple(record(placement, rank) for rank, placement in enumerate(placements, 1)),
        equal_decades=equal_decades,
    )


def _value(reference: tuple[float, str] | None) -> float:
    return reference[0] if reference else 1.0


def _symbols(
    kind: chart.Kind, placements: Sequence[Placement], places: Sequence[Spot]
) -> list[Symbol]:
    """Closed and open symbols, without colours yet."""
    largest = max((placement.point.share for placement in placements), default=0.0)
    symbols: list[Symbol] = []
    for spot in places:
        point = placements[spot.number].point
        size = chart.area(placements[spot.number], largest)
        text = "" if point.parameter is None else f"{point.parameter:g}"
        closed = (spot.bytes, spot.flop)
        opened = (spot.times.bandwidth, spot.times.compute)
        if kind == "combined":
            opened = (opened[0] * spot.bandwidth, opened[1] * spot.peak)
        if kind != "time" and chart.drawable(*closed):
            symbols.append(Symbol(spot.number, *closed, size, "", text=text))
        if kind != "complexity" and chart.drawable(*opened):
            symbols.append(Symbol(spot.number, *opened, size, "", filled=False, text=text))
    return symbols


def _pairs(places: Sequence[Spot], symbols: Sequence[Symbol]) -> list[Line]:
    """Lines joining each point's closed and open symbols; if many, only for named points."""
    closed = {symbol.point: symbol for symbol in symbols if symbol.filled}
    lines = []
    for symbol in symbols:
        crowded = len(places) > _MOST_PAIRS and symbol.color == "other"
        if not symbol.filled and not crowded and (other := closed.get(symbol.point)):
            path = ((other.x, other.y), (symbol.x, symbol.y))
            lines.append(Line("pair", "", path, symbol.color, "dotted"))
    return lines


def _balances(
    placements: Sequence[Placement],
    level: str,
    limits: Limits,
    in_time: bool,
    style: Look,
) -> list[Line]:
    """Diagonals where computing and moving take equal time, one for each peak in use."""
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
            for placement in placements
            if placement.roofs.processor == roofs.processor
            for precision, flop in placement.point.flop.items()
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
    slope: float, limits: Limits
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    (x_low, x_high), (y_low, y_high) = limits
    start, end = max(x_low, y_low / slope), min(x_high, y_high / slope)
    return ((start, start * slope), (end, end * slope)) if start < end else None


def _isochrones(limits: Limits, scale: tuple[float, float]) -> list[Line]:
    """Lines of equal run time: squares x = t W, y = t P, one per decade."""
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
    """Overhead boxes: for one launch, or for each series' (trial's) largest number of launches."""
    wanted: dict[str, tuple[int, float, Placement, str]] = {}
    for number, placement in enumerate(placements):
        if placement.overhead is None or level not in placement.roofs.bandwidth:
            continue
        if per_launch:
            launch = placement.roofs.launch
            key = placement.roofs.processor
            if launch is not None:
                wanted.setdefault(key, (1, launch.value, placement, "muted"))
        else:
            key = group_of(placement)
            color = style.colors.get(number, "muted") if len(style.groups) > 1 else "muted"
            if key not in wanted or wanted[key][0] < placement.point.counted:
                wanted[key] = (placement.point.counted, placement.overhead, placement, color)
    several = len(wanted) > 1 or (per_launch and len(machines(placements)) > 1)
    boxes: dict[tuple[int, float, float], Box] = {}
    for key, (launches, seconds, placement, color) in list(wanted.items())[:_MOST_BOXES]:
        processor = placement.roofs.processor
        same = [other for other in placements if other.roofs.processor == processor]
        peak = _value(_reference(same) or reference)
        width = placement.roofs.bandwidth[level].value
        box = model.overhead_box(1, seconds, peak, width)
        corner = (box.seconds, box.seconds) if in_time else (box.bytes, box.flop)
        label = f"overhead of {launches:,} launch{'es' if launches > 1 else ''}: "
        label += prefixed(seconds, "s")
        if several:
            label = f"{clipped(processor_name(key), 24)}: {label}"
        if (alike := boxes.get((launches, *corner))) is not None:
            label, color = f"{label.partition(': ')[0]}, {alike.label}", "muted"
        boxes[launches, *corner] = Box(label, *corner, color)
    return list(boxes.values())


def _trajectories(
    placements: Sequence[Placement], symbols: Sequence[Symbol], style: Look
) -> list[Line]:
    """Solid lines through closed symbols, dashed ones through open symbols, by parameter."""
    tracks: dict[tuple[str, bool], list[tuple[float, float, float, str]]] = {}
    for symbol in symbols:
        placement = placements[symbol.point]
        if placement.point.parameter is not None:
            key = (group_of(placement), symbol.filled)
            step = (placement.point.parameter, symbol.x, symbol.y, symbol.color)
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


def _legend(
    kind: chart.Kind, entries: Sequence[Entry], symbols: Sequence[Symbol]
) -> tuple[Entry, ...]:
    if kind == "time":
        return tuple(replace(entry, filled=False) for entry in entries)
    legend = list(entries)
    if any(symbol.filled for symbol in symbols):
        legend.append(Entry("closed: complexity (B, F)", "ink"))
    if any(not symbol.filled for symbol in symbols):
        legend.append(Entry("open: time, on the other axes", "ink", filled=False))
    return tuple(legend)


def _remarks(
    kind: chart.Kind, placements: Sequence[Placement], drawn: Sequence[Spot], alone: bool
) -> list[str]:
    notes = []
    numbers = {spot.number for spot in drawn}
    missing = [
        placement
        for number, placement in enumerate(placements)
        if placement.point.is_known and placement.point.total_flop and number not in numbers
    ]
    if missing:
        notes.append(f"not drawn: {len(missing)} without a roof for flop or bytes")
    if kind == "combined" and not alone:
        notes.append("several processors: times have no common axis; see the time plane")
    peaks = {
        peak.name
        for placement in placements
        for precision, flop in placement.point.flop.items()
        if flop > 0 and (peak := placement.roofs.peak(precision))
    }
    if kind == "combined" and len(peaks) > 1:
        notes.append(
            "each precision uses its own peak; the table has compute times of precisions other "
            "than the axis's (`--peak NAME` uses one peak for all)"
        )
    return notes


def _title(kind: chart.Kind, placements: Sequence[Placement], level: str, per_launch: bool) -> str:
    if per_launch:
        return f"{chart.TITLES[kind]}, one launch of each kernel, {level}"
    of = " and ".join(dict.fromkeys(PLURALS[placement.point.of] for placement in placements))
    return f"{chart.TITLES[kind]} of {of}, {level}" if of else chart.TITLES[kind]
