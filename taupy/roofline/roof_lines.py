"""The roofs in charts of performance over intensity: which lines to draw, and from where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taupy.model.machine import Ceiling
from taupy.roofline import chart, model
from taupy.roofline.chart import Line, Symbol
from taupy.roofline.look import Look
from taupy.roofline.naming import clipped
from taupy.roofline.placement import Placement
from taupy.roofline.roofs import Roofs, none_known
from taupy.units import prefixed

_MOST_PEAKS = 6
_MATTERS = 0.01
_LAUNCH_REACH = 4.0  # a launch ceiling goes from 1/4 to 4 times the intensities of its kernel


@dataclass(frozen=True, slots=True)
class Drawn:
    """The roofs of one processor that a chart draws.

    Attributes:
        peaks: compute roofs, the highest first; bands: level and its bandwidth.
        further: from `--also`, drawn dashed.
    """

    roofs: Roofs
    peaks: tuple[Ceiling, ...]
    bands: tuple[tuple[str, Ceiling], ...]
    further: bool = False

    @property
    def ridges(self) -> list[float]:
        """Intensity at which a bandwidth roof meets a compute roof [flop/B]."""
        return [
            model.ridge(peak.value, band.value) for peak in self.peaks for _, band in self.bands
        ]


def drawn_roofs(
    placements: Sequence[Placement], levels: Sequence[str], also: Sequence[Roofs]
) -> list[Drawn]:
    """The roofs of each processor, then those of `--also` for the same precisions."""
    own = [
        Drawn(roofs, _peaks(roofs, placements), _bands(roofs, levels))
        for roofs in machines(placements)
    ]
    names = {peak.name for drawn in own for peak in drawn.peaks}
    return own + [
        Drawn(
            roofs,
            _highest(peak for name, peak in roofs.compute.items() if name in names)
            or _in_use(roofs, placements),
            _bands(roofs, levels),
            further=True,
        )
        for roofs in also
    ]


def machines(placements: Sequence[Placement]) -> list[Roofs]:
    """The processors of the points, each once."""
    by_processor: dict[str, Roofs] = {}
    for placement in placements:
        by_processor.setdefault(placement.roofs.processor, placement.roofs)
    return list(by_processor.values())


def matters(placement: Placement, precision: str, flop: float) -> bool:
    """Whether the share of ideal compute time justifies a separate roof: a few indices computed
    in double precision do not justify an fp64 roof."""
    peak = placement.roofs.peak(precision)
    if flop <= 0 or peak is None or not placement.compute:
        return False
    return flop / peak.value >= _MATTERS * placement.compute


def _peaks(roofs: Roofs, placements: Sequence[Placement]) -> tuple[Ceiling, ...]:
    """The compute roofs that the points need; all, if no point has flop."""
    used = {
        peak.name: peak
        for placement in placements
        if placement.roofs.processor == roofs.processor
        for precision, flop in placement.point.flop.items()
        if matters(placement, precision, flop) and (peak := roofs.peak(precision))
    }
    return _highest((used or roofs.compute).values())[:_MOST_PEAKS]


def _in_use(roofs: Roofs, placements: Sequence[Placement]) -> tuple[Ceiling, ...]:
    """Peaks of other precisions that are used because the points' own precisions have none."""
    precisions = {
        name for placement in placements for name, flop in placement.point.flop.items() if flop > 0
    }
    peaks = {peak.name: peak for name in precisions if (peak := roofs.peak(name))}
    return _highest(peaks.values())


