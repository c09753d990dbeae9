"""Where the labels of a chart stand, for all writers: by rules, with estimated widths.

Roofs are named along their lines. Where two parallel ones are close together, the further label
moves away from its line, in the same order. Along its line, a label avoids symbols.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from taupy.roofline.chart import Axis, Box, Chart, Line, Symbol

ROOF_SIZE = 7.8
"""Height of the letters of a roof's label, in points."""

Anchor = Literal["start", "end"]

_SMALL_SIZE = 6.8
_BOX_SIZE = 7.2
_GAP = 1.6  # between a label and its line, in points
_HALF = 0.62  # of a label's height, in heights of its letters
_PITCH = 2 * _HALF * ROOF_SIZE + 0.5  # between the middles of two labels
_INDENT = 2 * ROOF_SIZE  # from the end of a line, so that a slanted label is inside the plane
_LETTER = 0.62  # mean width of a letter, in heights of letters
_STEPS = 12
_ROOFS = ("compute", "bandwidth", "balance", "launch")


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its place.

    Attributes:
        x, y: the middle of its beginning or end, as fractions of the plane's width and height from
            the lower left.
        anchor: which of the two that is.
        angle: degrees, counterclockwise; size: height of its letters in points.
        point: the point it names, as a position in `Chart.points`; -1 for none.
    """

    text: str
    color: str
    x: float
    y: float
    anchor: Anchor
    angle: float
    size: float
    point: int = -1


def lettering(chart: Chart, width: float, height: float) -> tuple[Label, ...]:
    """The labels of a chart; width and height of the plane are in points."""
    plane = _Plane(chart.x, chart.y, width, height)
    labels = [*_roofs(chart, plane), *_boxes(chart.boxes, plane)]
    labels += [
        _isochrone(line, plane)
        for line in chart.lines
        if line.role == "isochrone" and line.label and plane.has_room_at(*line.points[1])
    ]
    labels += [_symbol(symbol, plane) for symbol in chart.symbols if symbol.text]
    return tuple(labels)


def radius(symbol: Symbol) -> float:
    """Radius of a symbol in points."""
    return math.sqrt(5.0 + 80.0 * symbol.area)


@dataclass(frozen=True, slots=True)
class _Plane:
    """Places in points from the lower left of the plane."""

    x: Axis
    y: Axis
    width: float
    height: float

    def spot(self, x: float, y: float) -> tuple[float, float]:
        return _along(self.x, x) * self.width, _along(self.y, y) * self.height

    def has_room_at(self, x: float, y: float) -> bool:
        """Whether a label fits left of and above this place."""
        across, up = self.spot(x, y)
        return 4 * ROOF_SIZE < across < self.width and 0 < up < self.height - 2 * ROOF_SIZE

    def label(
        self,
        text: str,
        color: str,
        spot: tuple[float, float],
        anchor: Anchor,
        size: float,
        *,
        angle: float = 0.0,
        point: int = -1,
    ) -> Label:
        x, y = spot[0] / self.width, spot[1] / self.height
        return Label(text, color, x, y, anchor, math.degrees(angle), size, point)


def _along(axis: Axis, value: float) -> float:
    return math.log10(value / axis.low) / axis.decades


def _apart(wanted: Sequence[float], pitch: float) -> list[float]:
    """Ascending positions, moved up as far as needed for this distance between neighbours."""
    apart: list[float] = []
    for position in wanted:
        apart.append(max(position, apart[-1] + pitch) if apart else position)
    return apart


def _roofs(chart: Chart, plane: _Plane) -> Iterator[Label]:
    """Above flat roofs, at their right ends; above slanted ones, at their left ends; below
    balances, since isochrones are named above them."""
    groups: dict[tuple[int, bool], list[tuple[float, Line]]] = {}
    for line in chart.lines:
        if line.label and line.role in _ROOFS:
            angle, above = _direction(line, plane), line.role != "balance"
            height = _turned(plane.spot(*line.points[0]), -angle)[1]
            groups.setdefault((round(1000 * angle), above), []).append((height, line))
    for (_, above), group in groups.items():
        side = 1 if above else -1
        group.sort(key=lambda entry: side * entry[0])
        aside = _HALF * ROOF_SIZE + _GAP
        heights = _apart([side * height + aside for height, _ in group], _PITCH)
        for height, (_, line) in zip(heights, group, strict=True):
            yield _roof(line, side * height, chart.symbols, plane)


def _roof(line: Line, height: float, symbols: Sequence[Symbol], plane: _Plane) -> Label:
    """
    Args:
        height: of the label's middle, across the direction of the line.
    """
    angle = _direction(line, plane)
    start, end = (_turned(plane.spot(*at), -angle)[0] for at in (line.points[0], line.points[-1]))
    is_left = line.role == "launch" and start + end < plane.width
    anchor: Anchor = "start" if line.role in ("bandwidth", "balance") or is_left else "end"
    indent = 2 * _INDENT if line.role == "balance" else _INDENT
    long = _LETTER * ROOF_SIZE * len(line.label)
    room = max(0.0, end - start - 2 * indent - long)
    spots = [
        (_turned(plane.spot(symbol.x, symbol.y), -angle), radius(symbol)) for symbol in symbols
    ]

    def covered(left: float) -> int:
        """The number of symbols under a label that begins there."""
        return sum(
            left - size < along < left + long + size
            and abs(across - height) < size + _HALF * ROOF_SIZE
            for (along, across), size in spots
        )

    from_start = [start + indent + room * step / _STEPS for step in range(_STEPS + 1)]
    from_end = [end - indent - long - room * step / _STEPS for step in range(_STEPS + 1)]
    left = min(from_start if anchor == "start" else from_end, key=covered)
    spot = _turned((left if anchor == "start" else left + long, height), angle)
    return plane.label(line.label, line.color, spot, anchor, ROOF_SIZE, angle=angle)


def _direction(line: Line, plane: _Plane) -> float:
    """The angle of a straight line, in radians."""
    (left, low), (right, high) = (plane.spot(*at) for at in (line.points[0], line.points[-1]))
    return math.atan2(high - low, right - left)


def _turned(spot: tuple[float, float], angle: float) -> tuple[float, float]:
    cosine, sine = math.cos(angle), math.sin(angle)
    return spot[0] * cosine - spot[1] * sine, spot[0] * sine + spot[1] * cosine


def _boxes(boxes: Sequence[Box], plane: _Plane) -> Iterator[Label]:
    """Within, below the upper edge; right of the corner, if the box is narrower than its label."""
    corners = [(-plane.spot(box.x, box.y)[1], box) for box in boxes if box.label]
    corners.sort(key=lambda corner: corner[0])
    aside = _HALF * _BOX_SIZE + _GAP
    depths = _apart([depth + aside for depth, _ in corners], _PITCH)
    for depth, (_, box) in zip(depths, corners, strict=True):
        right = plane.spot(box.x, box.y)[0]
        is_narrow = right < _LETTER * _BOX_SIZE * len(box.label)
        x = 2 * _GAP + (right if is_narrow else 0.0)
        yield plane.label(box.label, box.color, (x, -depth), "start", _BOX_SIZE)


def _isochrone(line: Line, plane: _Plane) -> Label:
    """Above its corner."""
    x, y = plane.spot(*line.points[1])
    spot = x - _GAP, y + _HALF * _SMALL_SIZE + _GAP
    return plane.label(line.label, line.color, spot, "end", _SMALL_SIZE)


def _symbol(symbol: Symbol, plane: _Plane) -> Label:
    """Beside it, and a little above."""
    x, y = plane.spot(symbol.x, symbol.y)
    size = radius(symbol)
    anchor: Anchor = "end" if x > 0.9 * plane.width else "start"
    x += (size + 2) * (1 if anchor == "start" else -1)
    spot = x, y + size
    return plane.label(symbol.text, symbol.color, spot, anchor, _SMALL_SIZE, point=symbol.point)
