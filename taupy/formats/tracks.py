"""A trial as tracks of slices, for formats that show a timeline.

If activities were kept, each stream and host thread has a track with its activities at their
actual times; activities that overlap others go to additional tracks. A trial without activities is
laid out instead: each call path becomes one slice as long as its inclusive time, one after another
within its caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taupy import units
from taupy.formats.capabilities import Part
from taupy.formats.stacks import nothing_to_write, unsummed
from taupy.model.gpu import Activity, Launch
from taupy.model.kinds import ActivityKind
from taupy.model.profile import ROOT_TIMER, TIME, Profile, Samples, Thread, ThreadProfile

TIMELINE: Final = frozenset[Part](
    ("routines", "call paths", "calls", "threads", "streams", "launches", "activities", "samples")
)
"""The parts of a trial that a timeline can hold."""

_KINDS: dict[str, ActivityKind] = {"GPU_KERNEL": "kernel", "GPU_COPY": "copy", "GPU_SYNC": "sync"}


_OF_PROCESSES = re.compile(r"DataLoader worker \d+|(.+ of )?rank \d+")
"""Names of processes, which taupy gives to their first threads."""


def process_name(profile: Profile, node: int) -> str:
    """The name of a process, such as `DataLoader worker 0` or `rank 1`; by default, the
    application's."""
    if name := profile.node_metadata.get(node, {}).get("Process Name"):
        return name
    names = (
        measured.thread.name
        for measured in profile.threads
        if measured.thread.place == (node, 0, 0)
    )
    return next(filter(_OF_PROCESSES.fullmatch, names), profile.application)


class Slice(NamedTuple):
    """One slice; times are in ns since the epoch or, if laid out, since the trial's start."""

    start_ns: int
    end_ns: int
    row: int
    kind: ActivityKind
    correlation: int | None = None
    bytes: int | None = None
    calls: int | None = None


@dataclass(slots=True)
class Track:
    """Slices on one line.

    Attributes:
        lane: 0, or the number of an additional track of the same thread.
    """

    measured: ThreadProfile
    lane: int
    slices: Iterable[Slice]

    @property
    def thread(self) -> Thread:
        return self.measured.thread

    def title(self) -> str:
        thread = self.thread
        name = thread.name or ("stream" if thread.kind == "stream" else "thread")
        return f"{name} ({self.lane + 1})" if self.lane else name


class Counter(NamedTuple):
    """A value over time, of a GPU (context 1 + its ordinal) or of a host thread's process."""

    node: int
    context: int
    title: str
    samples: Samples

    def values(self) -> Iterator[tuple[int, float]]:
        """Times, in ns since the epoch, and the value from then on."""
        samples = self.samples
        last = None
        for start, end, value in zip(samples.start_ns, samples.end_ns, samples.mean, strict=True):
            if value == value:
                yield start, value
                last = end, value
        if last is not None:
            yield last


@dataclass(slots=True)
class Tracks:
    """All tracks of a trial.

    Attributes:
        counters: values over time, at actual times even if slices are laid out.
        laid_out: there are no actual times; call paths are placed one after another.
        lost: descriptions of what a timeline cannot show.
    """

    tracks: list[Track] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    laid_out: bool = False
    lost: list[str] = field(default_factory=list)


def tracks(profile: Profile) -> Tracks:
    """The tracks of a trial, by thread."""
    laid = Tracks()
    for measured in profile.threads:
        activities = list(measured.activities)
        if activities:
            lanes = _lanes(activities, nested=measured.thread.kind == "host")
            laid.tracks += [Track(measured, n, lane) for n, lane in enumerate(lanes)]
    without = [thread for thread in profile.threads if not _has(laid, thread)]
    left_out = [thread for thread in without if len(thread.tree) > _is_program(thread, profile)]
    if not laid.tracks:
        if not any(TIME.name in thread.tree.inclusive for thread in profile.threads):
            raise nothing_to_write("a timeline holds times", profile)
        laid.laid_out = True
        laid.tracks = [Track(thread, 0, _laid_out(thread, profile)) for thread in left_out]
        laid.lost.append(
            "times of single calls; the trial has none (no activities were kept). Call paths are "
            "laid out one after another, each one slice of its inclusive time"
        )
        laid.lost.append(
            "single calls; each call path is one slice, with the number of calls as an argument"
        )
        laid.lost += unsummed(profile, TIME.name, "inclusive")
        own = sum(_own_of_root(thread, profile) for thread in without)
        if own:
            laid.lost.append(f"{units.duration(own)} of exclusive time of {ROOT_TIMER}")
    elif left_out:
        laid.lost.append(
            f"{len(left_out)} threads without activities; their call paths are "
            "sums without times of single calls"
        )
    laid.counters = list(_counters(profile))
    if laid.counters and laid.laid_out:
        laid.lost.append("the work at each sample of a counter; only runs with --trace have it")
    if any(count > 1 for counter in laid.counters for count in counter.samples.count):
        laid.lost.append("minimum and maximum of the samples in each point of a counter")
    laid.lost += _lost(profile)
    return laid


