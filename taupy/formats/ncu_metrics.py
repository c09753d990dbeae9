"""What Nsight Compute counted of kernels, made into metrics and user events of streams.

Sums (`*.sum`) are metrics: our counters by the catalogue's spelling, all others under
their own names. What is no sum (rates, percentages, averages) would be nonsense when
added up, and becomes a user event with minimum, maximum and mean. Reading files is
`ncu_csv.py`'s and `ncu_rep.py`'s.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taupy.catalog import spelling
from taupy.catalog.counters import BY_NAME, COUNTED_LAUNCHES, COUNTERS
from taupy.formats.gpu_records import kernel_timer
from taupy.formats.ncu_peaks import Peaks
from taupy.formats.slices import LONGEST_NS
from taupy.model.gpu import Device, Extent, Launch
from taupy.model.launch_counts import LaunchCounts
from taupy.model.profile import TIME, Metric, Profile, Thread, Timer, UserEvent
from taupy.model.streams import StreamBuilder

_DURATION: Final = "gpu__time_duration.sum"
_CYCLES: Final = "sm__cycles_elapsed.avg"

# Bytes of a level where they were not counted as such: the first sum that the file has.
_BYTES: Final = {
    "bytes_dram": (
        (("dram__bytes_read.sum", 1), ("dram__bytes_write.sum", 1)),
        (("dram__bytes_op_read.sum", 1), ("dram__bytes_op_write.sum", 1)),
        (("dram__sectors_read.sum", 32), ("dram__sectors_write.sum", 32)),
        (("dram__sectors_op_read.sum", 32), ("dram__sectors_op_write.sum", 32)),
    ),
    "bytes_l2": ((("lts__t_sectors.sum", 32),),),
    "bytes_l1": ((("l1tex__t_sectors.sum", 32),),),
}

# What NVIDIA's hierarchical rooflines take instead: what the caches hand out.
_HANDED_OUT: Final = {
    "bytes_l2": ("derived__lts__lts2xbar_bytes.sum",),
    "bytes_l1": (
        "derived__l1tex__lsu_writeback_bytes_mem_lg.sum",
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum",
    ),
}

_RATE: Final = re.compile(
    r"(?P<unit>\w+?)__(?P<rest>[^.]+)\.sum\.(?P<per>per_second|per_cycle_elapsed)"
)

_MMA_SHAPE: Final = re.compile(r"(?<![0-9])(884|1688|16816|161616|16832|16864)(?![0-9])")

MOST_METRICS: Final = 2000
"""Metrics of one file; all sections of ncu together have some 800."""

MOST_CELLS: Final = 8_000_000
"""Kernels times metrics."""

_FACTS: Final = ("launch__", "device__", "c2clink__", "nvlink__", "numa__", "profiler__")

_LARGEST_WHOLE: Final = 1 << 50

_HFMA: Final = "sm__sass_thread_inst_executed_op_hfma_pred_on.sum"

_AMPERE: Final = re.compile(r"\bampere_|cutlass_80_|sm8\d")


@dataclass(slots=True)
class Counted:
    """One launch as Nsight Compute saw it.

    Attributes:
        values: by metric, in base units (B, ns, Hz, 1); a value that is none is not there.
        units: of them.
    """

    kernel: str
    process: str = ""
    device: int = 0
    capability: str = ""
    context: int = 0
    stream: int = 0
    grid: Extent | None = None
    block: Extent | None = None
    values: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    failed: bool = False


class _Values:
    """Statistics of one metric that is no sum."""

    __slots__ = ("count", "largest", "smallest", "squares", "total", "unit")

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.count = 0
        self.smallest, self.largest = float("inf"), float("-inf")
        self.total = self.squares = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)
        self.total += value
        self.squares += value * value


class CountedLaunches:
    """Launches on their way to a profile, in the order in which they ran."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self._builder = StreamBuilder(self.timers)
        self._kernels: dict[str, Timer] = {}
        self._nodes: dict[str, int] = {}
        self._streams: dict[tuple[int, int, int, int], Thread] = {}
        self._events: dict[tuple[Thread, int, str], _Values] = {}
        self._units: dict[str, str] = {}
        self._devices: dict[tuple[int, int], tuple[str, str]] = {}
        self._peaks: dict[tuple[int, int], Peaks] = {}
        self._like_ampere = False
        self.count = 0
        self.failed = 0
        self.untimed = 0
        self.tensor_by_instructions = 0
        self.by_rates = 0
        self.handed_out = 0
        self.left_out = 0

    def add(self, one: Counted) -> None:
        """Count one launch.

        Raises:
            OverflowError: there are more kernels and metrics than any program has.
        """
        self.count += 1
        if len(self._kernels) * len(self._units) > MOST_CELLS:
            said = f"{len(self._kernels)} kernels with {len(self._units)} metrics"
            raise OverflowError(f"{said}: more than any program has")
        self._like_ampere = self._like_ampere or _AMPERE.search(one.kernel) is not None
        thread = self._thread(one)
        timer = self._kernels.get(one.kernel)
        if timer is None:
            timer = self._kernels[one.kernel] = kernel_timer(one.kernel)
        time_ns = _time_ns(one.values)
        whole = 0 if time_ns is None else round(time_ns)
        if one.failed:
            self.failed += 1
        elif time_ns is None:
            self.untimed += 1
        square = float(whole * whole)
        launch = Launch(
            0, 1, whole, whole, whole, square, int(time_ns is None), one.grid, one.block,
            *_resources(one.values),
        )  # fmt: skip
        row = self._builder.add(thread, None, timer, launch)
        self._note_device(thread, one)
        if not one.values:
            return
        found = self._counters(one, None if time_ns is None else whole)
        found[COUNTED_LAUNCHES] = 1
        self._units[COUNTED_LAUNCHES] = "launch"
        self._builder.add_values(thread, row, found)
        for name, value in one.values.items():
            if not _is_sum(name) and not _is_fact(name):
                key = (thread, row, name)
                values = self._events.get(key)
                if values is None:
                    values = self._events[key] = _Values(_unit(name, one.units))
                values.add(value)

    def counts(self, one: Counted) -> LaunchCounts:
        """One launch by itself, for joining a trial; without values if it failed."""
        found: dict[str, float] = {}
        if one.values and not one.failed:
            time_ns = _time_ns(one.values)
            found = self._counters(one, None if time_ns is None else round(time_ns))
            found[COUNTED_LAUNCHES] = 1
            self._units[COUNTED_LAUNCHES] = "launch"
        timer = kernel_timer(one.kernel)
        node = self._nodes.setdefault(one.process, len(self._nodes))
        short = timer.short or timer.name
        return LaunchCounts(timer.name, short, node, one.device, one.grid, one.block, found)

    @property
    def units(self) -> dict[str, str]:
        """Of the metrics so far."""
        return self._units

    def _counters(self, one: Counted, time_ns: int | None) -> dict[str, float]:
        """Our counters, then all sums that are not one of ours alone."""
        counted = one.values
        found = _measured(counted)
        if time_ns is not None and (derived := _from_rates(counted, time_ns)):
            counted = {**derived, **counted}
            known, found = found, _measured(counted)
            self.by_rates += len(found) > len(known)
        for level, ways in _BYTES.items():
            for parts in ways if level not in found else ():
                if all(name in counted for name, _ in parts):
                    found[level] = sum(counted[name] * weight for name, weight in parts)
                    break
        handed_out = {
            level: counted[name]
            for level, names in _HANDED_OUT.items()
            for name in names
            if level not in found and name in counted
        }
        found |= handed_out
        self.handed_out += bool(handed_out)
        if "flop_tensor" not in found:
            flop = self._tensor_flop(one, counted)
            if flop is not None:
                found["flop_tensor"] = flop
                self.tensor_by_instructions += flop > 0
        if time_ns is not None:
            found["counted_time"] = time_ns
        for name in found:
            self._units[name] = BY_NAME[name].unit
        ours = _alone(frozenset(found))
        for name, value in one.values.items():
            if _is_sum(name) and name not in ours:
                if name not in self._units and len(self._units) >= MOST_METRICS:
                    self.left_out += 1
                    continue
                found[name] = value
                self._units.setdefault(name, _unit(name, one.units))
        return {name: _plain(value) for name, value in found.items()}

    def _tensor_flop(self, one: Counted, counted: Mapping[str, float]) -> float | None:
        """By instructions and their shape, where operations were not counted.

        The tensor pipe of Ampere and later also runs HFMA2, which is no matrix product.

        Source:
            operations a warp instruction: 2mnk of its shape. HMMA.884 on Volta 512; 1688 on
            Turing 2048; 16816 on Ampere and Ada 4096, checked against GEMMs of known size.
        """
        pipe = counted.get(
            "sm__inst_executed_pipe_tensor.sum", counted.get("sm__inst_executed_pipe_tensor_v2.sum")
        )
        by_type = [
            counted.get(f"{unit}__inst_executed_pipe_tensor_op_{kind}.sum")
            for kind in ("hmma", "dmma")
            for unit in ("sm", "smsp")
        ]
        matrix = [value for value in by_type if value is not None]
        if not matrix and pipe is None:
            return None
        if matrix:
            products = sum(matrix)
        else:
            assert pipe is not None
            hfma = counted.get(_HFMA, counted.get(_HFMA.replace("sm__", "smsp__")))
            if hfma is None and pipe:
                return None  # how much of the pipe's work is HFMA2 cannot be told
            products = max(0.0, pipe - math.ceil((hfma or 0) / 32))
        if not products:
            return 0.0
        each = _operations(one, self._like_ampere)
        return None if each is None else products * each

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
        name = one.texts.get("device__attribute_display_name", "")
        key = (thread.node, thread.context - 1)
        known = self._devices.get(key, ("", ""))
        self._devices[key] = (known[0] or name, known[1] or one.capability)
        self._peaks.setdefault(key, Peaks()).add(one.values)

    def profile(self, application: str, metadata: dict[str, str], when: float) -> Profile:
        """All launches, summed up by kernel and configuration.

        Args:
            when: seconds since the epoch; files of ncu do not say it, so that of the file.
        """
        for (thread, row, name), one in self._events.items():
            event = UserEvent(name, one.unit, one.count, one.smallest, one.largest,
                              one.total / one.count, one.squares, row)  # fmt: skip
            self._builder.add_user_events(thread, [event])
        threads = self._builder.threads()
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
                f"{self.left_out} values of metrics beyond the first {MOST_METRICS} left out"
            )
        if self.untimed:
            found.append(
                f"{self.untimed} of {self.count} launches have no duration: they are untimed"
            )
        if self.by_rates:
            found.append(f"sums of {self.by_rates} launches were made of rates and the duration")
        if self.handed_out:
            found.append(
                f"bytes_l1 and bytes_l2 of {self.handed_out} launches: what the caches handed out, "
                "as in NVIDIA's rooflines, for lack of what was asked of them"
            )
        if self.tensor_by_instructions:
            found.append(
                f"flop_tensor of {self.tensor_by_instructions} launches: instructions of the "
                "tensor pipe less HFMA2, times the operations of their shape"
            )
        return found


