"""A chart as data: axes, lines, boxes, symbols, and every number behind them.

Independent of layout, so that all writers (picture, page) and the tests share it. Coordinates are
in SI units on logarithmic axes. Colours and markers are names or numbers that a writer maps to
its own: "c0" to "c9" for categories, "other", a memory level, "ink" and "muted".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from taupy.roofline.naming import labels
from taupy.roofline.placement import Placement
from taupy.roofline.points import WHOLLY
from taupy.units import percent, prefixed

Kind = Literal["classic", "hierarchical", "complexity", "time", "combined"]
Role = Literal["compute", "bandwidth", "launch", "balance", "isochrone", "trajectory", "pair"]
Style = Literal["solid", "dashed", "dotted"]

TITLES: dict[Kind, str] = {
    "classic": "Roofline",
    "hierarchical": "Hierarchical roofline",
    "complexity": "Compute and bandwidth complexity",
    "time": "Compute and bandwidth time",
    "combined": "Time-based roofline",
}
COLORS = 10
_WEIGHTY = 0.001  # a point with at least this share of the time is always drawn
_NEAR = 30.0
_LEAST, _MOST = 1e-40, 1e40
_WHOLE_AREA = 0.1  # if many points share the time evenly, none is drawn large
MARKERS = 10
SHAPE = 1.55  # width over height of a plane


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis in SI units."""

    label: str
    unit: str
    low: float
    high: float

    @property
    def decades(self) -> float:
        """Length in powers of ten."""
        return math.log10(self.high / self.low)


@dataclass(frozen=True, slots=True)
class Line:
    """A line in the plane; roofs have a value and a source."""

    role: Role
    label: str
    points: tuple[tuple[float, float], ...]
    color: str = "ink"
    style: Style = "solid"
    value: float | None = None
    unit: str = ""
    source: str = ""
    reference: str = ""
    processor: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """The overhead box: from the origin to its corner."""

    label: str
    x: float
    y: float
    color: str = "muted"


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; `point` is its position in `Chart.points`, `area` goes from 0 to 1."""

    point: int
    x: float
    y: float
    area: float
    color: str
    marker: int = 0
    filled: bool = True
    level: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A point that logarithmic axes cannot show: a section of a strip.

    Attributes:
        low, high: limits of its section, 0 to 1; the length is its share of the run time.
    """

    point: int
    low: float
    high: float
    color: str = "other"


