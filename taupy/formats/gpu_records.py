"""Sum individual records of GPU work, as found in traces, for `StreamBuilder`.

A record is one kernel, copy, memset or wait on one stream, with start and end times. Records with
the same configuration and host call path become one launch with a count. Their individual times are
kept in columns, so that a million records stay small. The reader determines where work was
launched.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from taupy import units
from taupy.catalog import gpu_calls
from taupy.model.gpu import UNCONFIGURED, Activity, Configuration, Launch
from taupy.model.kinds import ActivityKind
from taupy.model.profile import ROOT_TIMER, Statistics, Thread, ThreadProfile, Timer, UserEvent
from taupy.model.streams import Owner, StreamBuilder
from taupy.units import several

NOWHERE: Final = -1
"""The code of an unknown launch."""

_NOT_KNOWN: Final = -1
ALL_STREAMS: Final = "all streams"
"""The name of a thread for work whose stream is not known."""
_SHOWN_OVERLAP: Final = 0.01  # of a stream's busy time

DIRECTIONS: Final = {
    "HtoD": "Host to Device",
    "DtoH": "Device to Host",
    "DtoD": "Device to Device",
    "HtoH": "Host to Host",
    "PtoP": "Device to another Device",
}
"""TAU's user-event names for the directions of a copy."""


class Work(NamedTuple):
    """Work that was launched, with its configuration."""

    timer: Timer
    kind: ActivityKind
    configuration: Configuration = UNCONFIGURED
    moves: str | None = None  # the user event that gets the bytes of each record


class _Sum:
    """Launches of the same work from the same place."""

    __slots__ = ("moved", "timed", "untimed")

    def __init__(self) -> None:
        self.timed, self.moved, self.untimed = Statistics(), Statistics(), 0


class Stamps:
    """The activities of a thread, created from columns on demand."""

    def __init__(self, base_ns: int) -> None:
        self._base_ns = base_ns
        self.sum = array("i")
        self.start = array("q")
        self.end = array("q")
        self.correlation = array("q")
        self.bytes = array("q")
        self.rows: list[tuple[int, ActivityKind]] = []

    def __len__(self) -> int:
        return len(self.sum)

    def __iter__(self) -> Iterator[Activity]:
        base = self._base_ns
        columns = zip(self.sum, self.start, self.end, self.correlation, self.bytes, strict=True)
        for which, start, end, correlation, moved in columns:
            row, kind = self.rows[which]
            yield Activity(
                row,
                kind,
                base + start,
                base + end,
                None if correlation < 0 else correlation,
                None if moved == _NOT_KNOWN else moved,
            )


class StreamRecords:
    """The records of one stream.

    Args:
        thread: the stream.
        base_ns: time 0 of the records' timestamps, in nanoseconds since the epoch.
    """

    def __init__(self, thread: Thread, base_ns: int = 0) -> None:
        self.thread = thread
        self.stamps = Stamps(base_ns)
        self._sums: list[_Sum] = []
        self._places: dict[tuple[int, Work], int] = {}

    def place(self, code: int, work: Work) -> int:
        """The number with which to add records of this work from this place."""
        key = (code, work)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._sums)
            self._sums.append(_Sum())
        return place

    def add(
        self,
        place: int,
        start: int,
        end: int,
        correlation: int = _NOT_KNOWN,
        moved: int = _NOT_KNOWN,
    ) -> None:
        """Add one record; if it ends before its start, or both are 0, it was not timed."""
        summed = self._sums[place]
        took = end - start
        if took < 0 or (start == 0 and end == 0):
            summed.untimed += 1
        else:
            # Not Statistics.add(): a call for each record of a long trace takes twice as long.
            timed = summed.timed
            timed.count += 1
            timed.total += took
            timed.squares += took * took
            if took < timed.minimum:
                timed.minimum = took
            if took > timed.maximum:
                timed.maximum = took
            stamps = self.stamps
            stamps.sum.append(place)
            stamps.start.append(start)
            stamps.end.append(end)
            stamps.correlation.append(correlation)
            stamps.bytes.append(moved)
        if moved >= 0:
            sizes = summed.moved
            sizes.count += 1
            sizes.total += moved
            sizes.squares += float(moved) * moved
            if moved < sizes.minimum:
                sizes.minimum = moved
            if moved > sizes.maximum:
                sizes.maximum = moved

    def deliver(self, builder: StreamBuilder, owner: Callable[[int], Owner]) -> None:
        """Add everything to the builder, under the call paths that `owner` returns for codes."""
        self.stamps.rows = [(0, "kernel")] * len(self._sums)
        for (code, work), place in self._places.items():
            summed = self._sums[place]
            timed = summed.timed
            launch = Launch(
                count=timed.count + summed.untimed,
                time_ns=int(timed.total),
                minimum_ns=int(timed.minimum) if timed.count else 0,
                maximum_ns=int(timed.maximum) if timed.count else 0,
                sum_squares_ns2=timed.squares,
                untimed=summed.untimed,
                configuration=work.configuration,
                bytes=int(summed.moved.total) if summed.moved.count else None,
            )
            at = None if code == NOWHERE else owner(code)
            row = builder.add(self.thread, at, work.timer, launch)
            self.stamps.rows[place] = (row, work.kind)
            if work.moves and summed.moved.count:
                event = summed.moved.event(work.moves, "bytes", row)
                builder.add_user_events(self.thread, [event])