def _is_fact(name: str) -> bool:
    """Is it a property of the launch or the machine rather than something measured?"""
    return name.startswith(_FACTS) and name != "launch__waves_per_multiprocessor"


def _plain(value: float) -> int | float:
    """A count as a whole number, as long as sums of it fit one."""
    return int(value) if value == int(value) and value < _LARGEST_WHOLE else float(value)


def _alike(metric: str) -> tuple[str, ...]:
    """The metric, and the one that has the same value: sums of sm and smsp are equal."""
    unit, _, rest = metric.partition("__")
    if unit in ("sm", "smsp") and rest.endswith(".sum"):
        return metric, f"{'smsp' if unit == 'sm' else 'sm'}__{rest}"
    return (metric,)


_SPELLED: Final = frozenset(
    alike
    for counter in COUNTERS
    for text in counter.spellings
    for term in spelling.terms(text)
    for alike in _alike(term.metric)
)
"""All metrics that our counters are made of."""


def _measured(counted: Mapping[str, float]) -> dict[str, float]:
    """Our counters that can be made of these values."""
    return {
        recipe.name: value
        for recipe in _recipes(frozenset(_SPELLED.intersection(counted)))
        if (value := recipe.value(counted)) is not None
    }


@functools.lru_cache(maxsize=1024)
def _recipes(names: frozenset[str]) -> tuple[spelling.Recipe, ...]:
    """How our counters are made of these metrics; sums over SMs and their parts are equal."""
    found = []
    for counter in COUNTERS:
        for text in counter.spellings:
            terms = [
                spelling.Term(term.weight, name)
                for term in spelling.terms(text)
                if (name := next((one for one in _alike(term.metric) if one in names), None))
            ]
            if len(terms) == len(spelling.terms(text)):
                found.append(spelling.Recipe(counter.name, counter.unit, tuple(terms)))
                break
    return tuple(found)