@dataclass(frozen=True, slots=True)
class Strip:
    """Points that the plane cannot show, in a strip whose length is the run time."""

    label: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the legend."""

    label: str
    color: str
    marker: int = 0
    filled: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart with all its numbers.

    Attributes:
        level: the memory level; empty for all.
        x2, y2: secondary axes or None; their limits correspond to those of x and y.
        points: one record per point with every number of the chart, for JSON.
        equal_decades: whether a decade is equally long on both axes, so that slanted roofs rise at
            45 degrees.
    """

    kind: Kind
    level: str
    title: str
    subtitle: str
    x: Axis
    y: Axis
    x2: Axis | None
    y2: Axis | None
    lines: tuple[Line, ...]
    boxes: tuple[Box, ...]
    symbols: tuple[Symbol, ...]
    strips: tuple[Strip, ...]
    legend: tuple[Entry, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    points: tuple[dict[str, Any], ...]
    equal_decades: bool = False


def to_json(chart: Chart) -> dict[str, Any]:
    """The chart for JSON; non-finite values become null."""
    document = _finite(asdict(chart))
    document["format"] = "taupy roofline chart 2"
    return document  # type: ignore[no-any-return]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def area(placement: Placement, largest: float) -> float:
    """Area of a symbol, 0 to 1, from its share of the time; a writer adds the minimum.

    All points of a sweep have the same size, because each is a separate trial or phase.
    """
    if placement.point.parameter is not None:
        return 0.12
    return placement.point.share / max(largest, _WHOLE_AREA)


def drawable(*values: float) -> bool:
    """Whether these are valid on logarithmic axes; physically impossible values are not."""
    return all(_LEAST < value < _MOST for value in values)


def span(values: Iterable[float], below: float, above: float) -> tuple[float, float]:
    """Limits of an axis: a factor below the smallest and above the largest value."""
    finite = [value for value in values if drawable(value)]
    if not finite:
        return 0.1, 10.0
    low, high = min(finite) / below, max(finite) * above
    if high / low < 30:  # leave room for enough readable ticks
        middle = math.sqrt(low * high)
        low, high = middle / 5.5, middle * 5.5
    return low, high


def widened(
    x: tuple[float, float], y: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of two axes, one widened so that equal decades fill a plane of the given shape."""
    across, up = (math.log10(high / low) for low, high in (x, y))
    if across < SHAPE * up:
        by = 10 ** ((SHAPE * up - across) / 2)
        return (x[0] / by, x[1] * by), y
    by = 10 ** ((across / SHAPE - up) / 2)
    return x, (y[0] / by, y[1] * by)


def in_view(
    symbols: Sequence[Symbol], placements: Sequence[Placement]
) -> tuple[list[Symbol], list[str]]:
    """The symbols that a chart shows, and a note on the others.

    A point with almost no time, far from all others, would compress the rest. It is not drawn,
    but it is in the table and in the files.
    """
    weighty = [symbol for symbol in symbols if placements[symbol.point].point.share >= _WEIGHTY]
    if not weighty:
        return list(symbols), []
    (left, right), (bottom, top) = (
        span([getattr(symbol, side) for symbol in weighty], _NEAR, _NEAR) for side in ("x", "y")
    )
    shown = {
        symbol.point
        for symbol in symbols
        if symbol in weighty or (left <= symbol.x <= right and bottom <= symbol.y <= top)
    }
    hidden = {symbol.point for symbol in symbols} - shown
    if not hidden:
        return list(symbols), []
    trials = max(len({placement.point.trial for placement in placements}), 1)
    share = sum(placements[number].point.share for number in hidden) / trials
    note = f"{len(hidden)} far outside the chart, not drawn: {percent(100 * share)} % of the time"
    return [symbol for symbol in symbols if symbol.point in shown], [note]


def in_chart(symbols: Iterable[Symbol], strips: Iterable[Strip]) -> set[int]:
    """Positions of the points that a chart shows, as symbols or in strips."""
    shown = {symbol.point for symbol in symbols}
    return shown | {mark.point for strip in strips for mark in strip.marks if mark.high > mark.low}


def strips(placements: Sequence[Placement], unmoved: Sequence[int]) -> tuple[Strip, ...]:
    """Strips for points without flop, and for those without bytes; their marks are grey.

    Args:
        unmoved: positions of points that have flop but no bytes at the levels of the chart.
    """
    idle = [number for number, placement in enumerate(placements) if placement.point.idle]
    named = (("no flop", idle), ("no bytes", unmoved))
    return tuple(_strip(name, placements, some) for name, some in named if some)


def _strip(name: str, placements: Sequence[Placement], some: Sequence[int]) -> Strip:
    trials = max(len({placement.point.trial for placement in placements}), 1)
    marks = []
    at = 0.0
    for number in some:
        end = min(1.0, at + placements[number].point.share / trials)
        marks.append(Mark(number, at, end))
        at = end
    share = _share([placements[number] for number in some], placements)
    return Strip(f"{name}: {len(some)}, {share} % of time", tuple(marks))


def remarks(placements: Sequence[Placement], *, idle: bool = True) -> list[str]:
    """Notes on the origin of the numbers and on points that are not in the chart.

    Args:
        idle: include the share of time in kernels without flop.
    """
    notes = [_tiers(placements)]
    zero = [placement for placement in placements if placement.point.idle]
    if idle and zero and all(placement.point.of_gpu for placement in zero):
        notes.append(f"{len(zero)} without flop: {_share(zero, placements)} % of the time")
    shares = [
        covered
        for covered in {
            placement.point.trial: placement.point.covered for placement in placements
        }.values()
        if covered is not None and covered < WHOLLY
    ]
    if shares:
        of = " to ".join(
            dict.fromkeys(percent(100 * share) for share in (min(shares), max(shares)))
        )
        notes.append(
            f"counted routines take {of} % of the run time; the work of the others is UNKNOWN"
        )
    notes += _uncounted(placements)
    unknown = [placement for placement in placements if not placement.point.is_known]
    if unknown:
        share = _share(unknown, placements)
        notes.append(f"{len(unknown)} not counted, not drawn: {share} % of the time")
    partly = [
        placement
        for placement in placements
        if placement.point.is_known and 0 < placement.point.counted < placement.point.launches
    ]
    if partly:
        notes.append(
            f"{len(partly)} counted in part of their launches: rates refer to those, "
            "shares of the time to all"
        )
    alone = [placement for placement in placements if placement.point.rates_alone]
    if alone:
        notes.append(f"{len(alone)} without a duration: rates from the file, no share of time")
    texts = [
        text for placement in placements for text in (*placement.assumed, *placement.point.notes)
    ]
    unique = [text for text in dict.fromkeys(texts) if not text[:1].isdigit()]
    notes += unique[:6]
    scaled = sum("timing trial" in text for text in texts)
    if scaled:
        notes.append(f"{scaled} scaled to the launches of the timing trial, or missing there")
    return notes


def _tiers(placements: Sequence[Placement]) -> str:
    """The origin of flop and bytes."""
    descriptions = {
        "measured": "measured counters",
        "analytic": "ANALYTIC, from shapes",
        "unknown": "unknown for some",
    }
    flop, moved = (
        ", ".join(descriptions[tier] for tier in sorted(tiers))
        for tiers in (
            {placement.point.flop_tier for placement in placements},
            {placement.point.bytes_tier for placement in placements},
        )
    )
    return f"flop: {flop}; bytes: {moved}"


def _uncounted(placements: Sequence[Placement]) -> list[str]:
    """Operations missing in the flop of points, most frequent first."""
    operations = Counter(
        placement.point.uncounted for placement in placements if placement.point.uncounted
    )
    return [
        f"NOT COUNTED for {number} of {len(placements)}: {', '.join(names)}; their flop, rates and "
        "shares of the roof are lower bounds"
        for names, number in operations.most_common(3)
    ]


def _share(some: Sequence[Placement], of: Sequence[Placement]) -> str:
    trials = max(len({placement.point.trial for placement in of}), 1)
    return percent(100 * sum(placement.point.share for placement in some) / trials)


def warnings(placements: Sequence[Placement]) -> list[str]:
    """Points above a roof, which means that a count or a roof is wrong."""
    named = zip(placements, labels(placements, 60), strict=True)
    above = [(placement, label) for placement, label in named if placement.above_roof]
    return [
        f"{label} is above its roof ({percent(100 * (placement.roof_share or 0))} %): "
        f"{placement.why_above}"
        for placement, label in above[:3]
    ] + ([f"... and {len(above) - 3} more above their roofs"] if len(above) > 3 else [])


def value_label(name: str, value: float, unit: str, source: str) -> str:
    """The label of a roof: `DRAM 829 GB/s (measured)`."""
    return f"{name} {prefixed(value, unit)} ({source})"
