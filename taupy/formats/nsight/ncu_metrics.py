"""Launches that Nsight Compute counted, made into a profile: timers, metrics, user events.

Sums (`*.sum`) are metrics: our counters (`ncu_counters.py`), all others under their own names.
What is no sum (rates, percentages, averages) would be nonsense when added up, and becomes a
user event with minimum, maximum and mean. Launches of one kernel that differ have call paths of
their own (`alike.py`). Reading files is `ncu_csv.py`'s, `ncu_rep.py`'s and `nvprof.py`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from taupy.catalog import spelling
from taupy.catalog.counters import BY_NAME, COUNTED_LAUNCHES
from taupy.formats import limits
from taupy.formats.alike import Groups
from taupy.formats.gpu_records import kernel_timer
from taupy.formats.nsight import ncu_counters
from taupy.formats.nsight.ncu_peaks import Peaks
from taupy.formats.nsight.summed_tables import least_squares
from taupy.model.gpu import Device, Extent, Launch
from taupy.model.launch_counts import LaunchCounts
from taupy.model.profile import TIME, Metric, Profile, Thread, Timer
from taupy.model.work import PER_SECOND

_FACTS: Final = ("launch__", "device__", "c2clink__", "nvlink__", "numa__", "profiler__")


_TENSOR_REMEDY: Final = (
    "the tensor pipe's instructions tell neither their shape nor how many are HFMA2; count "
    "operations with: ncu --metrics regex:sm__ops_path_tensor_src_.*, or state the flop with: "
    "taupy roofline --flop"
)


@dataclass(slots=True)
class Counted:
    """One launch as a profiler saw it, or the mean of several that it summed up.

    Attributes:
        values: by metric, in base units (B, ns, Hz, 1); a value that is none is not there.
        units: of them.
        absent: metrics that the file names without a value (`n/a`).
        sums: further metrics that are sums over the launch, of which no more has to be made.
        count: how many launches it is the mean of.
        ranges: least and largest value of a metric in them, where it is the mean of several.
        squares_ns2: the sum of their squared durations, where that is known.
    """

    kernel: str
    process: str = ""
    device: int = 0
    device_name: str = ""
    capability: str = ""
    context: int = 0
    stream: int = 0
    grid: Extent | None = None
    block: Extent | None = None
    values: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    sums: dict[str, float] = field(default_factory=dict)
    count: int = 1
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    squares_ns2: float | None = None
    failed: bool = False


class CountedLaunches:
    """Launches on their way to a profile, in the order in which they ran."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self._groups = Groups(self.timers)
        self._kernels: dict[str, Timer] = {}
        self._nodes: dict[str, int] = {}
        self._streams: dict[tuple[int, int, int, int], Thread] = {}
        self._units: dict[str, str] = {}
        self._devices: dict[tuple[int, int], tuple[str, str]] = {}
        self._peaks: dict[tuple[int, int], Peaks] = {}
        self._absent: Counter[str] = Counter()
        self.count = 0
        self.failed = 0
        self.untimed = 0
        self.by_rates = 0
        self.rates_alone = 0
        self.handed_out = 0
        self.tensor_unknown = 0
        self.left_out = 0

    def add(self, one: Counted) -> None:
        """Count one launch.

        Raises:
            OverflowError: there are more kernels and metrics than any program has.
        """
        self.count += one.count
        if len(self._groups) * len(self._units) > limits.NCU_CELLS:
            said = f"{len(self._groups)} groups of launches with {len(self._units)} metrics"
            raise OverflowError(f"{said}: more than any program has")
        thread = self._thread(one)
        timer = self._kernels.get(one.kernel)
        if timer is None:
            timer = self._kernels[one.kernel] = kernel_timer(one.kernel)
        made = ncu_counters.counters(one.values, one.capability)
        if one.failed:
            self.failed += one.count
        elif made.time_ns is None:
            self.untimed += one.count
        counted = self._counted(one, made) if one.values or one.sums else {}
        group = self._groups.group(
            thread, timer, one.grid, one.block, made.time_ns, _work(counted, made.per_second)
        )
        group.add(_launch(one, made.time_ns))
        self._note_device(thread, one)
        self._absent.update(one.absent - one.values.keys())
        if not counted:
            return
        group.add_values({name: _whole(name, one.count * counted[name]) for name in counted})
        for name, value in one.values.items():
            if not _is_sum(name) and not _is_fact(name):
                unit = _unit(name, one.units)
                group.add_sample(name, unit, value, one.count, one.ranges.get(name))
        for name, value in made.per_second.items():
            unit = f"{BY_NAME[name].unit}/s"
            group.add_sample(f"{name}{PER_SECOND}", unit, value, one.count)

    def counts(self, one: Counted) -> LaunchCounts:
        """One launch by itself, for joining a trial; without values if it failed."""
        found: dict[str, float] = {}
        if (one.values or one.sums) and not one.failed:
            made = ncu_counters.counters(one.values, one.capability)
            counted = self._counted(one, made)
            found = {name: _whole(name, counted[name]) for name in counted}
        timer = kernel_timer(one.kernel)
        node = self._nodes.setdefault(one.process, len(self._nodes))
        short = timer.short or timer.name
        return LaunchCounts(timer.name, short, node, one.device, one.grid, one.block, found)

    @property
    def units(self) -> dict[str, str]:
        """Of the metrics so far."""
        return self._units

    def _counted(self, one: Counted, made: ncu_counters.Counters) -> dict[str, float]:
        """taupy's counters, then all sums that do not merely repeat one of them."""
        found: dict[str, float] = {**made.sums, COUNTED_LAUNCHES: 1}
        self.by_rates += made.from_rates
        self.rates_alone += bool(made.per_second)
        self.handed_out += made.handed_out
        self.tensor_unknown += made.tensor_unknown
        ours = ncu_counters.of_ours_alone(frozenset(made.sums))
        for name in made.sums:
            self._units[name] = BY_NAME[name].unit
        self._units[COUNTED_LAUNCHES] = "launch"
        others = {
            **{name: one.values[name] for name in one.values if _is_sum(name) and name not in ours},
            **one.sums,
        }
        for name, value in others.items():
            if name not in self._units and len(self._units) >= limits.NCU_METRICS:
                self.left_out += 1
                continue
            found[name] = value
            known = BY_NAME.get(name)
            self._units.setdefault(name, known.unit if known else _unit(name, one.units))
        return found

    def _thread(self, one: Counted) -> Thread:
        node = self._nodes.setdefault(one.process, len(self._nodes))
        key = (node, one.device, one.context, one.stream)
        thread = self._streams.get(key)
        if thread is None:
            number = sum(1 for other in self._streams if other[:2] == key[:2])
            name = f"stream {one.stream}"
            if any(other[2] != one.context for other in self._streams if other[:2] == key[:2]):
                name += f" (CUDA context {one.context})"
            thread = Thread(node, 1 + one.device, number, "stream", name, one.stream)
            self._streams[key] = thread
        return thread

    def _note_device(self, thread: Thread, one: Counted) -> None:
        name = one.device_name or one.texts.get("device__attribute_display_name", "")
        key = (thread.node, thread.context - 1)
        known = self._devices.get(key, ("", ""))
        self._devices[key] = (known[0] or name, known[1] or one.capability)
        self._peaks.setdefault(key, Peaks()).add(one.values)

    def profile(self, application: str, metadata: dict[str, str], when: float) -> Profile:
        """All launches, summed up by kernel, and by configuration and duration where they differ.

        Args:
            when: seconds since the epoch; files of ncu do not say it, so that of the file.
        """
        threads = self._groups.threads()
        facts = {
            "time source": "Nsight Compute (kernels run one by one, clocks locked, caches flushed)",
            "flop_fp16 convention": "packed: HADD2, HMUL2, HFMA2 are 2, 2 and 4 operations",
        }
        return Profile(
            uuid="",
            application=application,
            experiment="default",
            started_at=when,
            duration_ns=sum(int(one.tree.inclusive["time"][0]) for one in threads),
            timers=self.timers,
            threads=threads,
            metrics=[TIME, *(Metric(name, unit) for name, unit in sorted(self._units.items()))],
            source="ncu",
            metadata={**facts, **metadata},
            node_metadata={n: {"PID": pid} for pid, n in self._nodes.items() if pid},
            devices=[
                Device(
                    *(node, ordinal, name or f"GPU {ordinal}"),
                    compute_capability=capability,
                    facts=self._peaks[node, ordinal].facts(),
                )
                for (node, ordinal), (name, capability) in sorted(self._devices.items())
            ],
        )

    def notes(self) -> list[str]:
        """What was left out or made up."""
        found = []
        if self.failed:
            found.append(
                f"{self.failed} of {self.count} launches failed: nothing was counted there"
            )
        if self.left_out:
            found.append(
                f"{self.left_out} values of metrics beyond the first {limits.NCU_METRICS} left out"
            )
        if self.untimed:
            found.append(
                f"{self.untimed} of {self.count} launches have no duration: they are untimed"
            )
        if self.rates_alone:
            found.append(
                f"{self.rates_alone} launches have rates alone (flop/s, B/s): their intensity and "
                "performance are known, their flop, bytes and share of the time are not; "
                "sections of the same launches in other files join them when imported together"
            )
        if self.by_rates:
            found.append(f"sums of {self.by_rates} launches were made of rates and the duration")
        if self.handed_out:
            found.append(
                f"bytes_l1 and bytes_l2 of {self.handed_out} launches: what the caches handed out, "
                "as in NVIDIA's rooflines, for lack of what was asked of them"
            )
        if self.tensor_unknown:
            found.append(
                f"flop_tensor of {self.tensor_unknown} launches is unknown: {_TENSOR_REMEDY}"
            )
        if self._absent:
            names = [name for name, _ in self._absent.most_common(6)]
            more = f" and {len(self._absent) - 6} more" if len(self._absent) > 6 else ""
            found.append(f"not counted (n/a): {', '.join(names)}{more}")
        return found


