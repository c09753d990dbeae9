"""A profile as read from the database: the rows that queries return.

`profiledb.query` creates them, `pprof` shows them, `analysis` turns them into
frames. Values are in the metric's own unit (`time`: integer nanoseconds).
"""

from __future__ import annotations

from taupy.dataclass import NamedTuple


class TrialRow(NamedTuple):
    """One trial, with its application and experiment. `started_at` is ISO 8601, UTC."""

    id: int
    uuid: str
    application: str
    experiment: str
    name: str
    started_at: str
    duration_ns: int
    exit_code: int | None
    state: str
    source: str
    tags: tuple[str, ...]

    @property
    def is_capture(self) -> bool:
        """Whether it is no exact run of taupy's: another tool recorded it, or it is sampled."""
        return self.is_sampled or self.source.startswith("import ")

    @property
    def is_sampled(self) -> bool:
        """Whether a program that ran already was looked at, by `taupy attach`."""
        return self.source.startswith("attach ")

    @property
    def ending(self) -> str:
        """The exit code, or what else is known about the end; "" if nothing is."""
        if self.exit_code is not None:
            return signal_name(-self.exit_code) if self.exit_code < 0 else str(self.exit_code)
        if self.source != "taupy run":
            return ""
        return "killed" if self.state == "incomplete" else "unknown"


def signal_name(number: int) -> str:
    """SIGTERM for 15; the number itself if this system has no such signal."""
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


class ThreadRow(NamedTuple):
    """One thread of a trial, or several that were added up, with the shortest and the longest time
    of one."""

    node: int
    context: int
    thread: int
    kind: str
    name: str
    threads: int = 1
    least_ns: int = 0
    most_ns: int = 0


class TimerRow(NamedTuple):
    """One timer. `groups` is sorted and joined with "|"; `timer` is the full name."""

    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str


class FlatRow(NamedTuple):
    """One timer on one thread, all its call paths summed.

    `inclusive` counts a recursive routine's outermost activations only.
    `groups` is sorted and joined with "|"; `timer` is the full name.
    """

    node: int
    context: int
    thread: int
    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str
    calls: int
    subroutines: int
    inclusive: float
    exclusive: float


class TreeRow(NamedTuple):
    """One call path on one thread; a parent precedes its children."""

    node: int
    context: int
    thread: int
    callpath_id: int
    parent_id: int | None
    depth: int
    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str
    calls: int
    subroutines: int
    inclusive: float
    exclusive: float


class Event(NamedTuple):
    """A user event's name and unit."""

    name: str
    unit: str


class TimelineRow(NamedTuple):
    """One point of a user event's timeline; times in seconds since the trial's start."""

    node: int
    context: int
    thread: int
    event: str
    unit: str
    start_s: float
    end_s: float
    mean: float | None
    minimum: float | None
    maximum: float | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used


class EventRow(NamedTuple):
    """One user event on one thread; `callpath` is its full path or None."""

    node: int
    context: int
    thread: int
    event: str
    unit: str
    callpath: str | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    minimum: float
    maximum: float
    mean: float
    stddev: float
