"""Build a profile from launches counted by Nsight Compute: timers, metrics, user events.

Sums (`*.sum`) become metrics: taupy's counters (`ncu_counters.py`), all others under their own
names. Other values (rates, percentages, averages) must not be added up, so they become user events
with minimum, maximum and mean. Differing launches of a kernel have separate call paths
(`alike.py`). `ncu_csv.py`, `ncu_rep.py` and `nvprof.py` read the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taupy.catalog import spelling
from taupy.catalog.counters import BY_NAME, COUNTED_LAUNCHES
from taupy.formats import limits
from taupy.formats.alike import Groups
from taupy.formats.nsight import ncu_counters
from taupy.formats.nsight.ncu_peaks import Peaks
from taupy.formats.nsight.summed_tables import least_squares
from taupy.model.gpu import Configuration, Device, Extent, Launch
from taupy.model.kernel_names import kernel_timer
from taupy.model.launch_counts import LaunchCounts
from taupy.model.profile import TIME, Metric, Profile, Thread, Timer
from taupy.model.work import PER_SECOND
from taupy.units import listing, several

_FACTS: Final = ("launch__", "device__", "c2clink__", "nvlink__", "numa__", "profiler__")


_TENSOR_REMEDY: Final = (
    "the tensor pipe's instructions tell neither their shape nor how many are HFMA2; count "
    "operations with: ncu --metrics regex:sm__ops_path_tensor_src_.*, or state the flop with: "
    "taupy roofline --flop"
)


@dataclass(slots=True)
class Counted:
    """One launch as measured by a profiler, or the mean of several.

    Attributes:
        values: values by metric, in base units (B, ns, Hz, 1); missing values are absent.
        units: units of the values, by metric.
        absent: metrics that the file lists without a value (`n/a`).
        sums: further metrics that already are sums over the launch.
        count: number of launches of which it is the mean.
        ranges: smallest and largest value of a metric, if it is the mean of several launches.
        squares_ns2: sum of their squared durations, if known.
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
    """Collects launches, in the order in which they ran, and builds a profile."""

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

    def add(self, launch: Counted) -> None:
        """Add one launch.

        Raises:
            OverflowError: there are implausibly many kernels and metrics.
        """
        self.count += launch.count
        if len(self._groups) * len(self._units) > limits.NCU_CELLS:
            size = f"{len(self._groups)} groups of launches with {len(self._units)} metrics"
            raise OverflowError(f"{size}: more than any program has")
        thread = self._thread(launch)
        timer = self._kernels.get(launch.kernel)
        if timer is None:
            timer = self._kernels[launch.kernel] = kernel_timer(launch.kernel)
        counters = ncu_counters.counters(launch.values, launch.capability)
        if launch.failed:
            self.failed += launch.count
        elif counters.time_ns is None:
            self.untimed += launch.count
        counted = self._counted(launch, counters) if launch.values or launch.sums else {}
        group = self._groups.group(
            thread,
            timer,
            launch.grid,
            launch.block,
            counters.time_ns,
            _work(counted, counters.per_second),
        )
        group.add(_launch(launch, counters.time_ns))
        self._note_device(thread, launch)
        self._absent.update(launch.absent - launch.values.keys())
        if not counted:
            return
        group.add_values({name: _whole(name, launch.count * counted[name]) for name in counted})
        for name, value in launch.values.items():
            if not _is_sum(name) and not _is_fact(name):
                unit = _unit(name, launch.units)
                group.add_sample(name, unit, value, launch.count, launch.ranges.get(name))
        for name, value in counters.per_second.items():
            unit = f"{BY_NAME[name].unit}/s"
            group.add_sample(f"{name}{PER_SECOND}", unit, value, launch.count)

    def counts(self, launch: Counted) -> LaunchCounts:
        """A single launch, to be joined to a trial; without values if it failed."""
        values: dict[str, float] = {}
        if (launch.values or launch.sums) and not launch.failed:
            counters = ncu_counters.counters(launch.values, launch.capability)
            counted = self._counted(launch, counters)
            values = {name: _whole(name, counted[name]) for name in counted}
        timer = kernel_timer(launch.kernel)
        node = self._nodes.setdefault(launch.process, len(self._nodes))
        short = timer.short or timer.name
        return LaunchCounts(
            kernel=timer.name,
            short=short,
            node=node,
            device=launch.device,
            grid=launch.grid,
            block=launch.block,
            values=values,
        )

    @property
    def units(self) -> dict[str, str]:
        """The units of the metrics so far."""
        return self._units

    def _counted(self, launch: Counted, counters: ncu_counters.Counters) -> dict[str, float]:
        """taupy's counters, then all other sums that are not equal to one of them."""
        values: dict[str, float] = {**counters.sums, COUNTED_LAUNCHES: 1}
        self.by_rates += counters.from_rates
        self.rates_alone += bool(counters.per_second)
        self.handed_out += counters.handed_out
        self.tensor_unknown += counters.tensor_unknown
        ours = ncu_counters.of_ours_alone(frozenset(counters.sums))
        for name in counters.sums:
            self._units[name] = BY_NAME[name].unit
        self._units[COUNTED_LAUNCHES] = "launch"
        others = {
            **{
                name: launch.values[name]
                for name in launch.values
                if _is_sum(name) and name not in ours
            },
            **launch.sums,
        }
        for name, value in others.items():
            if name not in self._units and len(self._units) >= limits.NCU_METRICS:
                self.left_out += 1
                continue
            values[name] = value
            counter = BY_NAME.get(name)
            self._units.setdefault(name, counter.unit if counter else _unit(name, launch.units))
        return values

    def _thread(self, launch: Counted) -> Thread:
        node = self._nodes.setdefault(launch.process, len(self._nodes))
        key = (node, launch.device, launch.context, launch.stream)
        thread = self._streams.get(key)
        if thread is None:
            number = sum(1 for other in self._streams if other[:2] == key[:2])
            name = f"stream {launch.stream}"
            if any(other[2] != launch.context for other in self._streams if other[:2] == key[:2]):
                name += f" (CUDA context {launch.context})"
            thread = Thread(node, 1 + launch.device, number, "stream", name, launch.stream)
            self._streams[key] = thread
        return thread

    def _note_device(self, thread: Thread, launch: Counted) -> None:
        name = launch.device_name or launch.texts.get("device__attribute_display_name", "")
        key = (thread.node, thread.context - 1)
        earlier = self._devices.get(key, ("", ""))
        self._devices[key] = (earlier[0] or name, earlier[1] or launch.capability)
        self._peaks.setdefault(key, Peaks()).add(launch.values)

    def profile(self, application: str, metadata: dict[str, str], when: float) -> Profile:
        """All launches, summed by kernel, and by configuration and duration if these differ.

        Args:
            when: start in seconds since the epoch: the file's own time, as ncu does not write one.
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
            duration_ns=sum(int(thread.tree.inclusive["time"][0]) for thread in threads),
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
        """Notes on values that were omitted or estimated."""
        notes = []
        if self.failed:
            notes.append(
                f"{self.failed} of {self.count} launches failed: nothing was counted there"
            )
        if self.left_out:
            notes.append(
                f"{several(self.left_out, 'value')} of metrics beyond the first "
                f"{limits.NCU_METRICS} left out"
            )
        if self.untimed:
            notes.append(f"{self.untimed} of {self.count} launches without a duration: untimed")
        if self.rates_alone:
            notes.append(
                f"{several(self.rates_alone, 'launch')} with rates only (flop/s, B/s): intensity "
                "and performance are known; flop, bytes and share of the time are not; "
                "sections of the same launches in other files join them when imported together"
            )
        if self.by_rates:
            notes.append(
                f"sums of {several(self.by_rates, 'launch')}: computed from rates and the duration"
            )
        if self.handed_out:
            notes.append(
                f"bytes_l1 and bytes_l2 of {several(self.handed_out, 'launch')}: data delivered by "
                "the caches, as in NVIDIA's rooflines, because requested bytes were not counted"
            )
        if self.tensor_unknown:
            notes.append(
                f"flop_tensor of {self.tensor_unknown} launches is unknown: {_TENSOR_REMEDY}"
            )
        if self._absent:
            names = listing((name for name, _ in self._absent.most_common()), 6)
            notes.append(f"not counted (n/a): {names}")
        return notes


def _launch(counted: Counted, time_ns: float | None) -> Launch:
    """The known durations in whole nanoseconds, with the resources that a launch needs."""
    if time_ns is None:
        return Launch(
            count=counted.count, untimed=counted.count, configuration=_configuration(counted)
        )
    shortest, longest = counted.ranges.get(ncu_counters.DURATION, (time_ns, time_ns))
    squares = counted.squares_ns2
    if squares is None:
        squares = least_squares(counted.count, round(time_ns), round(shortest), round(longest))
    return Launch(
        count=counted.count,
        time_ns=round(time_ns * counted.count),
        minimum_ns=round(shortest),
        maximum_ns=round(longest),
        sum_squares_ns2=squares,
        configuration=_configuration(counted),
    )


def _work(counted: Mapping[str, float], per_second: Mapping[str, float]) -> frozenset[str]:
    """The counters of flop and bytes that it has: launches that differ here are not grouped."""
    sums = (name for name in counted if name in BY_NAME and name.startswith(("flop", "bytes")))
    return frozenset((*sums, *(name + PER_SECOND for name in per_second)))


def _is_fact(name: str) -> bool:
    """Whether it is a property of the launch or the machine rather than a measurement."""
    return name.startswith(_FACTS) and name != "launch__waves_per_multiprocessor"


def _whole(name: str, value: float) -> int | float:
    """A count as an integer, unless its sums might be too large; times in whole nanoseconds."""
    if name == "counted_time":
        return round(value)
    return int(value) if value == int(value) and value < limits.NCU_WHOLE else float(value)


def _is_sum(name: str) -> bool:
    return name.endswith(".sum")


def _configuration(counted: Counted) -> Configuration:
    values = counted.values

    def whole(name: str) -> int | None:
        value = values.get(name)
        return None if value is None or not 0 <= value < 1 << 40 else int(value)

    percent = values.get("sm__maximum_warps_per_active_cycle_pct")
    limits = {
        word: values[f"launch__occupancy_limit_{word}"]
        for word in ("registers", "shared_mem", "warps", "blocks")
        if f"launch__occupancy_limit_{word}" in values
    }
    return Configuration(
        grid=counted.grid,
        block=counted.block,
        registers=whole("launch__registers_per_thread"),
        shared_static_bytes=whole("launch__shared_mem_per_block_static"),
        shared_dynamic_bytes=whole("launch__shared_mem_per_block_dynamic"),
        occupancy=percent / 100 if percent is not None and 0 <= percent <= 100 else None,
        limiter=min(limits, key=lambda word: limits[word]) if limits else None,
    )


def _unit(name: str, units: Mapping[str, str]) -> str:
    return units.get(name) or spelling.unit_of(name)