def _launch(one: Counted, time_ns: float | None) -> Launch:
    """What is known of its durations in whole nanoseconds, and what it asks of an SM."""
    if time_ns is None:
        untimed = Launch(0, one.count, 0, 0, 0, 0.0, one.count, one.grid, one.block)
        return replace(untimed, **_resources(one.values))
    shortest, longest = one.ranges.get(ncu_counters.DURATION, (time_ns, time_ns))
    squares = one.squares_ns2
    if squares is None:
        squares = least_squares(one.count, round(time_ns), round(shortest), round(longest))
    return Launch(
        row=0,
        count=one.count,
        time_ns=round(time_ns * one.count),
        minimum_ns=round(shortest),
        maximum_ns=round(longest),
        sum_squares_ns2=squares,
        grid=one.grid,
        block=one.block,
        **_resources(one.values),
    )


def _work(counted: Mapping[str, float], per_second: Mapping[str, float]) -> frozenset[str]:
    """Which flop and bytes were counted: launches with others are not of one group."""
    sums = (name for name in counted if name in BY_NAME and name.startswith(("flop", "bytes")))
    return frozenset((*sums, *(name + PER_SECOND for name in per_second)))


def _is_fact(name: str) -> bool:
    """Is it a property of the launch or the machine rather than something measured?"""
    return name.startswith(_FACTS) and name != "launch__waves_per_multiprocessor"


