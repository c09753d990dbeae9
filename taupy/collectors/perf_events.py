"""Counters of the CPU: which ones this machine has, and whether they are reliable.

Everything is tested before the program starts, in the launcher, which becomes the program and
therefore has the same permissions. Events are opened as one group, so that all count at once. They
count known work; a metric with an error of more than one per cent, or a group that did not count
all the time, is not used. The engine reads and attributes the remaining counters
(`_native/counters.h`).
"""

from __future__ import annotations

import errno
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from taupy.catalog import cpu_events
from taupy.catalog.cpu_events import HARDWARE, RAW, Cpu, CpuMetric

OFF_AT_MOST = 0.01
"""The largest relative error of a counter for known work."""

READING_AT_MOST_NS = 500.0
"""Counters that take longer to read are not read at every call, unless that is requested."""

METRICS_AT_MOST = 4
EVENTS_AT_MOST = 8
EVENTS_IN_A_GUEST = 3
"""With more events at once, virtual AMD counters gave values that were wrong by 2**47."""

UNBELIEVABLE = 1 << 46

_ROUNDS = 30
_ITERATIONS = 20_000  # of a loop of ten instructions
_LINES = 1 << 16  # 4 MiB
_PAGES = 256


class PerfEvent(NamedTuple):
    """An event that the engine opens; `metric`: the position of the metric that it adds to."""

    type: int
    config: int
    weight: int
    metric: int


At = Literal["auto", "calls", "regions"]
Try = Callable[[Sequence[tuple[int, int, int, int]], str, int, int, bool], dict[str, Any] | None]


class Counter(NamedTuple):
    """A counter in lists. `status` is "ok", or the reason why it cannot be counted."""

    name: str
    unit: str
    description: str
    status: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The counters that the engine reads.

    Attributes:
        metrics: (name, unit) of each metric.
        at_calls: read at every call; else at regions and phases only.
        by_rdpmc: the kernel lets the program read its counters directly.
        whole: all threads can also be counted together, so that no work of native threads is
            lost.
        reading_ns: cost of reading all counters once.
        notes: what was left out, degraded or chosen, one line each, for users.
        facts: metadata of the trial.
    """

    events: list[PerfEvent] = field(default_factory=list)
    metrics: list[tuple[str, str]] = field(default_factory=list)
    at_calls: bool = False
    by_rdpmc: bool = False
    whole: bool = False
    reading_ns: float = 0.0
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def engine_options(self) -> dict[str, Any]:
        """Options of the compiled engine; {} if nothing is to be counted."""
        if not self.events:
            return {}
        return {
            "counters": [tuple(event) for event in self.events],
            "counter_metrics": self.metrics,
            "counters_at_calls": int(self.at_calls),
            "counters_by_rdpmc": int(self.by_rdpmc),
            "counters_whole": int(self.whole),
        }


def this_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The processor of this machine."""
    try:
        return cpu_events.cpu_of(cpuinfo.read_text("utf-8", "replace"))
    except OSError:
        return Cpu()


def _native_try() -> Try | None:
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine.counters_try


def available(cpu: Cpu | None = None, try_: Try | None = None) -> list[Counter]:
    """All named metrics of the CPU, each tried separately."""
    cpu = cpu or this_cpu()
    try_ = try_ or _native_try()
    counters = []
    for name in cpu_events.NAMES:
        metric = cpu_events.metric(name, cpu)
        prepared = prepare([name], cpu=cpu, try_=try_)
        status = "ok" if prepared.metrics else prepared.notes[0].removeprefix(f"{name}: ")
        counters.append(Counter(name, metric.unit, metric.description, status))
    return counters


