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

from taupy.model.gpu import UNCONFIGURED, Activity, ActivityKind, Configuration, Launch
from taupy.model.profile import ROOT_TIMER, Thread, ThreadProfile, Timer, UserEvent
from taupy.model.streams import Owner, StreamBuilder

NOWHERE: Final = -1
"""The code of an unknown launch."""

_NOT_KNOWN: Final = -1

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

    __slots__ = (
        "bytes",
        "bytes_largest",
        "bytes_smallest",
        "bytes_squares",
        "count",
        "largest",
        "smallest",
        "squares",
        "time",
        "untimed",
        "with_bytes",
    )

    def __init__(self) -> None:
        self.count = self.untimed = self.time = self.largest = 0
        self.smallest = 1 << 62
        self.squares = self.bytes_squares = 0.0
        self.with_bytes = self.bytes = self.bytes_largest = 0
        self.bytes_smallest = 1 << 62


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
                None if correlation == _NOT_KNOWN else correlation,
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
        summed.count += 1
        took = end - start
        if took < 0 or (start == 0 and end == 0):
            summed.untimed += 1
        else:
            summed.time += took
            summed.squares += took * took
            if took < summed.smallest:
                summed.smallest = took
            if took > summed.largest:
                summed.largest = took
            stamps = self.stamps
            stamps.sum.append(place)
            stamps.start.append(start)
            stamps.end.append(end)
            stamps.correlation.append(correlation)
            stamps.bytes.append(moved)
        if moved >= 0:
            summed.with_bytes += 1
            summed.bytes += moved
            summed.bytes_squares += float(moved) * moved
            summed.bytes_smallest = min(summed.bytes_smallest, moved)
            summed.bytes_largest = max(summed.bytes_largest, moved)

    def deliver(self, builder: StreamBuilder, owner: Callable[[int], Owner]) -> None:
        """Add everything to the builder, under the call paths that `owner` returns for codes."""
        self.stamps.rows = [(0, "kernel")] * len(self._sums)
        for (code, work), place in self._places.items():
            summed = self._sums[place]
            launch = Launch(
                count=summed.count,
                time_ns=summed.time,
                minimum_ns=summed.smallest if summed.count > summed.untimed else 0,
                maximum_ns=summed.largest,
                sum_squares_ns2=summed.squares,
                untimed=summed.untimed,
                configuration=work.configuration,
                bytes=summed.bytes if summed.with_bytes else None,
            )
            at = None if code == NOWHERE else owner(code)
            row = builder.add(self.thread, at, work.timer, launch)
            self.stamps.rows[place] = (row, work.kind)
            if work.moves and summed.with_bytes:
                event = UserEvent(
                    name=work.moves,
                    unit="bytes",
                    count=summed.with_bytes,
                    minimum=summed.bytes_smallest,
                    maximum=summed.bytes_largest,
                    mean=summed.bytes / summed.with_bytes,
                    sum_squares=summed.bytes_squares,
                    row=row,
                )
                builder.add_user_events(self.thread, [event])


class Waits:
    """How long calls waited for the GPU according to the GPU's records: user events of these calls.

    Such a record is not GPU work; its time is part of the waiting call's.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str], _Sum] = {}
        self.lost = 0

    def add(self, code: int, name: str, took: int) -> None:
        """Count one wait of the call at `code`."""
        if code == NOWHERE or took < 0:
            self.lost += 1
            return
        summed = self._sums.get((code, name))
        if summed is None:
            summed = self._sums[code, name] = _Sum()
        summed.count += 1
        summed.time += took
        summed.squares += float(took) * took
        summed.smallest = min(summed.smallest, took)
        summed.largest = max(summed.largest, took)

    def events(self) -> Iterator[tuple[int, UserEvent]]:
        """Each call's code with its user event, whose row is not set."""
        for (code, name), summed in self._sums.items():
            mean = summed.time / summed.count
            yield (
                code,
                UserEvent(
                    name=f"Wait: {name}",
                    unit="ns",
                    count=summed.count,
                    minimum=summed.smallest,
                    maximum=summed.largest,
                    mean=mean,
                    sum_squares=summed.squares,
                ),
            )

    def notes(self) -> list[str]:
        return [f"omitted: {self.lost} waits without a known call"] if self.lost else []


def api_timer(name: str) -> Timer:
    """A call of the CUDA API."""
    groups = ("CUDA_API", "GPU_SYNC") if "Synchronize" in name else ("CUDA_API",)
    return Timer(name, groups=groups)


def stream_threads(
    timers: list[Timer], streams: list[StreamRecords], owner: Callable[[int], Owner]
) -> list[ThreadProfile]:
    """The threads of streams, with all of their records."""
    builder = StreamBuilder(timers)
    stamps = {}
    for stream in streams:
        stream.deliver(builder, owner)
        stamps[stream.thread] = stream.stamps
    threads = builder.threads()
    for thread in threads:
        thread.activities = stamps[thread.thread]
    return threads


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
