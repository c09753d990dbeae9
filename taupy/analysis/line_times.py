"""Sums of the times of lines, with their standard errors.

A look at a thread counts for the time w since the previous one. A line has the share p of the time
that its routine's looks stand for, with the variance of a ratio of sums: (sum over its looks of
(1-p)^2 w^2 + sum over the routine's others of p^2 w^2) / (sum of all w)^2. One look of mean weight
is added on each side, or a line that has all looks would have no error (Agresti and Coull, The
American Statistician 52(2), 1998). What a thread did before the first look counts as one look more.
The routine's own time is exact. In a trial that was only looked
at (`taupy attach`) it is not: a line is a share of its thread's time there.

Where a line's time is exact, it takes the routine's place: it has no error, and its expressions and
states have that of their share of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from taupy.dataclass import NamedTuple, dataclass, field
from taupy.model.profile import LEAST_LOOKS, LineTime
from taupy.model.rows import ThreadRow, TimerRow

Key = TypeVar("Key", bound=Hashable)


_Exact: TypeAlias = tuple[ThreadRow, TimerRow | None, int | None]
"""What has an exact time: a thread, a routine on it, or one of the routine's lines."""


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
    """An estimated time, or an exact one.

    Attributes:
        error_ns: its standard error; 0 if it is exact.
        count: how often the lines that it consists of have begun; None: it is an estimate.
        inclusive_ns: likewise, their time with all that they call.
        rows: what it is the sum of, the longest first.
    """

    time_ns: int = 0
    error_ns: float = 0.0
    looks: int = 0
    count: int | None = None
    inclusive_ns: int | None = None
    rows: list[LineRow] = field(default_factory=list)

    @property
    def is_shown(self) -> bool:
        return self.count is not None or self.looks >= LEAST_LOOKS

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
        error_ns: 0 if the time is exact.
        text: its source; None: there is none.
        calls: what it mostly called or did, in few words; None: nothing in particular.
        times: how often it has begun; None: that is not known.
        below: its time in the libraries' routines in which it was seen [ns]; None: there were no
            looks.
    """

    file: str | None
    line: int
    time_ns: int
    error_ns: float
    text: str | None
    calls: str | None
    is_exact: bool = False
    times: int | None = None
    below: Mapping[TimerRow, int] | None = None


class _Sums:
    """Of looks."""

    __slots__ = ("looks", "rows", "seen_ns", "squares", "time_ns")

    def __init__(self) -> None:
        self.looks = self.time_ns = self.seen_ns = self.rows = 0
        self.squares = 0.0

    def add(self, line: LineTime) -> None:
        self.rows += 1
        self.looks += line.looks
        self.time_ns += line.time_ns
        self.seen_ns += line.seen_ns
        self.squares += line.squares

    def variance_in(self, whole: _Sums, threads: int) -> float:
        """Of its part of the whole's time on so many threads [ns2]."""
        if not whole.looks or not whole.seen_ns:
            return 0.0
        weight = whole.seen_ns / whole.looks
        seen = whole.seen_ns + 2 * weight
        part = (self.seen_ns + weight) / seen
        squares, others = self.squares + weight**2, whole.squares - self.squares + weight**2
        variance = ((1 - part) ** 2 * squares + part**2 * max(others, 0.0)) / seen**2
        unseen_ns = max(whole.time_ns - whole.seen_ns, 0)
        return whole.time_ns**2 * variance + part * (1 - part) * unseen_ns**2 / threads


def estimates(
    rows: Iterable[LineRow], key: Callable[[LineRow], Key], *, sampled: bool = False
) -> dict[Key, Estimate]:
    """The times by something, such as the line; the longest first.

    Args:
        sampled: the times of routines are no more exact than those of lines.
    """
    exactly: dict[_Exact, _Sums] = defaultdict(_Sums)
    of_key: dict[Key, dict[_Exact, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    estimated: dict[Key, Estimate] = defaultdict(Estimate)
    for row in rows:
        line, name = row.line, key(row)
        exact: _Exact = row.thread, row.timer, None if line.count is None else line.line
        if sampled:
            exact = row.thread, None, None
        exactly[exact].add(line)
        of_key[name][exact].add(line)
        estimated[name].rows.append(row)
    for name, estimate in estimated.items():
        estimate.rows.sort(key=lambda row: -row.line.time_ns)
        parts = of_key[name]
        estimate.time_ns = sum(sums.time_ns for sums in parts.values())
        estimate.looks = sum(sums.looks for sums in parts.values())
        divided = {
            exact: sums
            for exact, sums in parts.items()
            if exact[2] is None or sums.rows < exactly[exact].rows
        }
        variance = sum(
            sums.variance_in(exactly[exact], exact[0].threads) for exact, sums in divided.items()
        )
        estimate.error_ns = math.sqrt(variance)
        if not divided:
            estimate.inclusive_ns, estimate.count = _outermost(estimate.rows)
    return dict(sorted(estimated.items(), key=lambda item: -item[1].time_ns))


def _outermost(rows: Iterable[LineRow]) -> tuple[int, int]:
    """Inclusive time and count of exact lines; of routines that share a line, as a lambda does with
    the one that it is written in, of that with the most time."""
    of_routine: dict[TimerRow, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        inclusive_ns, count = of_routine[row.timer]
        inclusive_ns += row.line.inclusive_ns or 0
        of_routine[row.timer] = inclusive_ns, count + (row.line.count or 0)
    return max(of_routine.values())


def place_of(row: LineRow) -> tuple[str | None, int]:
    """The file and line of a row."""
    return row.timer.file, row.line.line