_OF_A_GPU = re.compile(r"GPU\[(\d{1,4})\] (.+)", re.DOTALL)


def _counters(profile: Profile) -> Iterator[Counter]:
    for measured in profile.threads:
        thread = measured.thread
        for samples in measured.samples:
            if match := _OF_A_GPU.fullmatch(samples.name):
                ordinal, name = match.groups()
                yield Counter(thread.node, 1 + int(ordinal), name, samples)
            else:
                yield Counter(thread.node, thread.context, samples.name, samples)


def frames(measured: ThreadProfile, row: int) -> list[int]:
    """The callers of a row, from the root's child down to its direct caller."""
    parent = measured.tree.parent
    rows = []
    at = parent[row]
    while at > 0:
        rows.append(at)
        at = parent[at]
    return rows[::-1]


def launches_by_row(measured: ThreadProfile) -> dict[int, Launch | None]:
    """Row -> its launch; None if it has several configurations."""
    launch_of: dict[int, Launch | None] = {}
    for launch in measured.launches:
        launch_of[launch.row] = None if launch.row in launch_of else launch
    return launch_of


def _has(laid: Tracks, measured: ThreadProfile) -> bool:
    return any(track.measured is measured for track in laid.tracks)


def _lanes(activities: list[Activity], *, nested: bool) -> list[list[Slice]]:
    """Activities by start, on as many lanes as needed to avoid overlaps."""
    activities.sort(key=lambda activity: (activity.start_ns, -activity.end_ns))
    lanes: list[list[Slice]] = []
    open_ends: list[list[int]] = []
    for activity in activities:
        number = 0
        for ends in open_ends:
            while ends and ends[-1] <= activity.start_ns:
                ends.pop()
            if not ends or (nested and activity.end_ns <= ends[-1]):
                break
            number += 1
        if number == len(lanes):
            lanes.append([])
            open_ends.append([])
        open_ends[number].append(activity.end_ns)
        lanes[number].append(
            Slice(
                activity.start_ns,
                activity.end_ns,
                activity.row,
                activity.kind,
                activity.correlation,
                activity.bytes,
            )
        )
    return lanes


def _laid_out(measured: ThreadProfile, profile: Profile) -> Iterator[Slice]:
    """One slice for each call path, callers before callees.

    A root that represents the whole program has none: readers add one themselves.
    """
    tree = measured.tree
    time = tree.inclusive.get("time")
    if time is None:
        return
    first = 1 if _is_program(measured, profile) else 0
    starts = [0] * len(tree)
    used = [0] * len(tree)
    for row in range(1, len(tree)):
        above = tree.parent[row]
        starts[row] = starts[above] + used[above] if above >= 0 else 0
        took = int(time[row]) if time[row] == time[row] else 0
        if above >= 0:
            used[above] += took
    order = sorted(range(first, len(tree)), key=lambda row: (starts[row], row))
    for row in order:
        took = int(time[row]) if time[row] == time[row] else 0
        groups = profile.timers[tree.timer[row]].groups
        kind: ActivityKind = next((_KINDS[group] for group in groups if group in _KINDS), "range")
        yield Slice(starts[row], starts[row] + took, row, kind, calls=tree.calls[row])


def _is_program(measured: ThreadProfile, profile: Profile) -> bool:
    tree = measured.tree
    return len(tree) > 0 and profile.timers[tree.timer[0]].name == ROOT_TIMER


def _own_of_root(measured: ThreadProfile, profile: Profile) -> int:
    """Nanoseconds of the root's exclusive time, which no slice shows."""
    own = measured.tree.exclusive.get("time")
    if own is None or not _is_program(measured, profile) or own[0] != own[0]:
        return 0
    return max(0, int(own[0]))


def _lost(profile: Profile) -> list[str]:
    if any(None in launches_by_row(thread).values() for thread in profile.threads):
        return ["launch configurations of call paths that have several"]
    return []
