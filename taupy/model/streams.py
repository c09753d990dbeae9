"""Threads of GPU streams: GPU work placed under the host call paths that launched it.

The collector or an importer says which host call path launched each kernel or copy; the
result is threads whose trees satisfy `invariants.py` (`gpu.py` describes such trees).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping

from taupy.dataclass import NamedTuple, dataclass, field, replace
from taupy.model.forest import inclusive, subroutines
from taupy.model.profile import (
    ABSENT,
    ROOT_TIMER,
    CallTree,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.model.timers import Timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.model.gpu import Configuration, Launch


class Owner(NamedTuple):
    """A host call path: a row of a host thread's tree."""

    tree: CallTree
    row: int


class HostPath(NamedTuple):
    """A call path of a host thread, as a row of its tree."""

    measured: ThreadProfile
    row: int

    @property
    def owner(self) -> Owner:
        return Owner(self.measured.tree, self.row)


FindPath = Callable[[int], HostPath | None]
"""Finds a call path by its address in the measured process; None if there is none."""


@dataclass(slots=True)
class _Stream:
    """One stream under construction; lists are indexed by row."""

    thread: Thread
    timer: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    children: dict[tuple[int, int], int] = field(default_factory=dict)
    owners: dict[tuple[int, int], int] = field(default_factory=dict)
    launches: dict[tuple[int, Configuration, bool], Launch] = field(default_factory=dict)
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    user_events: list[UserEvent] = field(default_factory=list)

    def child(self, parent: int, timer: int) -> int:
        """The row of a timer under a row, created if necessary."""
        row = self.children.get((parent, timer))
        if row is None:
            row = self.children[parent, timer] = len(self.timer)
            self.timer.append(timer)
            self.parent.append(parent)
            self.calls.append(0)
            self.time_ns.append(0)
        return row


class StreamBuilder:
    """Collects what ran on the streams of a profile.

    Args:
        timers: the profile's timers; new ones are appended to it.
    """

    def __init__(self, timers: list[Timer]) -> None:
        self._timers = Timers(timers)
        self._streams: dict[tuple[int, int, int], _Stream] = {}

    def add(self, thread: Thread, owner: Owner | None, timer: Timer, launch: Launch) -> int:
        """Count launches of one kernel or copy.

        Args:
            thread: the stream; threads with equal places are one.
            owner: where it was launched; None if that was not seen.
            timer: the kernel or copy.
            launch: the launches to add; its `row` is ignored. Launches of one
                configuration under one call path are merged.

        Returns:
            The row of the kernel, for `add_values`, activities and user events.
        """
        stream = self._stream(thread)
        row = stream.child(self._row_of(stream, owner), self._timers.place(timer))
        stream.calls[row] += launch.count
        stream.time_ns[row] += launch.time_ns
        key = (row, launch.configuration, launch.bytes is None)
        earlier = stream.launches.get(key)
        stream.launches[key] = (
            replace(launch, row=row) if earlier is None else summed(earlier, launch)
        )
        return row

    def add_values(self, thread: Thread, row: int, values: Mapping[str, float]) -> None:
        """Add metric values to a row; rows that get none stay without a value."""
        stream = self._stream(thread)
        for metric, value in values.items():
            column = stream.values.setdefault(metric, {})
            column[row] = column.get(row, 0) + value

    def add_user_events(self, thread: Thread, events: Iterable[UserEvent]) -> None:
        """Add user events of a stream; their rows must come from `add`."""
        self._stream(thread).user_events += events

    def threads(self) -> list[ThreadProfile]:
        """The streams' threads, by place."""
        return [_thread(stream) for _, stream in sorted(self._streams.items())]

    def _stream(self, thread: Thread) -> _Stream:
        stream = self._streams.get(thread.place)
        if stream is None:
            stream = self._streams[thread.place] = _Stream(thread)
        return stream

    def _root(self, owner: Owner | None) -> int:
        """The root's timer: the launching host thread's, so that all threads have the same root."""
        if owner is not None and self._timers.timers[owner.tree.timer[0]].name == ROOT_TIMER:
            return owner.tree.timer[0]
        return self._timers.place(Timer(ROOT_TIMER, groups=("TAUPY",)))

    def _row_of(self, stream: _Stream, owner: Owner | None) -> int:
        root = stream.child(-1, self._root(owner))
        if owner is None:
            from taupy.model.gpu import NO_OWNER

            return stream.child(root, self._timers.place(Timer(NO_OWNER, groups=("GPU_NO_OWNER",))))
        key = (id(owner.tree), owner.row)
        row = stream.owners.get(key)
        if row is None:
            path = []
            at = owner.row
            while at >= 0:
                path.append(owner.tree.timer[at])
                at = owner.tree.parent[at]
            row = root
            if path[-1] == stream.timer[root]:
                path.pop()
            for timer in reversed(path):
                row = stream.child(row, timer)
            stream.owners[key] = row
        return row


def summed(launch: Launch, other: Launch) -> Launch:
    """The sum of two launches of one configuration and call path."""
    timed = [part for part in (launch, other) if part.count > part.untimed]
    return replace(
        launch,
        count=launch.count + other.count,
        time_ns=launch.time_ns + other.time_ns,
        minimum_ns=min((part.minimum_ns for part in timed), default=0),
        maximum_ns=max((part.maximum_ns for part in timed), default=0),
        sum_squares_ns2=launch.sum_squares_ns2 + other.sum_squares_ns2,
        untimed=launch.untimed + other.untimed,
        bytes=None if launch.bytes is None else launch.bytes + (other.bytes or 0),
    )


def _thread(stream: _Stream) -> ThreadProfile:
    rows = len(stream.timer)
    parent = array("q", stream.parent)
    calls = array("q", stream.calls)
    time = array("q", stream.time_ns)
    tree = CallTree(
        timer=array("q", stream.timer),
        parent=parent,
        calls=calls,
        subroutines=subroutines(parent, calls),
        inclusive={"time": inclusive(parent, time)},
        exclusive={"time": time},
    )
    for metric, counted in stream.values.items():
        exclusive = _column(rows, counted, calls)
        tree.exclusive[metric] = exclusive
        tree.inclusive[metric] = inclusive(parent, exclusive)
    return ThreadProfile(
        stream.thread,
        tree,
        merged_events(stream.user_events),
        list(stream.launches.values()),
    )


def _column(rows: int, counted: Mapping[int, float], calls: array[int]) -> array[int]:
    """The values by row: `ABSENT` for kernels without a value, 0 for host routines above them."""
    cells: list[Any] = [counted.get(row, ABSENT if calls[row] else 0) for row in range(rows)]
    if all(isinstance(cell, int) for cell in cells):
        return array("q", cells)
    return array("d", cells)


def merged_events(events: list[UserEvent]) -> list[UserEvent]:
    """Merge the user events of several configurations: one per name, unit and row."""
    merged: dict[tuple[str, str, int | None], UserEvent] = {}
    for event in events:
        key = (event.name, event.unit, event.row)
        merged[key] = event if (earlier := merged.get(key)) is None else earlier.joined(event)
    return list(merged.values())
