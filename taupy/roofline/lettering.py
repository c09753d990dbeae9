"""Place the labels of a chart, for all writers.

A writer passes the size of its plane and draws the labels that are returned. Each label is placed
inside the plane, where it covers no other label, crosses no line and hides few symbols; of equally
good places, the one closest to where a reader looks first is used.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from taupy.roofline.chart import Axis, Box, Chart, Line, Role, Symbol
from taupy.roofline.geometry import Rectangle, Spot

ROOF_SIZE = 7.8
"""Height of the letters of a roof's label, in points."""

_SMALL_SIZE = 6.8
_BOX_SIZE = 7.2
_MARGIN = 1.5  # from the plane's edges, in points
_GAP = 1.6  # between a label and its own line
_STEPS = 24
_LABEL, _SYMBOL = 100.0, 9.0  # cost of covering one
_CROSSING: dict[Role, float] = {
    "compute": 40.0,
    "bandwidth": 40.0,
    "balance": 40.0,
    "trajectory": 25.0,
    "launch": 25.0,
    "isochrone": 6.0,
    "pair": 3.0,
}
_EDGE = 20.0  # of an overhead box
_STEP = 0.03  # cost of each place further down the list
_FURTHER = 8.0  # cost of a place away from the label's own line
_UNREADABLE = 40.0  # at this cost or more, an optional label is omitted
_RANK: dict[Role, int] = {"compute": 0, "bandwidth": 1, "balance": 1, "launch": 2}
# Where along a line a reader looks for its label first.
_FIRST: dict[Role, float] = {"compute": 1.0, "launch": 0.5, "bandwidth": 0.1, "balance": 0.8}
_COMPASS = ((1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its place.

    Attributes:
        x, y: its centre, as fractions of the plane's width and height from the lower left.
        angle: degrees, counterclockwise; size: height of its letters in points.
        point: the point it names, as a position in `Chart.points`; -1 for none.
    """

    text: str
    color: str
    x: float
    y: float
    angle: float
    size: float
    point: int = -1


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A label with its possible places, best first.

    Attributes:
        own: the line, box or symbol it belongs to; it may touch its line or box.
        optional: omitted if there is no readable place.
        further: places away from its line, used if no other is free.
    """

    text: str
    color: str
    size: float
    places: Iterable[Rectangle]
    own: Line | Box | Symbol
    optional: bool = False
    further: Iterable[Rectangle] = ()


def lettering(chart: Chart, width: float, height: float) -> tuple[Label, ...]:
    """The labels of a chart; width and height of the plane are in points."""
    plane = _Plane(chart, width, height)
    labels = []
    for wanted in _wanted(chart, plane):
        place = plane.take(wanted)
        if place is not None:
            labels.append(
                Label(
                    wanted.text,
                    wanted.color,
                    place.x / width,
                    place.y / height,
                    math.degrees(math.atan2(place.up, place.across)),
                    wanted.size,
                    wanted.own.point if isinstance(wanted.own, Symbol) else -1,
                )
            )
    return tuple(labels)


def radius(symbol: Symbol) -> float:
    """Radius of a symbol in points."""
    return math.sqrt(5.0 + 80.0 * symbol.area)


def text_width(text: str, size: float) -> float:
    """Upper bound of a text's width in points, in DejaVu Sans."""
    return size * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.1
    if letter in " .,:;|!'()[]/ijlftI":
        return 0.41
    if letter in "mwMW%@…":
        return 1.0
    return 0.74 if letter.isupper() else 0.64


class _Plane:
    """Contents of the plane, in points from its lower left, and the labels placed so far."""

    def __init__(self, chart: Chart, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._x, self._y = chart.x, chart.y
        self._labels: list[Rectangle] = []
        self._symbols = self._spread(chart.symbols)
        self._lines: list[tuple[Line | Box, float, Spot, Spot]] = []
        for line in chart.lines:
            spots = [self.spot(*point) for point in line.points]
            self._lines += [
                (line, _CROSSING[line.role], start, end) for start, end in pairwise(spots)
            ]
        for box in chart.boxes:
            x, y = self.spot(box.x, box.y)
            self._lines += [(box, _EDGE, (0, y), (x, y)), (box, _EDGE, (x, 0), (x, y))]

    def spot(self, x: float, y: float) -> Spot:
        return _along(self._x, x) * self.width, _along(self._y, y) * self.height

    def _spread(self, symbols: Sequence[Symbol]) -> list[tuple[Spot, float]]:
        """Symbols and their radii; of coinciding symbols, the largest."""
        largest: dict[tuple[int, int], tuple[Spot, float]] = {}
        for symbol in symbols:
            spot = self.spot(symbol.x, symbol.y)
            cell = (round(spot[0] / 3), round(spot[1] / 3))
            if cell not in largest or largest[cell][1] < radius(symbol):
                largest[cell] = (spot, radius(symbol))
        return list(largest.values())

    def take(self, wanted: _Wanted) -> Rectangle | None:
        """Place a label at the best free place; None if it is omitted."""
        best, least = None, math.inf
        choices = ((wanted.places, 0.0, wanted.own), (wanted.further, _FURTHER, None))
        for places, begin, own in choices:
            for number, place in enumerate(places):
                preference = begin + _STEP * number
                if preference >= least:
                    break
                if not place.within(self.width, self.height, _MARGIN):
                    continue
                cost = preference + self._cost(place, own, least)
                if cost < least:
                    best, least = place, cost
        if best is None or (wanted.optional and least >= _UNREADABLE):
            return None
        self._labels.append(best)
        return best

    def _cost(self, place: Rectangle, own: Line | Box | Symbol | None, least: float) -> float:
        cost = _LABEL * sum(place.overlaps(other) for other in self._labels)
        for line, weight, start, end in self._lines:
            if cost >= least:
                return cost
            if line is not own and place.crossed(start, end):
                cost += weight
        return cost + _SYMBOL * sum(
            place.distance(spot) < size + 1.0 for spot, size in self._symbols
        )


def _along(axis: Axis, value: float) -> float:
    return math.log10(value / axis.low) / axis.decades


# --- the labels, and their possible places -----------------------------------------------


def _wanted(chart: Chart, plane: _Plane) -> Iterator[_Wanted]:
    """The labels with the fewest possible places first."""
    roofs = [line for line in chart.lines if line.label and line.role in _RANK]
    # From the top down: the upper of two near roofs has its label above, the lower below.
    roofs.sort(key=lambda line: (_RANK[line.role], -max(y for _, y in line.points)))
    for line in roofs:
        if line.style != "dashed":
            yield _of_line(line, plane)
    for box in chart.boxes:
        if box.label:
            yield _of_box(box, plane)
    for symbol in sorted(chart.symbols, key=lambda symbol: -symbol.area):
        if symbol.text:
            yield _of_symbol(symbol, plane)
    for line in chart.lines:
        if line.label and line.role == "isochrone":
            yield _of_isochrone(line, plane)
    for line in roofs:
        if line.style == "dashed":  # the notes also name them
            yield _of_line(line, plane)


def _sizes(text: str, size: float) -> tuple[float, float]:
    """Half width and half height of a label."""
    return text_width(text, size) / 2, 0.62 * size


def _of_line(line: Line, plane: _Plane) -> _Wanted:
    """Places along a straight line on both sides; beside it, horizontally, if it is too short."""
    start, end = plane.spot(*line.points[0]), plane.spot(*line.points[-1])
    whole = math.dist(start, end) or 1.0
    across, up = (end[0] - start[0]) / whole, (end[1] - start[1]) / whole
    half, high = _sizes(line.label, ROOF_SIZE)
    aside = high + _GAP
    room = sorted((half / whole, 1 - half / whole))
    # The isochrones' labels are above the balance.
    sides = (-1, 1) if line.role == "balance" else (1, -1)

    def places() -> Iterator[Rectangle]:
        for at in _from(_FIRST[line.role], *room):
            for side in sides:
                x = start[0] + at * whole * across - side * aside * up
                y = start[1] + at * whole * up + side * aside * across
                yield Rectangle(x, y, half, high, across, up)

    return _Wanted(
        *(line.label, line.color, ROOF_SIZE, places(), line),
        optional=line.style == "dashed",
        further=_around((_middle(start, end), start, end), half, high, plane),
    )


def _from(first: float, low: float, high: float) -> list[float]:
    """Positions between two limits, those closest to the first choice first."""
    steps = [low + (high - low) * step / _STEPS for step in range(_STEPS + 1)]
    return sorted(steps, key=lambda at: abs(at - first))


def _middle(start: Spot, end: Spot) -> Spot:
    return (start[0] + end[0]) / 2, (start[1] + end[1]) / 2


def _around(spots: Sequence[Spot], half: float, high: float, plane: _Plane) -> Iterator[Rectangle]:
    """Horizontal places beside, above and below some positions, then farther away."""
    for far in (4.0, 4.0 + 2 * high, 4.0 + 5 * high):
        for x, y in spots:
            for right, over in _COMPASS:
                middle_x = x + right * (half + far)
                middle_y = y + over * (high + far)
                yield Rectangle(
                    min(max(middle_x, half + _MARGIN), plane.width - half - _MARGIN),
                    min(max(middle_y, high + _MARGIN), plane.height - high - _MARGIN),
                    half,
                    high,
                )
    columns, rows = (max(2, int(side / 12)) for side in (plane.width, plane.height))
    places = [
        (
            half + _MARGIN + (plane.width - 2 * (half + _MARGIN)) * column / (columns - 1),
            high + _MARGIN + (plane.height - 2 * (high + _MARGIN)) * row / (rows - 1),
        )
        for column in range(columns)
        for row in range(rows)
    ]
    for x, y in sorted(places, key=lambda place: math.dist(place, spots[0])):
        yield Rectangle(x, y, half, high)


def _of_box(box: Box, plane: _Plane) -> _Wanted:
    """Places above or below the upper edge, or else beside the right edge."""
    half, high = _sizes(box.label, _BOX_SIZE)
    right, top = plane.spot(box.x, box.y)

    def places() -> Iterator[Rectangle]:
        edge = max(right, 2 * half) - half
        for step in range(_STEPS // 2 + 1):
            x = half + 4 * _GAP + (edge - half) * step / (_STEPS // 2)
            for side in (-1, 1):
                yield Rectangle(x, top + side * (high + _GAP), half, high)
        for step in range(_STEPS + 1):
            y = top - high - (top - 2 * high) * step / _STEPS
            yield Rectangle(right + half + 2 * _GAP, y, half, high)

    spots = (right, top), (right / 2, top)
    further = _around(spots, half, high, plane)
    return _Wanted(box.label, box.color, _BOX_SIZE, places(), box, further=further)


def _of_symbol(symbol: Symbol, plane: _Plane) -> _Wanted:
    half, high = _sizes(symbol.text, _SMALL_SIZE)
    x, y = plane.spot(symbol.x, symbol.y)
    size = radius(symbol)

    def places() -> Iterator[Rectangle]:
        for right, over in _COMPASS:
            near = 1.2 if right and over else 2.0
            yield Rectangle(
                x + right * (half + size + near), y + over * (high + size * 0.8 + near), half, high
            )

    return _Wanted(symbol.text, symbol.color, _SMALL_SIZE, places(), symbol, optional=True)


def _of_isochrone(line: Line, plane: _Plane) -> _Wanted:
    """Places on its horizontal arm, starting at the corner, or else beside its vertical arm."""
    half, high = _sizes(line.label, _SMALL_SIZE)
    corner, foot = (plane.spot(*point) for point in line.points[1:])

    def places() -> Iterator[Rectangle]:
        for step in range(_STEPS):
            x = corner[0] - half - _GAP - 6.0 * step
            for side in (1, -1):
                yield Rectangle(x, corner[1] + side * (high + _GAP), half, high)
        for step in range(_STEPS):
            y = corner[1] - high - 6.0 * step
            if y > foot[1]:
                yield Rectangle(corner[0] + half + 2 * _GAP, y, half, high)

    return _Wanted(line.label, line.color, _SMALL_SIZE, places(), line, optional=True)
