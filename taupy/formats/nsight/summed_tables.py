"""Build a profile from tables of sums, as printed by `nvprof` and `nsys stats`.

Such a table has a row for each kernel, copy or API call, with its number and time, but not its
callers. GPU work is placed on a single stream unless the table has streams, API calls on a single
host thread under `(callers not recorded)`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from taupy.formats import limits
from taupy.formats.gpu_records import (
    NOWHERE,
    StreamRecords,
    Work,
    api_timer,
    copy_work,
    memset_work,
    root_timer,
)
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.stacks import profile_of
from taupy.formats.tau.names import CUT
from taupy.model.gpu import Configuration, Device, Extent, Launch
from taupy.model.kernel_names import kernel_timer
from taupy.model.profile import (
    TIME,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.model.streams import Owner, StreamBuilder

_WAYS: Final = {
    "host-to-device": "HtoD",
    "device-to-host": "DtoH",
    "device-to-device": "DtoD",
    "host-to-host": "HtoH",
    "peer-to-peer": "PtoP",
}
_COPY: Final = re.compile(r"\[?(?:CUDA )?(?:Unified Memory )?memcpy ([\w-]+?)\]?", re.IGNORECASE)
_MEMSET: Final = re.compile(r"\[?(?:CUDA )?memset\]?", re.IGNORECASE)


class Times(NamedTuple):
    """The number of executions and their durations in ns."""

    number: int
    total: int
    shortest: int
    longest: int
    squares: float

    @property
    def sound(self) -> bool:
        """Whether the values are plausible."""
        return 0 < self.number < limits.EXACT and 0 <= self.total < limits.SLICE_NS


def times(
    count: int,
    total: float,
    shortest: float,
    longest: float,
    deviation: float | None = None,
) -> Times:
    """Times of a row, in ns.

    Args:
        deviation: sample standard deviation; if None, the sum of squares is a lower bound.
    """
    mean = total / count if count else 0.0
    if deviation is not None:
        squares = count * mean * mean + max(count - 1, 0) * deviation * deviation
    else:
        squares = least_squares(count, mean, shortest, longest)
    return Times(count, round(total), round(shortest), round(longest), squares)


def least_squares(count: int, mean: float, least: float, largest: float) -> float:
    """The smallest possible sum of squares of `count` values; exact for three or fewer."""
    if count <= 1:
        return float(mean * mean)
    between = count - 2
    rest = (count * mean - least - largest) / between if between else 0.0
    return float(least * least + largest * largest + between * rest * rest)


def work_of(name: str) -> Work:
    """The kind of GPU work in a row: a copy or memset if its name is in brackets, else a kernel."""
    copy = _COPY.fullmatch(name)
    if copy is not None:
        return copy_work(_WAYS.get(copy[1].lower(), copy[1]))
    return memset_work() if _MEMSET.fullmatch(name) else Work(kernel_timer(name), "kernel")


@dataclass(slots=True)
class SummedTables:
    """Collects the contents of a file's tables, and builds a profile.

    Attributes:
        notes: descriptions of what was omitted.
        records: individual records of streams, from tables with a row for each.
    """

    timers: list[Timer] = field(default_factory=lambda: [root_timer(), CUT])
    notes: list[str] = field(default_factory=list)
    records: dict[tuple[int, int, int], StreamRecords] = field(default_factory=dict)
    _gpu: list[tuple[Thread, Timer, Launch]] = field(default_factory=list)
    _values: dict[tuple[Thread, Timer], dict[str, float]] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)
    _samples: list[tuple[Thread, Timer, UserEvent]] = field(default_factory=list)
    _devices: dict[int, str] = field(default_factory=dict)
    _api: dict[Timer, Times] = field(default_factory=dict)

    def stream(self, device: int = 0, context: int = 0, stream: int | None = None) -> Thread:
        """The thread of a stream; `stream` is None if the table has no streams."""
        if stream is None:
            return Thread(0, 1 + device, 0, "stream", "all streams")
        key = (device, context, stream)
        records = self.records.get(key)
        if records is not None:
            return records.thread
        number = sum(1 for other in self.records if other[0] == device)
        thread = Thread(0, 1 + device, number, "stream", f"stream {stream}", stream)
        self.records[key] = StreamRecords(thread)
        return thread

    def name_device(self, ordinal: int, name: str) -> None:
        if name:
            self._devices.setdefault(ordinal, name)

    def add_gpu(
        self,
        name: str,
        took: Times,
        device: int = 0,
        grid: Extent | None = None,
        block: Extent | None = None,
        untimed: bool = False,
    ) -> None:
        """Add the kernels, copies or memsets of one row."""
        thread = self.stream(device)
        timer = work_of(name).timer
        launch = Launch(
            count=took.number,
            time_ns=took.total,
            minimum_ns=took.shortest,
            maximum_ns=took.longest,
            sum_squares_ns2=took.squares,
            untimed=took.number if untimed else 0,
            configuration=Configuration(grid, block),
        )
        self._gpu.append((thread, timer, launch))

    def add_record(
        self,
        key: tuple[int, int, int],
        work: Work,
        start: int,
        end: int,
        moved: int | None = None,
    ) -> None:
        """Add one kernel, copy or memset with its times in ns.

        Args:
            key: device, CUDA context and stream, as for `stream`.

        Raises:
            OverflowError: the times or the bytes are implausible.
        """
        if not (0 <= start <= end <= limits.SUM and (moved or 0) < limits.EXACT):
            raise OverflowError("no program takes so long")
        self.stream(*key)
        records = self.records[key]
        place = records.place(NOWHERE, work)
        records.add(place, start, end, moved=-1 if moved is None else moved)

    def add_values(
        self, name: str, values: Mapping[str, float], units: Mapping[str, str], device: int = 0
    ) -> None:
        """Add counted sums of a kernel, which must have been added before."""
        sums = self._values.setdefault((self.stream(device), work_of(name).timer), {})
        for metric, value in values.items():
            sums[metric] = sums.get(metric, 0) + value
        self._units.update(units)

    def add_sample(self, name: str, sample: UserEvent, device: int = 0) -> None:
        """Add a value of a kernel that is not a sum; the kernel must have been added before."""
        self._samples.append((self.stream(device), work_of(name).timer, sample))

    def add_bytes(self, name: str, moved: int) -> None:
        """Set the total bytes moved by the copies or memsets with this name."""
        timer = work_of(name).timer
        for number, (thread, other, launch) in enumerate(self._gpu):
            if other == timer:
                self._gpu[number] = (thread, timer, replace(launch, bytes=moved))

    def add_api(self, name: str, took: Times, group: str | None = None) -> None:
        """Add calls of an API."""
        timer = api_timer(name) if group is None else Timer(name, groups=(group,))
        earlier = self._api.get(timer)
        if earlier is not None:
            took = Times(
                earlier.number + took.number,
                earlier.total + took.total,
                min(earlier.shortest, took.shortest),
                max(earlier.longest, took.longest),
                earlier.squares + took.squares,
            )
        self._api[timer] = took

    @property
    def empty(self) -> bool:
        return not self._gpu and not self._api and not self.records

    def profile(self, path: Path, tool: str, metadata: Mapping[str, str] = {}) -> Profile:
        """The profile; it starts at the file's modification time, as tables have no date."""
        threads = [self._host()] if self._api else []
        threads += self._streams()
        notes = {IMPORT_NOTES: "\n".join(self.notes)} if self.notes else {}
        names = {**{thread.thread.context - 1: "" for thread in threads}, **self._devices}
        metrics = [TIME, *(Metric(name, unit) for name, unit in sorted(self._units.items()))]
        profile = profile_of(path, self.timers, threads, metrics)
        profile.source = tool
        profile.metadata = {**metadata, **notes}
        profile.devices = [
            Device(0, ordinal, name or f"GPU {ordinal}")
            for ordinal, name in sorted(names.items())
            if ordinal >= 0
        ]
        return profile

    def _streams(self) -> list[ThreadProfile]:
        builder = StreamBuilder(self.timers)
        rows: dict[tuple[Thread, Timer], int] = {}
        for thread, timer, launch in self._gpu:
            rows[thread, timer] = builder.add(thread, None, timer, launch)
        for (thread, timer), values in self._values.items():
            builder.add_values(thread, rows[thread, timer], values)
        for thread, timer, sample in self._samples:
            builder.add_user_events(thread, [replace(sample, row=rows[thread, timer])])
        stamps = {}
        for record in self.records.values():
            record.deliver(builder, _nobody)
            stamps[record.thread] = record.stamps
        threads = builder.threads()
        for measured in threads:
            if measured.thread in stamps:
                measured.activities = stamps[measured.thread]
        return threads

    def _host(self) -> ThreadProfile:
        first = len(self.timers)
        self.timers += self._api
        took = list(self._api.values())
        total = sum(row.total for row in took)
        count = sum(row.number for row in took)
        tree = CallTree(
            timer=array("q", [0, 1, *range(first, first + len(took))]),
            parent=array("q", [-1, 0, *[1] * len(took)]),
            calls=array("q", [1, 0, *(row.number for row in took)]),
            subroutines=array("q", [0, count, *[0] * len(took)]),
            inclusive={"time": array("q", [total, total, *(row.total for row in took)])},
            exclusive={"time": array("q", [0, 0, *(row.total for row in took)])},
        )
        return ThreadProfile(Thread(0, 0, 0), tree)


def _nobody(code: int) -> Owner:
    """The owner of a launch, which tables do not contain; never called."""
    raise LookupError(code)