def prepare(
    names: Sequence[str],
    at: At = "auto",
    *,
    room: int = METRICS_AT_MOST,
    cpu: Cpu | None = None,
    try_: Try | None = None,
) -> Prepared:
    """Find out which of these metrics can be counted here, and how. A metric that cannot be counted
    gives a note, not an error.

    Args:
        names: metrics of the CPU, as in `catalog/cpu_events.py`, in order of importance.
        at: when they are read. "auto": at every call if a reading is cheap enough.
        room: maximum number of metrics of the engine.
        cpu: the processor (default: this machine's).
        try_: the engine's `counters_try`; set by tests.

    Raises:
        KeyError: a name that is not a metric of the CPU.
    """
    cpu = cpu or this_cpu()
    try_ = try_ or _native_try()
    notes: list[str] = []
    wanted = [cpu_events.metric(name, cpu) for name in dict.fromkeys(names)]
    if try_ is None:
        what = ", ".join(metric.name for metric in wanted)
        notes.append(f"{what}: counters need the compiled engine (see `taupy doctor`)")
        return Prepared(notes=notes)
    for metric in wanted:
        if metric.missing:
            notes.append(f"{metric.name}: {metric.missing}")
    wanted = _fitting([metric for metric in wanted if metric.events], cpu, room, notes)
    tested: dict[str, str] = {}
    while wanted:
        dropped = _failing(wanted, cpu, try_, notes, tested)
        if not dropped:
            break
        wanted = [metric for metric in wanted if metric.name not in dropped]
    if not wanted:
        return Prepared(notes=notes)
    return _described(wanted, at, cpu, try_, notes, tested)


def _events(metrics: Sequence[CpuMetric]) -> list[PerfEvent]:
    return [
        PerfEvent(event.type, event.config, event.weight, number)
        for number, metric in enumerate(metrics)
        for event in metric.events
    ]


def _on_processor(metric: CpuMetric) -> int:
    """The number of its events that occupy a counter of the processor."""
    return sum(event.type in (HARDWARE, RAW) for event in metric.events)


def _fitting(metrics: list[CpuMetric], cpu: Cpu, room: int, notes: list[str]) -> list[CpuMetric]:
    """The first of the metrics that can be counted at once."""
    most = _most_events(cpu)
    taken: list[CpuMetric] = []
    left: list[str] = []
    events = 0
    for metric in metrics:
        more = _on_processor(metric)
        if len(taken) < room and events + more <= most:
            taken.append(metric)
            events += more
        else:
            left.append(metric.name)
    if left:
        where = " in this virtual machine" if most == EVENTS_IN_A_GUEST else ""
        notes.append(
            f"{', '.join(left)}: not counted, since at most {room} metrics of {most} events can be "
            f"trusted at once{where}; count them in a run of their own, with --merge-into"
        )
    return taken


def _most_events(cpu: Cpu) -> int:
    """How many events of the processor can be counted reliably at once."""
    return EVENTS_IN_A_GUEST if cpu.virtual and cpu.vendor == "AuthenticAMD" else EVENTS_AT_MOST


def _fits_twice(metrics: list[CpuMetric], cpu: Cpu, try_: Try) -> bool:
    """Whether each event can be counted twice at the same time, without multiplexing."""
    events = _events(metrics)
    if 2 * len(events) > EVENTS_AT_MOST:
        return False
    if 2 * sum(map(_on_processor, metrics)) > _most_events(cpu):
        return False
    try:
        answer = try_(events + events, "scalar", _ITERATIONS, _ROUNDS, False)
    except OSError:
        return False
    if answer is None:  # there are no test loops for this processor
        return False
    values = [value for row in answer["values"] for value in row]
    return bool(answer["enabled_ns"] == answer["running_ns"] and max(values) < UNBELIEVABLE)


def _failing(
    metrics: list[CpuMetric], cpu: Cpu, try_: Try, notes: list[str], tested: dict[str, str]
) -> set[str]:
    """Names of the metrics that cannot be opened together with the others, or fail the test;
    `tested` receives the results of those that pass."""
    events = _events(metrics)
    probe = _Probe(metrics, events, notes, tested)
    try:
        try_(events, "none", 0, 1, True)  # no work may test any of them
        for work in ("scalar", "fma256", "fma512", "lines", "pages"):
            if failed := _failing_at(work, probe, try_):
                return failed
    except OSError as problem:
        if not isinstance(problem.filename, int):
            notes.append(f"{', '.join(metric.name for metric in metrics)}: {problem}")
            return {metric.name for metric in metrics}
        metric = metrics[events[problem.filename].metric]
        alike = {metric.name}
        none_at_all = problem.errno in _ABSENT and not _has_pmu()
        if _on_processor(metric) and (problem.errno in _FORBIDDEN or none_at_all):
            alike = {other.name for other in metrics if _on_processor(other)}
        notes.append(f"{', '.join(sorted(alike))}: {why_not(problem, cpu)}")
        return alike
    return set()


