"""A profile made again from CUPTI's own bytes: a folder of `tests/gpu/record.py`.

Kernels, copies and calls come from the buffers, through the collector; call paths, timers and
ranges of the host from `calls.tsv`. What neither has, the time of the host's routines, is zero.
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path

from taupy.model.gpu import Activity
from taupy.model.profile import ROOT_TIMER, CallTree, Profile, Thread, ThreadProfile, Timer
from taupy.model.streams import HostPath
from taupy.record.gpu_part import GpuPart
from taupy.record.gpu_profile import add_gpu_part
from tests.gpu import calls
from tests.unit.collectors.test_cupti_records import KINDS, LAYOUTS, Records, replay

DRIVER, RUNTIME = 4, 5
DOMAINS = {DRIVER: 1, RUNTIME: 2}
FIRST_PLACE, PLACES_APART = 0x7F0000000000, 0x40
_NAMES = {number: name for name, number in KINDS.items()} | {DRIVER: "API"}


def api_records(records: Records) -> dict[int, tuple[int, int]]:
    """Correlation -> domain and number of the function, of the calls in the buffers."""
    layouts = LAYOUTS[records.version]["records"]
    fields = layouts["API"][2]
    found = {}
    for step in records.steps:
        data, at = (step[1], 0) if step[0] == "records" else (b"", 0)
        while at + 4 <= len(data):
            (kind,) = struct.unpack_from("<I", data, at)
            if kind in DOMAINS:
                number, correlation = (
                    int.from_bytes(data[at + offset : at + offset + width], "little")
                    for offset, width in (fields["cbid"], fields["correlationId"])
                )
                found[correlation] = DOMAINS[kind], number
            at += layouts[_NAMES[kind]][1]
    return found


class _Trees:
    """Trees of host threads that grow with the call paths that are asked for."""

    def __init__(self, host: calls.Host) -> None:
        self.timers = [Timer(ROOT_TIMER, groups=("TAUPY",))]
        self.known = host.timers
        self.position: dict[str, int] = {ROOT_TIMER: 0}
        self.threads: dict[int, ThreadProfile] = {}
        self.rows: dict[tuple[int, tuple[str, ...]], int] = {}

    def thread(self, number: int) -> ThreadProfile:
        if number not in self.threads:
            tree = CallTree()
            tree.inclusive["time"], tree.exclusive["time"] = array("q"), array("q")
            name = "MainThread" if number == 0 else f"thread {number}"
            self.threads[number] = ThreadProfile(Thread(0, 0, number, "host", name), tree)
            self._add(tree, 0, -1)
        return self.threads[number]

    def _add(self, tree: CallTree, timer: int, parent: int) -> int:
        tree.timer.append(timer)
        tree.parent.append(parent)
        tree.calls.append(1)
        tree.subroutines.append(0)
        tree.inclusive["time"].append(0)
        tree.exclusive["time"].append(0)
        if parent >= 0:
            tree.subroutines[parent] += 1
        return len(tree) - 1

    def row(self, thread: int, path: tuple[str, ...]) -> int:
        """The row of a call path, whose first member is the root."""
        tree = self.thread(thread).tree
        if len(path) <= 1:
            return 0
        if (thread, path) not in self.rows:
            parent = self.row(thread, path[:-1])
            name = path[-1]
            if name not in self.position:
                self.position[name] = len(self.timers)
                self.timers.append(self.known[name])
            self.rows[thread, path] = self._add(tree, self.position[name], parent)
        return self.rows[thread, path]


def rebuilt(collector: str, scratch: Path, records: Records, host: calls.Host) -> Profile:
    """The profile of a recorded process.

    Args:
        collector: the library.
        scratch: an empty folder.
        records: the buffers.
        host: what `calls.tsv` says.
    """
    trees, places, paths = _Trees(host), {}, {}
    numbers = api_records(records)
    told = Records(records.version)

    def place(thread: int, path: tuple[str, ...]) -> int:
        if len(path) <= 1:
            return 0
        key = thread, path
        if key not in places:
            places[key] = FIRST_PLACE + PLACES_APART * len(places)
            paths[places[key]] = HostPath(trees.thread(thread), trees.row(thread, path))
        return places[key]

    names: dict[tuple[int, int], str] = {}
    ranges = []
    for one in host.calls:
        if one.correlation is None:
            row = trees.row(one.thread, (*one.path, one.function))
            ranges.append((one.thread, Activity(row, "range", one.begin_ns, one.end_ns)))
        elif one.correlation in numbers:
            domain, number = numbers[one.correlation]
            names[domain, number] = one.function
            at = 0 if one.is_native else place(one.thread, one.path)
            launch = place(0 if one.is_native else one.thread, one.owner or one.path)
            told.steps.append(("calls", domain, number, one.correlation, 1, at, launch))
    told.steps += records.steps
    part: GpuPart = replay(collector, scratch, told, trace=True)
    part.call_names.update(names)
    first = min((one.begin_ns for one in host.calls), default=0)
    last = max((one.end_ns for one in host.calls), default=0)
    profile = Profile(
        "01900000-0000-7000-8000-000000000000", "recorded", "rebuilt", first / 1e9,
        last - first, trees.timers, list(trees.threads.values()),
    )  # fmt: skip
    for thread, activity in ranges:
        measured = trees.thread(thread)
        measured.activities = [*measured.activities, activity]
    profile.metadata |= {
        f"taupy.health.{name}": text
        for name, text in add_gpu_part(profile, 0, part, paths.get, 0.0).items()
    }
    return profile