def _highest(peaks: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    return tuple(sorted(peaks, key=lambda peak: -peak.value))


def _bands(roofs: Roofs, levels: Sequence[str]) -> tuple[tuple[str, Ceiling], ...]:
    return tuple((level, roofs.bandwidth[level]) for level in levels if level in roofs.bandwidth)


def roof_lines(
    drawn: Drawn, x: tuple[float, float], bottom: float, name: str, color: str
) -> list[Line]:
    """Bandwidth roofs up to the ridge with the highest compute roof; compute roofs from there on.

    Args:
        x: limits of the axis; bottom: the lower limit of the other.
        name: beginning of labels; color: "" for the levels' colours.
    """
    lines = []
    for level, band in drawn.bands:
        start = max(x[0], bottom / band.value)
        end = min(x[1], model.ridge(drawn.peaks[0].value, band.value)) if drawn.peaks else x[1]
        if end > start:
            path = ((start, start * band.value), (end, end * band.value))
            lines.append(_roof(drawn, "bandwidth", (name, level), band, path, color or level))
    fastest = max((band.value for _, band in drawn.bands), default=0.0)
    for peak in drawn.peaks:
        start = max(x[0], model.ridge(peak.value, fastest)) if fastest else x[0]
        if start < x[1]:
            path = ((start, peak.value), (x[1], peak.value))
            lines.append(_roof(drawn, "compute", (name, peak.name), peak, path, color or "ink"))
    return lines


def _roof(
    drawn: Drawn,
    role: chart.Role,
    names: tuple[str, str],
    ceiling: Ceiling,
    path: tuple[tuple[float, float], tuple[float, float]],
    color: str,
) -> Line:
    begin, what = names
    return Line(
        role,
        begin + chart.value_label(what, ceiling.value, ceiling.unit, ceiling.source),
        path,
        color="muted" if drawn.further else color,
        style="dashed" if drawn.further else "solid",
        value=ceiling.value,
        unit=ceiling.unit,
        source=ceiling.source,
        reference=ceiling.reference or ceiling.pattern,
        processor=drawn.roofs.processor,
    )


@dataclass(frozen=True, slots=True)
class LaunchCeiling:
    """The launch ceiling of one point: its flop divided by the time of its launches."""

    point: int
    label: str
    note: str
    height: float
    ceiling: Ceiling

    def line(self, symbols: Sequence[Symbol], style: Look, x: tuple[float, float]) -> Line | None:
        """A line above the symbols of its point, in their colour; None if it has none."""
        across = [symbol.x for symbol in symbols if symbol.point == self.point]
        if not across:
            return None
        ends = max(x[0], min(across) / _LAUNCH_REACH), min(x[1], max(across) * _LAUNCH_REACH)
        return Line(
            "launch",
            self.label,
            ((ends[0], self.height), (ends[1], self.height)),
            color=style.colors.get(self.point, "muted"),
            style="dotted",
            value=self.height,
            unit="flop/s",
            source=self.ceiling.source,
            reference=self.ceiling.reference,
            processor=self.ceiling.processor,
        )


def launch_ceiling(placements: Sequence[Placement]) -> LaunchCeiling | None:
    """The launch ceiling of the point with the most time: each kernel has its own, and one for all
    kernels together would be meaningless. None if launches or their latency are unknown."""
    launched = [
        number
        for number, placement in enumerate(placements)
        if placement.overhead and placement.point.total_flop > 0
    ]
    if not launched or len(machines(placements)) > 1:
        return None
    number = max(launched, key=lambda launched_point: placements[launched_point].point.run_time)
    largest = placements[number]
    ceiling = largest.roofs.launch
    if ceiling is None or not largest.overhead:
        return None
    height = largest.point.total_flop / largest.overhead
    label = f"launch ceiling of {clipped(largest.point.short, 24)} {prefixed(height, 'flop/s')}"
    launches = "1 launch" if largest.point.counted == 1 else f"{largest.point.counted:,} launches"
    note = f"{label}: its flop in {launches} of {prefixed(ceiling.value, 's')} ({ceiling.source})"
    return LaunchCeiling(number, label, note, height, ceiling)


def processor_color(roofs: Roofs, placements: Sequence[Placement], style: Look) -> str:
    """The common colour of the points of that processor, if any."""
    colors = {
        style.colors[number]
        for number, placement in enumerate(placements)
        if placement.roofs.processor == roofs.processor and number in style.colors
    }
    return colors.pop() if len(colors) == 1 else "ink"


def missing_roofs(processors: Sequence[Roofs], levels: Sequence[str]) -> list[str]:
    """Notes on processors without ceilings, or without the bandwidth of some level."""
    notes = []
    for roofs in processors:
        name = roofs.processor or "this processor"
        lacking = [level for level in levels if level not in roofs.bandwidth]
        if roofs.empty:
            notes.append(none_known(name))
        elif lacking:
            notes.append(
                f"no roof for {', '.join(lacking)} of {name}: measure it with `taupy ceilings`"
            )
    return notes