@dataclass(frozen=True, slots=True)
class _Probe:
    """Metrics that are counted together, their events, and the results of their tests.

    Attributes:
        notes: receives a line for each metric that fails.
        tested: receives results by metric and work.
    """

    metrics: list[CpuMetric]
    events: list[PerfEvent]
    notes: list[str]
    tested: dict[str, str]


def _failing_at(work: str, probe: _Probe, try_: Try) -> set[str]:
    count = {"lines": _LINES, "pages": _PAGES}.get(work, _ITERATIONS)
    ranges = {metric.name: _expected_range(metric.name, work, count) for metric in probe.metrics}
    if not any(ranges.values()):
        return set()
    for rdpmc in (False, True):  # read() is needed in any case, for regions of other threads
        answer = try_(probe.events, work, count, 5 if work == "lines" else _ROUNDS, rdpmc)
        if answer is None or answer["rdpmc"] is not rdpmc:
            break
        if failed := _doubted(answer, work, probe, ranges):
            return failed
    return set()


def _doubted(
    answer: dict[str, Any],
    work: str,
    probe: _Probe,
    ranges: dict[str, tuple[float, int, float] | None],
) -> set[str]:
    """Names of the metrics that known work shows to be wrong."""
    notes = probe.notes
    rounds: list[list[int]] = answer["values"]
    on_processor = {metric.name for metric in probe.metrics if _on_processor(metric)}
    if answer["enabled_ns"] != answer["running_ns"]:
        notes.append(
            f"{', '.join(sorted(on_processor))}: not counted, since others use the processor's "
            "counters, too (the kernel's watchdog for one: sysctl kernel.nmi_watchdog=0), and "
            "these would count part of the time only"
        )
        return on_processor
    if any(value >= UNBELIEVABLE for values in rounds for value in values):
        notes.append(
            f"{', '.join(sorted(on_processor))}: not counted, since this machine's counters gave "
            "impossible values (a fault of virtual counters)"
        )
        return on_processor
    for number, metric in enumerate(probe.metrics):
        limits = ranges[metric.name]
        if limits is None:
            continue
        low, expected, high = limits
        sums = [
            sum(
                value * event.weight
                for value, event in zip(values, probe.events, strict=True)
                if event.metric == number
            )
            for values in rounds
        ]
        got = statistics.median(sums)
        if not low <= got <= high:
            notes.append(
                f"{metric.name}: not counted, since known work of {expected} {metric.unit} "
                f"({work}) was counted as {got:.0f}" + (" by rdpmc" if answer["rdpmc"] else "")
            )
            return {metric.name}
        if expected:
            probe.tested[f"{metric.name} {work}"] = f"{got / expected:.4f}"
    return set()


def _expected_range(name: str, work: str, count: int) -> tuple[float, int, float] | None:
    """(least, expected, most) that a metric may give for known work; None if it is not known.

    An expected 0 stands for a value that is merely bounded.
    """
    loops = {"scalar": 8, "fma256": 64, "fma512": 128}  # flop an iteration
    if name == "flop" and work in loops:
        expected = loops[work] * count
    elif name == "instructions" and work in loops:
        expected = 10 * count
    elif (name == "branches" and work in loops) or (name == "page_faults" and work == "pages"):
        expected = count
    elif name == "bytes_dram_read" and work == "lines":
        # Includes other processes' traffic and prefetching: measured 1.00 to 1.03.
        return 0.9 * 64 * count, 64 * count, 1.15 * 64 * count
    elif name == "cycles" and work in loops:
        return 0.5 * count, 0, 1000.0 * count
    elif name in ("branch_misses", "cache_misses", "cache_references") and work in loops:
        return 0.0, 0, 1.0 * count
    else:
        return None
    return (1 - OFF_AT_MOST) * expected, expected, (1 + OFF_AT_MOST) * expected