class Waits:
    """How long calls waited for the GPU according to the GPU's records: user events of these calls.

    Such a record is not GPU work; its time is part of the waiting call's.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str], Statistics] = {}
        self.lost = 0

    def add(self, code: int, name: str, took: int) -> None:
        """Count one wait of the call at `code`."""
        if code == NOWHERE or took < 0:
            self.lost += 1
            return
        self._sums.setdefault((code, name), Statistics()).add(took)

    def events(self) -> Iterator[tuple[int, UserEvent]]:
        """Each call's code with its user event, whose row is not set."""
        for (code, name), summed in self._sums.items():
            yield code, summed.event(f"Wait: {name}", "ns")

    def notes(self) -> list[str]:
        return [f"omitted: {several(self.lost, 'wait')} without a known call"] if self.lost else []


def api_timer(name: str) -> Timer:
    """A call of the CUDA API."""
    groups = ("CUDA_API", "GPU_SYNC") if gpu_calls.waits(name) else ("CUDA_API",)
    return Timer(name, groups=groups)


def stream_threads(
    timers: list[Timer],
    streams: list[StreamRecords],
    owner: Callable[[int], Owner],
    notes: list[str],
) -> list[ThreadProfile]:
    """The threads of streams, with all of their records; notes streams whose work overlaps."""
    builder = StreamBuilder(timers)
    stamps = {}
    for stream in streams:
        stream.deliver(builder, owner)
        notes += _overlaps(stream)
        stamps[stream.thread] = stream.stamps
    threads = builder.threads()
    for thread in threads:
        thread.activities = stamps[thread.thread]
    return threads


def _overlaps(stream: StreamRecords) -> Iterator[str]:
    """A note if the records of a stream, which works on one thing at a time, overlap."""
    import numpy

    if not len(stream.stamps) or stream.thread.name == ALL_STREAMS:
        return
    begin, end = (
        numpy.frombuffer(column, dtype=numpy.int64)
        for column in (stream.stamps.start, stream.stamps.end)
    )
    order = numpy.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    until = numpy.maximum.accumulate(end)
    since = numpy.maximum(begin[1:], until[:-1])
    busy = int(end[0] - begin[0]) + int(numpy.maximum(end[1:] - since, 0).sum())
    whole = int((end - begin).sum())
    if whole - busy > _SHOWN_OVERLAP * busy:
        at = stream.thread
        yield (
            f"{at.name or f'stream {at.native_id}'} of GPU {at.context - 1}: its work overlaps by "
            f"{units.duration(whole - busy)} and kept it busy for {units.duration(busy)} of "
            f"{units.duration(whole)}; durations are not all work (completion recorded late, or "
            "branches of a graph)"
        )


def copy_work(way: str) -> Work:
    """A copy in this direction, such as `HtoD`; unknown directions are kept as given."""
    long = DIRECTIONS.get(way)
    event = f"Bytes copied from {long}" if long else f"Bytes copied, {way}"
    return Work(Timer(f"Memcpy {way}", groups=("GPU_COPY",)), "copy", moves=event)


def memset_work() -> Work:
    return Work(Timer("Memset", groups=("GPU_COPY",)), "memset", moves="Bytes set")


def root_timer() -> Timer:
    """The top of every thread."""
    return Timer(ROOT_TIMER, groups=("TAUPY",))