def _whole(name: str, value: float) -> int | float:
    """A count as a whole number, as long as sums of it fit one; times in whole nanoseconds."""
    if name == "counted_time":
        return round(value)
    return int(value) if value == int(value) and value < limits.NCU_WHOLE else float(value)


def _is_sum(name: str) -> bool:
    return name.endswith(".sum")


class _Resources(TypedDict):
    """What a launch asks of a multiprocessor, as `Launch` has it."""

    registers: int | None
    shared_static_bytes: int | None
    shared_dynamic_bytes: int | None
    occupancy: float | None
    limiter: str | None


def _resources(values: Mapping[str, float]) -> _Resources:
    def whole(name: str) -> int | None:
        value = values.get(name)
        return None if value is None or not 0 <= value < 1 << 40 else int(value)

    percent = values.get("sm__maximum_warps_per_active_cycle_pct")
    limits = {
        word: values[f"launch__occupancy_limit_{word}"]
        for word in ("registers", "shared_mem", "warps", "blocks")
        if f"launch__occupancy_limit_{word}" in values
    }
    return _Resources(
        registers=whole("launch__registers_per_thread"),
        shared_static_bytes=whole("launch__shared_mem_per_block_static"),
        shared_dynamic_bytes=whole("launch__shared_mem_per_block_dynamic"),
        occupancy=percent / 100 if percent is not None and 0 <= percent <= 100 else None,
        limiter=min(limits, key=lambda word: limits[word]) if limits else None,
    )


def _unit(name: str, units: Mapping[str, str]) -> str:
    return units.get(name) or spelling.unit_of(name)