def _described(
    metrics: list[CpuMetric],
    at: At,
    cpu: Cpu,
    try_: Try,
    notes: list[str],
    tested: dict[str, str],
) -> Prepared:
    events = _events(metrics)
    whole = _fits_twice(metrics, cpu, try_)
    answer = try_(events, "none", 0, 1, True) or {}
    by_rdpmc, reading_ns = bool(answer.get("rdpmc")), float(answer.get("ns", 0.0))
    cheap = by_rdpmc and reading_ns <= READING_AT_MOST_NS
    at_calls = at == "calls" or (at == "auto" and cheap)
    names = ", ".join(metric.name for metric in metrics)
    how = "rdpmc" if by_rdpmc else "read()"
    if at == "auto" and not cheap:
        own = [metric.name for metric in metrics if not _on_processor(metric)]
        if by_rdpmc:
            why = "reading them is slow in this virtual machine"
        elif own and len(own) < len(metrics):
            why = (
                f"{', '.join(own)} is counted by the kernel, and the others are read together "
                "with it by a system call"
            )
        else:
            why = "this kernel does not let programs read them directly (rdpmc)"
        notes.append(
            f"{names}: counted in whole regions and phases only, not in every routine: {why}, and "
            f"one reading takes {reading_ns:.0f} ns; --counters-at calls counts in all routines"
        )
    elif at_calls and not cheap:
        notes.append(
            f"{names}: read at every entry and exit by {how}, {reading_ns:.0f} ns each: the "
            "times of routines that make many calls include this"
        )
    facts = {
        "taupy.counters.read": f"{'every routine' if at_calls else 'regions and phases'}, by {how}",
        "taupy.counters.reading_ns": f"{reading_ns:.0f}",
        "taupy.counters.native_threads": "from their birth" if whole else "from when we see them",
        "taupy.counters.events": "; ".join(
            f"{metric.name} = "
            + " + ".join(
                (f"{event.weight} x " if event.weight != 1 else "")
                + f"{_TYPE_NAMES.get(event.type, str(event.type))}:{event.config:#x}"
                for event in metric.events
            )
            for metric in metrics
        ),
    }
    if tested:
        facts["taupy.counters.self_test"] = "counted / known: " + ", ".join(
            f"{name} {ratio}" for name, ratio in tested.items()
        )
    untested = [
        metric.name
        for metric in metrics
        if not any(name.split()[0] == metric.name for name in tested)
    ]
    if untested:
        facts["taupy.counters.not_self_tested"] = ", ".join(untested)
    return Prepared(
        events,
        metrics=[(metric.name, metric.unit) for metric in metrics],
        at_calls=at_calls,
        by_rdpmc=by_rdpmc,
        whole=whole,
        reading_ns=reading_ns,
        notes=notes,
        facts=facts,
    )


_TYPE_NAMES = {HARDWARE: "hardware", 1: "software", RAW: "raw"}


_FORBIDDEN = (errno.EACCES, errno.EPERM)
_ABSENT = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO)
_DEVICES = Path("/sys/bus/event_source/devices")


def _has_pmu(devices: Path = _DEVICES) -> bool:
    """Whether the kernel supports hardware counters of this processor."""
    return any((devices / name).exists() for name in ("cpu", "cpu_core", "armv8_pmuv3_0"))


def why_not(
    problem: OSError,
    cpu: Cpu,
    paranoid: Path = Path("/proc/sys/kernel/perf_event_paranoid"),
    devices: Path = _DEVICES,
) -> str:
    """Why the kernel refused a counter, and the remedy, in one line."""
    try:
        level = int(paranoid.read_text("ascii"))
    except (OSError, ValueError):
        level = None
    if problem.errno in _FORBIDDEN:
        if level is not None and level > 2:
            return (
                f"the kernel forbids counters (kernel.perf_event_paranoid is {level}); allow them "
                "with: sudo sysctl kernel.perf_event_paranoid=2, or run with CAP_PERFMON"
            )
        return (
            "perf_event_open is forbidden here, most likely by a container's seccomp filter; "
            "start the container with --cap-add PERFMON or a profile that allows the call"
        )
    if problem.errno in _ABSENT:
        if not _has_pmu(devices):
            machine = "this virtual machine has" if cpu.virtual else "this kernel knows"
            return (
                f"{machine} no hardware counters (no PMU); count on a machine that has them, or "
                "turn them on for the guest (vPMU); page_faults can be counted everywhere"
            )
        return "this processor has no such event"
    if problem.errno == errno.EINVAL:
        return "this processor cannot count it, or not with the others: ask for fewer at once"
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return "no file descriptors are left for it (ulimit -n)"
    if problem.errno == errno.ENOSYS:
        return "this kernel has no perf_event_open"
    if problem.errno == errno.EBUSY:
        return "another program uses the counters exclusively"
    return f"perf_event_open says: {problem.strerror}"
