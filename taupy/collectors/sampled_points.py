"""Samples of counters in bounded space: if there are too many, neighbours are merged."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from taupy.model.profile import Statistics

MOST_POINTS = 32_768


@dataclass(slots=True)
class Points:
    """Samples of some channels, in at most `most` points; beyond that, neighbours are merged.

    Attributes:
        sums: by channel.
        gaps_ns: total time between successive samples where some are missing.
    """

    channels: int
    most: int = MOST_POINTS
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    count: array[int] = field(default_factory=lambda: array("q"))
    mean: list[array[float]] = field(default_factory=list)
    low: list[array[float]] = field(default_factory=list)
    high: list[array[float]] = field(default_factory=list)
    sums: list[Statistics] = field(default_factory=list)
    gaps_ns: int = 0
    samples_a_point: int = 1

    def __post_init__(self) -> None:
        for columns in (self.mean, self.low, self.high):
            columns += [array("d") for _ in range(self.channels)]
        self.sums += [Statistics() for _ in range(self.channels)]

    def add(self, start: int, end: int, values: Sequence[float]) -> None:
        """Add a sample, which begins when the last one ended, or later."""
        for sums, value in zip(self.sums, values, strict=True):
            if value == value:  # NaN: nothing was counted
                sums.add(value)
        if self.end and start - self.end[-1] > (end - start) // 2:
            self.gaps_ns += start - self.end[-1]
        if self.count and self.count[-1] < self.samples_a_point:
            self._append(start, end, 1, values, values, values)
            self._join(len(self.count) - 2)
            return
        if len(self.count) >= self.most:
            self._halve()
        self._append(start, end, 1, values, values, values)

    def _append(
        self,
        start: int,
        end: int,
        count: int,
        mean: Sequence[float],
        low: Sequence[float],
        high: Sequence[float],
    ) -> None:
        self.start.append(start)
        self.end.append(end)
        self.count.append(count)
        for columns, numbers in ((self.mean, mean), (self.low, low), (self.high, high)):
            for column, value in zip(columns, numbers, strict=True):
                column.append(value)

    def _join(self, at: int) -> None:
        """Merge the last point into the preceding one, at `at`."""
        for channel in range(self.channels):
            two = [self.mean[channel].pop(), self.mean[channel][at]]
            lengths = [self.end[-1] - self.start[-1], self.end[at] - self.start[at]]
            self.mean[channel][at] = _mean(two, lengths)
            for columns, chosen in ((self.low, min), (self.high, max)):
                value = columns[channel].pop()
                columns[channel][at] = _either(chosen, value, columns[channel][at])
        self.start.pop()
        self.end[at] = self.end.pop()
        self.count[at] += self.count.pop()

    def _halve(self) -> None:
        self.samples_a_point *= 2
        old = Points(self.channels, self.most, self.start, self.end, self.count)
        old.mean, old.low, old.high = self.mean, self.low, self.high
        self.start, self.end, self.count = array("q"), array("q"), array("q")
        self.mean, self.low, self.high = (
            [array("d") for _ in range(self.channels)] for _ in range(3)
        )
        for at in range(len(old.count)):
            mean, low, high = (
                [column[at] for column in columns] for columns in (old.mean, old.low, old.high)
            )
            self._append(old.start[at], old.end[at], old.count[at], mean, low, high)
            if at % 2:
                self._join(len(self.count) - 2)


def _mean(values: list[float], lengths: list[int]) -> float:
    """The mean weighted by time, over the values that are numbers."""
    weighted = [(value, length) for value, length in zip(values, lengths, strict=True)
             if value == value]  # fmt: skip
    total = sum(length for _, length in weighted)
    if not total:
        return weighted[0][0] if weighted else float("nan")
    return sum(value * length for value, length in weighted) / total


def _either(chosen: Callable[..., float], first: float, other: float) -> float:
    return (
        chosen(first, other)
        if first == first and other == other
        else (first if first == first else other)
    )
