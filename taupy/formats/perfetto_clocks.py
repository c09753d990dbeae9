"""The clocks of a Perfetto trace, and the time of the trace that their stamps stand for.

A packet names the clock of its time stamp. Clocks 64 to 127 belong to one sequence of packets; they
may count in units of their own, and from one packet to the next. A clock snapshot holds the values
of several clocks at one moment, and so relates them (clock_snapshot.proto).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from taupy.formats import limits

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Moments = NDArray[numpy.int64]

UNSTATED: Final = 0
"""The clock of a packet that names none: that of the trace."""

MONOTONIC: Final = 3
_BOOTTIME: Final = 6
_OF_SEQUENCES: Final = range(64, 128)
_NAMES: Final = {1: "REALTIME", 3: "MONOTONIC", 5: "MONOTONIC_RAW", 6: "BOOTTIME"}


class ClockError(ValueError):
    """A time stamp that cannot be understood; the message names its clock."""


@dataclass(slots=True)
class Clock:
    """One clock.

    Attributes:
        at: its position among all clocks of the trace.
        sequence: the sequence of packets that it belongs to; 0 for a clock of the whole trace.
        unit_ns: what its stamps count.
        since: the last stamp in ns, if stamps count from one packet to the next; else None.
    """

    at: int
    number: int
    sequence: int
    unit_ns: int = 1
    since: int | None = None

    def moment(self, stamp: int) -> int:
        """The time of a packet's stamp, in ns of this clock.

        Raises:
            ClockError: no clock has that time.
        """
        moment = stamp * self.unit_ns
        if self.since is not None:
            moment += self.since
            self.since = moment
        if not 0 <= moment <= limits.SUM:
            raise ClockError(f"a time stamp of {moment} ns")
        return moment

    def __str__(self) -> str:
        if self.number == UNSTATED:
            return "the trace's own clock"
        name = _NAMES.get(self.number)
        text = f"clock {self.number}" + (f" ({name})" if name else "")
        return f"{text} of sequence {self.sequence}" if self.sequence else text


class Clocks:
    """All clocks of a trace, and what its snapshots say of them."""

    def __init__(self) -> None:
        self._clocks: dict[tuple[int, int], Clock] = {}
        self._of_trace: Clock | None = None
        self._related: dict[int, dict[int, list[tuple[int, int]]]] = {}

    def clock(self, number: int, sequence: int) -> Clock:
        """The clock of that number, as the packets of a sequence name it."""
        key = (number, sequence if number in _OF_SEQUENCES else 0)
        clock = self._clocks.get(key)
        if clock is None:
            clock = self._clocks[key] = Clock(len(self._clocks), *key)
        return clock

    def snapshot(
        self, readings: list[tuple[Clock, int, int, bool]], of_trace: Clock | None
    ) -> None:
        """Take over a snapshot.

        Args:
            readings: for each clock its stamp, its unit in ns (0: not stated), and whether its
                packets' stamps count from one to the next.
            of_trace: the clock that the snapshot names as the trace's.
        """
        moments = []
        for clock, stamp, unit_ns, counts_on in readings:
            clock.unit_ns = unit_ns or 1
            clock.since = None
            moment = clock.moment(stamp)
            clock.since = moment if counts_on else None
            moments.append((clock, moment))
            if of_trace is None and self._of_trace is None and clock.number == _BOOTTIME:
                self._of_trace = clock
        if of_trace is not None:
            self._of_trace = of_trace
        for source, moment in moments:
            for target, same_moment in moments:
                if source is not target:
                    pairs = self._related.setdefault(source.at, {}).setdefault(target.at, [])
                    pairs.append((moment, same_moment))

    def conversions(self, used: set[int]) -> dict[int, Conversion]:
        """How moments of these clocks (by position) become moments of the trace.

        Raises:
            ClockError: no snapshot relates one of them to the others.
        """
        clocks = list(self._clocks.values())
        target = self._of_trace
        conversions = {}
        for at in sorted(used):
            clock = clocks[at]
            target = target or clock
            stated = clock.number != UNSTATED or self._of_trace is None
            hops = self._hops(at, target.at) if stated else []
            if hops is None and len(used) > 1:
                raise self._unrelated(clock, target)
            conversions[at] = Conversion(hops or [])
        return conversions

    @staticmethod
    def _unrelated(clock: Clock, target: Clock) -> ClockError:
        return ClockError(f"time stamps of {clock}, which no clock snapshot relates to {target}")

    def _hops(self, start: int, end: int) -> list[list[tuple[int, int]]] | None:
        """The pairs of moments that lead from clock to clock; None if there is no way."""
        before: dict[int, int] = {start: start}
        to_do = deque([start])
        while to_do and end not in before:
            clock = to_do.popleft()
            for related in self._related.get(clock, ()):
                if related not in before:
                    before[related] = clock
                    to_do.append(related)
        if end not in before:
            return None
        return list(self._back(before, end))[::-1]

    def _back(self, before: dict[int, int], at: int) -> Iterator[list[tuple[int, int]]]:
        while before[at] != at:
            yield self._related[before[at]][at]
            at = before[at]


class Conversion:
    """Moments of one clock as moments of the trace, by the last snapshot before them, or else the
    first one."""

    def __init__(self, hops: list[list[tuple[int, int]]]) -> None:
        self._hops = [sorted(pairs, key=lambda pair: pair[0]) for pairs in hops]

    def __call__(self, moments: Moments) -> Moments:
        import numpy

        for pairs in self._hops:
            own, other = numpy.array(pairs, dtype=numpy.int64).T
            at = numpy.searchsorted(own, moments, side="right") - 1
            moments = moments + (other - own)[numpy.maximum(at, 0)]
            if int(numpy.abs(moments).max()) > limits.SUM:
                raise ClockError("clock snapshots that are more than 146 years apart")
        return moments
