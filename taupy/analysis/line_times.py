"""Sums of the times of lines, with their standard errors.

A look at a thread counts for the time w since the previous one. A line has the share p of the time
that its routine's looks stand for, with the variance of a ratio of sums: (sum over its looks of
(1-p)^2 w^2 + sum over the routine's others of p^2 w^2) / (sum of all w)^2. One look of mean weight
is added on each side, or a line that has all looks would have no error (Agresti and Coull, The
American Statistician 52(2), 1998). The routine's own time is exact.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from taupy.model.profile import LEAST_LOOKS, LineTime
from taupy.model.rows import ThreadRow, TimerRow

Key = TypeVar("Key", bound=Hashable)


class LineRow(NamedTuple):
    """The time of a line on one thread.

    Attributes:
        timer: the routine that it is a line of.
        callee: the library's routine that it has called, if one ran.
    """

    thread: ThreadRow
    timer: TimerRow
    callee: TimerRow | None
    line: LineTime


@dataclass(slots=True)
class Estimate:
    """An estimated time.

    Attributes:
        error_ns: its standard error.
        rows: what it is the sum of, the longest first.
    """

    time_ns: int = 0
    error_ns: float = 0.0
    looks: int = 0
    rows: list[LineRow] = field(default_factory=list)

    @property
    def is_shown(self) -> bool:
        return self.looks >= LEAST_LOOKS

    def parts(self, part: Callable[[LineRow], Key]) -> list[tuple[Key, int, int]]:
        """Its time and looks by something, the longest first."""
        sums: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
        for row in self.rows:
            of_part = sums[part(row)]
            of_part[0] += row.line.time_ns
            of_part[1] += row.line.looks
        ordered = sorted(sums.items(), key=lambda item: -item[1][0])
        return [(key, time_ns, looks) for key, (time_ns, looks) in ordered]


class HotLine(NamedTuple):
    """The line of a routine with the most time.

    Attributes:
        text: its source; None: there is none.
        calls: what it mostly called or did, in few words; None: nothing in particular.
    """

    file: str | None
    line: int
    time_ns: int
    error_ns: float
    text: str | None
    calls: str | None


class _Sums:
    """Of looks."""

    __slots__ = ("looks", "seen_ns", "squares", "time_ns")

    def __init__(self) -> None:
        self.looks = self.time_ns = self.seen_ns = 0
        self.squares = 0.0

    def add(self, line: LineTime) -> None:
        self.looks += line.looks
        self.time_ns += line.time_ns
        self.seen_ns += line.seen_ns
        self.squares += line.squares

    def variance_in(self, whole: _Sums) -> float:
        """Of its part of the whole's time [ns2]."""
        if not whole.looks or not whole.seen_ns:
            return 0.0
        weight = whole.seen_ns / whole.looks
        seen = whole.seen_ns + 2 * weight
        part = (self.seen_ns + weight) / seen
        squares, others = self.squares + weight**2, whole.squares - self.squares + weight**2
        variance = ((1 - part) ** 2 * squares + part**2 * max(others, 0.0)) / seen**2
        return whole.time_ns**2 * variance


def estimates(rows: Iterable[LineRow], key: Callable[[LineRow], Key]) -> dict[Key, Estimate]:
    """The times by something, such as the line; the longest first."""
    of_routine: dict[tuple[ThreadRow, TimerRow], _Sums] = defaultdict(_Sums)
    of_key: dict[Key, dict[tuple[ThreadRow, TimerRow], _Sums]] = defaultdict(
        lambda: defaultdict(_Sums)
    )
    estimated: dict[Key, Estimate] = defaultdict(Estimate)
    for row in rows:
        routine, name = (row.thread, row.timer), key(row)
        of_routine[routine].add(row.line)
        of_key[name][routine].add(row.line)
        estimated[name].rows.append(row)
    for name, estimate in estimated.items():
        estimate.rows.sort(key=lambda row: -row.line.time_ns)
        parts = of_key[name]
        estimate.time_ns = sum(sums.time_ns for sums in parts.values())
        estimate.looks = sum(sums.looks for sums in parts.values())
        variance = sum(sums.variance_in(of_routine[routine]) for routine, sums in parts.items())
        estimate.error_ns = math.sqrt(variance)
    return dict(sorted(estimated.items(), key=lambda item: -item[1].time_ns))


def place_of(row: LineRow) -> tuple[str | None, int]:
    """The file and line of a row."""
    return row.timer.file, row.line.line