def _is_sum(name: str) -> bool:
    return name.endswith(".sum")


@functools.lru_cache(maxsize=1024)
def _alone(found: frozenset[str]) -> set[str]:
    """PerfWorks sums that are one of our counters, as it is."""
    names: set[str] = set()
    for name in found:
        for one in BY_NAME[name].spellings:
            terms = spelling.terms(one)
            if len(terms) == 1 and terms[0].weight == 1:
                names.update(_alike(terms[0].metric))
    return names


def _time_ns(values: Mapping[str, float]) -> float | None:
    """Its duration, or cycles over their rate; the two agree to 1e-6."""
    found = values.get(_DURATION)
    if found is None:
        cycles, rate = values.get(_CYCLES), values.get(f"{_CYCLES}.per_second")
        found = cycles / rate * 1e9 if cycles is not None and rate else None
    return found if found is not None and 0 <= found < LONGEST_NS else None


def _from_rates(values: Mapping[str, float], time_ns: float) -> dict[str, float]:
    """Sums of what the file gives as rates only, as NVIDIA's roofline sections do."""
    found = {}
    for name, value in values.items():
        rate = _RATE.fullmatch(name)
        if rate is None:
            continue
        unit = rate["unit"]
        total = f"{unit}__{rate['rest']}.sum"
        if total in values or "cycles_elapsed" in total:
            continue
        if rate["per"] == "per_second":
            found[total] = value * time_ns / 1e9
        else:
            hertz = values.get(f"{unit}__cycles_elapsed.avg.per_second")
            if hertz is None and unit in ("sm", "smsp"):
                other = "smsp" if unit == "sm" else "sm"
                hertz = values.get(f"{other}__cycles_elapsed.avg.per_second")
            if hertz is not None:
                found[total] = value * hertz * time_ns / 1e9
    return found


