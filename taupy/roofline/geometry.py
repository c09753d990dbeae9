"""Rotated rectangles in a plane: overlap and intersection with lines."""

from __future__ import annotations

import math
from dataclasses import dataclass

Spot = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle given by its centre; `long` and `high` are half its sides.

    Attributes:
        across, up: cosine and sine of its direction.
    """

    x: float
    y: float
    long: float
    high: float
    across: float = 1.0
    up: float = 0.0

    @property
    def corners(self) -> list[Spot]:
        return [
            (
                self.x + along * self.long * self.across - aside * self.high * self.up,
                self.y + along * self.long * self.up + aside * self.high * self.across,
            )
            for along, aside in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]

    def seen(self, spot: Spot) -> Spot:
        """A position in the rectangle's own coordinates, relative to its centre."""
        x, y = spot[0] - self.x, spot[1] - self.y
        return x * self.across + y * self.up, y * self.across - x * self.up

    def overlaps(self, other: Rectangle) -> bool:
        return not self._apart(other) and not other._apart(self)

    def _apart(self, other: Rectangle) -> bool:
        """Whether one of this rectangle's sides separates the two."""
        seen = [self.seen(corner) for corner in other.corners]
        along, aside = [x for x, _ in seen], [y for _, y in seen]
        return (
            min(along) >= self.long
            or max(along) <= -self.long
            or min(aside) >= self.high
            or max(aside) <= -self.high
        )

    def distance(self, spot: Spot) -> float:
        """Distance from the rectangle; 0 inside."""
        along, aside = self.seen(spot)
        return math.hypot(max(abs(along) - self.long, 0.0), max(abs(aside) - self.high, 0.0))

    def crossed(self, start: Spot, end: Spot) -> bool:
        """Whether a straight line from start to end crosses the rectangle (Liang and Barsky, ACM
        Transactions on Graphics 3(1), 1984)."""
        first, last = 0.0, 1.0
        begin, finish = self.seen(start), self.seen(end)
        for origin, target, limit in zip(begin, finish, (self.long, self.high), strict=True):
            step = target - origin
            if step == 0:
                if abs(origin) >= limit:
                    return False
                continue
            near, far = sorted(((-limit - origin) / step, (limit - origin) / step))
            first, last = max(first, near), min(last, far)
        return first < last

    def within(self, width: float, height: float, margin: float) -> bool:
        """Whether it is inside a plane from (0, 0) to (width, height)."""
        return all(
            margin <= x <= width - margin and margin <= y <= height - margin
            for x, y in self.corners
        )
