"""Group similar launches of a kernel, and sum each group.

A file of single launches is stored as sums over groups: launches of one kernel with one
configuration, durations within a factor of two, and the same counters. A kernel with one group is
placed under `NO_OWNER`, like GPU work whose launch was not seen; if there are several groups, each
has a separate call path there, named for what its launches have in common. Sums over a kernel are
unaffected, and `taupy roofline --by launch` separates the groups.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taupy.formats import limits
from taupy.model.gpu import NO_OWNER, Configuration, Extent, Launch
from taupy.model.profile import ROOT_TIMER, CallTree, Statistics, Thread, ThreadProfile, Timer
from taupy.model.streams import Owner, StreamBuilder, summed
from taupy.model.work import LAUNCHES_GROUP
from taupy.units import duration

ALIKE: Final = ("GPU_NO_OWNER", LAUNCHES_GROUP)
"""Groups of the timers over groups of launches."""


@dataclass(slots=True)
class Alike:
    """One group of launches.

    Attributes:
        counted: names of the counters with a value for each launch.
        shortest, longest: durations of launches in ns; None if none was timed.
        mixed: launches of any configuration and duration belong to it.
    """

    grid: Extent | None
    block: Extent | None
    counted: frozenset[str]
    shortest: float | None
    longest: float | None
    mixed: bool = False
    launches: dict[Configuration, Launch] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    samples: dict[tuple[str, str], Statistics] = field(default_factory=dict)

    def spread(self, time_ns: float | None) -> float:
        """The longest duration divided by the shortest, as if this launch were in the group."""
        if time_ns is None or self.shortest is None or self.longest is None:
            return 1.0 if time_ns is self.shortest else float("inf")
        low, high = min(self.shortest, time_ns), max(self.longest, time_ns)
        return max(high, 1.0) / max(low, 1.0)

    def add(self, launch: Launch) -> None:
        """Count launches; those that need the same resources are summed."""
        key = launch.configuration._replace(local_bytes=None, occupancy=None, limiter=None)
        earlier = self.launches.get(key)
        self.launches[key] = launch if earlier is None else summed(earlier, launch)

    def add_values(self, values: Mapping[str, float]) -> None:
        """Add sums over launches, by metric."""
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0) + value

    def add_sample(
        self,
        name: str,
        unit: str,
        value: float,
        count: int = 1,
        limits: tuple[float, float] | None = None,
    ) -> None:
        """Add a value that is not a sum: one launch's, or the mean of `count` launches whose
        smallest and largest values are `limits`."""
        self.samples.setdefault((name, unit), Statistics()).add(value, count, limits)

    def name(self) -> str:
        """A description of what its launches have in common."""
        if self.mixed:
            return "launches of further configurations"
        parts = [
            f"{what} {'x'.join(map(str, extent))}"
            for what, extent in (("grid", self.grid), ("block", self.block))
            if extent is not None
        ]
        timed = sum(launch.count - launch.untimed for launch in self.launches.values())
        if timed:
            mean = sum(launch.time_ns for launch in self.launches.values()) / timed
            parts.append(f"{duration(mean)} each")
        return f"launches of {', '.join(parts)}" if parts else "launches"


class Groups:
    """All groups of a file, by stream and kernel.

    Args:
        timers: the profile's timers; new ones are appended to it.
    """

    def __init__(self, timers: list[Timer]) -> None:
        self._timers = timers
        self._groups: dict[tuple[Thread, Timer], list[Alike]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def group(
        self,
        thread: Thread,
        kernel: Timer,
        grid: Extent | None,
        block: Extent | None,
        time_ns: float | None,
        counted: frozenset[str],
    ) -> Alike:
        """The group that a launch belongs to, created if necessary."""
        groups = self._groups.setdefault((thread, kernel), [])
        alike = [
            group
            for group in groups
            if (group.grid, group.block, group.counted) == (grid, block, counted)
        ]
        near = min(alike, key=lambda group: group.spread(time_ns), default=None)
        if near is None or near.spread(time_ns) > 2:
            mixed = len(groups) >= limits.GROUPS
            near = next(
                (group for group in groups if group.mixed and group.counted == counted), None
            )
            if near is None or not mixed:
                near = Alike(grid, block, counted, time_ns, time_ns, mixed)
                groups.append(near)
                self._count += 1
        if time_ns is not None:
            near.shortest = time_ns if near.shortest is None else min(near.shortest, time_ns)
            near.longest = time_ns if near.longest is None else max(near.longest, time_ns)
        return near

    def threads(self) -> list[ThreadProfile]:
        """The streams' threads, by place."""
        places = _Places(self._timers)
        owned: list[tuple[Thread, Timer, Alike, Owner | None]] = []
        for (thread, kernel), groups in self._groups.items():
            names: set[str] = set()
            for group in groups:
                owner = places.owner(_unique(group.name(), names)) if len(groups) > 1 else None
                owned.append((thread, kernel, group, owner))
        builder = StreamBuilder(self._timers)
        for thread, kernel, group, owner in owned:
            row = -1
            for launch in group.launches.values():
                row = builder.add(thread, owner, kernel, launch)
            builder.add_values(thread, row, group.values)
            events = [sample.event(*name, row) for name, sample in group.samples.items()]
            builder.add_user_events(thread, events)
        return builder.threads()


def _unique(name: str, taken: set[str]) -> str:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name} ({number})", number + 1
    taken.add(unique)
    return unique


class _Places:
    """Call paths over groups of launches: `NO_OWNER`, and the group's name."""

    def __init__(self, timers: list[Timer]) -> None:
        self._timers = timers
        self._rows: dict[str, int] = {}
        self._tree = CallTree(array("q"), array("q"), array("q"), array("q"), {}, {})

    def owner(self, name: str) -> Owner:
        if not self._rows:
            root = self._add(Timer(ROOT_TIMER, groups=("TAUPY",)), -1)
            self._rows[NO_OWNER] = self._add(Timer(NO_OWNER, groups=("GPU_NO_OWNER",)), root)
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = self._add(Timer(name, groups=ALIKE), self._rows[NO_OWNER])
        return Owner(self._tree, row)

    def _add(self, timer: Timer, parent: int) -> int:
        self._timers.append(timer)
        self._tree.timer.append(len(self._timers) - 1)
        self._tree.parent.append(parent)
        return len(self._tree.timer) - 1