def _operations(one: Counted, like_ampere: bool) -> int | None:
    """Operations of one warp instruction of a matrix product; None where not known."""
    shape = _MMA_SHAPE.search(one.kernel)
    tf32 = "tf32" in one.kernel
    major, _, minor = one.capability.partition(".")
    if not major:
        major, minor = ("8", "0") if like_ampere else ("", "")
    if major == "7" and minor in ("0", "2"):
        return 512
    if major == "7":
        return 512 if shape and shape[1] == "884" else 2048
    if major == "8":
        if shape and shape[1] == "884":
            return 512
        return 2048 if tf32 or (shape and shape[1] == "1688") else 4096
    return None


class _Resources(NamedTuple):
    """What a launch asks of a multiprocessor, as `Launch` has it."""

    registers: int | None
    shared_static_bytes: int | None
    shared_dynamic_bytes: int | None
    local_bytes: int | None
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
        whole("launch__registers_per_thread"),
        whole("launch__shared_mem_per_block_static"),
        whole("launch__shared_mem_per_block_dynamic"),
        None,
        percent / 100 if percent is not None and 0 <= percent <= 100 else None,
        min(limits, key=lambda word: limits[word]) if limits else None,
    )


def _unit(name: str, units: Mapping[str, str]) -> str:
    return units.get(name) or spelling.unit_of(name)
