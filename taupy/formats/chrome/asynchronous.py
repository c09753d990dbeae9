"""Asynchronous slices of a Chrome trace: of each id a track of its own.

A slice is two events, its begin and its end, which have category and id in common and may come in
any order. Those of one id nest; those of different ids have nothing to do with each other. An id is
that of its process, or with `id2.global` that of all processes; a plain `id` is that of its process
unless the begins are all in one process and the ends in another.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from typing import Any, Final, NamedTuple

from taupy.formats import limits

_END: Final = -1


class Id(NamedTuple):
    """What the events of one track have in common.

    Attributes:
        name: of the slices, where it belongs to their id (S and F events).
        reach: "local", "global", or "" for a plain id.
    """

    category: str
    scope: str
    id: str
    name: str
    reach: str


class Slice(NamedTuple):
    """One slice, with the number of its track."""

    process: Hashable
    category: str
    track: int
    start: int
    duration: int
    timer: int


class _Halves:
    """Begins and ends of one id in one process."""

    __slots__ = ("moment", "name", "timer")

    def __init__(self) -> None:
        self.moment = array("q")
        self.timer = array("i")  # of a begin, else _END
        self.name = array("i")  # the timer that an end names


class Asynchronous:
    """Collects asynchronous begins and ends."""

    def __init__(self) -> None:
        self._ids: dict[Id, dict[Hashable, _Halves]] = {}
        self.unended = self.unbegun = self.endless = 0

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, event: dict[str, Any], begins: bool, moment: int, timer: int) -> None:
        """Add a begin or an end of a slice with this timer."""
        halves = self._ids.setdefault(_id(event), {}).setdefault(
            _hashable(event.get("pid")), _Halves()
        )
        halves.moment.append(moment)
        halves.timer.append(timer if begins else _END)
        halves.name.append(timer)

    def slices(self) -> Iterator[Slice]:
        """All slices; those of one id in one process follow each other."""
        track = 0
        for id, by_process in self._ids.items():
            for process, halves in _tracks(id, by_process):
                for start, end, timer in self._paired(halves):
                    if end - start < limits.SLICE_NS:
                        yield Slice(process, id.category, track, start, end - start, timer)
                    else:
                        self.endless += 1
                track += 1
        self._ids = {}

    def _paired(self, halves: _Halves) -> Iterator[tuple[int, int, int]]:
        """Starts, ends and timers: an end ends the last slice of its name that is open, or else the
        last one."""
        open_ones: list[tuple[int, int]] = []
        for at in sorted(range(len(halves.moment)), key=halves.moment.__getitem__):
            if halves.timer[at] != _END:
                open_ones.append((halves.moment[at], halves.timer[at]))
            elif open_ones:
                which = len(open_ones) - 1
                while which and open_ones[which][1] != halves.name[at]:
                    which -= 1
                if open_ones[which][1] != halves.name[at]:
                    which = len(open_ones) - 1
                start, timer = open_ones.pop(which)
                yield start, halves.moment[at], timer
            else:
                self.unbegun += 1
        self.unended += len(open_ones)


def _tracks(id: Id, by_process: dict[Hashable, _Halves]) -> Iterator[tuple[Hashable, _Halves]]:
    """The tracks of an id, each with the process where it began."""
    if id.reach == "local" or len(by_process) == 1:
        yield from by_process.items()
        return
    apart: list[tuple[Hashable, _Halves]] = []
    for process, halves in by_process.items():
        begins = len(halves.timer) - halves.timer.count(_END)
        if id.reach == "global" or begins in (0, len(halves.timer)):
            apart.append((process, halves))
        else:
            yield process, halves
    # Begins first, for the process of the track to be that of a begin.
    apart.sort(key=lambda pair: pair[1].timer[0] == _END)
    if apart:
        process, whole = apart[0]
        for _, halves in apart[1:]:
            whole.moment += halves.moment
            whole.timer += halves.timer
            whole.name += halves.name
        yield process, whole


def _id(event: dict[str, Any]) -> Id:
    category = str(event.get("cat", ""))[:1000]
    scope = str(event.get("scope", ""))[:1000]
    name = str(event.get("name", ""))[:1000] if event.get("ph") in ("S", "F") else ""
    id, reach = event.get("id"), ""
    if id is None and isinstance(of_reach := event.get("id2"), dict):
        reach = "global" if "global" in of_reach else "local"
        id = of_reach.get(reach)
    return Id(category, scope, str(id)[:1000], name, reach)


def _hashable(process: Any) -> Hashable:
    return process if isinstance(process, Hashable) else str(process)[:1000]
