"""Points: the work of a trial summed over what people ask for.

A kernel, a Python routine, a phase or the whole program. Flop, bytes and times are summed
over launches first, and only sums are divided: never an average of ratios. A point knows
where its numbers come from, and which of its launches were counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from taupy.errors import MissingMetric, UsageError
from taupy.model.work import (
    COUNTED_LAUNCHES,
    COUNTED_OPERATIONS,
    COUNTED_TIME,
    LEVEL_OF,
    PRECISION_OF,
    KernelWork,
    Place,
    RoutineWork,
    Tier,
    TrialWork,
)

Of = Literal["kernel", "routine", "phase", "program"]

REMEDY = "measure it with: taupy run --metrics roofline SCRIPT"

_PYTHON = frozenset({"PYTHON", "PYTHON_C", "USER", "PHASE"})
_PROGRAM = ".taupy application"
_WHOLE = Place("", "", frozenset())
_SHORT = "short name: "
_UNTIMED = "not in the timing trial"
_ANALYTIC = "taupy.option.analytic"  # metadata: the library whose calls were counted


@dataclass(frozen=True, slots=True)
class Point:
    """One thing on a roofline.

    Attributes:
        name: in full; `short` for legends.
        trial, trial_name, processor: where it ran.
        calls: launches of a kernel, calls of a routine.
        launches: of kernels in it, in all; 0 on a CPU.
        counted: how many of those launches were counted.
        run_time: seconds of all launches, as the trial (or the timing trial) timed them.
        time: seconds of the counted launches: what rates are made with.
        flop: precision -> flop of the counted launches.
        bytes: level -> bytes of the counted launches; a level not in it was not measured.
        share: of the run time of all points of its trial, 0 to 1.
        series, parameter: for trajectories; None where it is not part of a sweep.
    """

    name: str
    short: str
    of: Of
    trial: int
    trial_name: str
    processor: str
    calls: int
    launches: int
    counted: int
    run_time: float
    time: float
    flop: Mapping[str, float]
    bytes: Mapping[str, float]
    flop_tier: Tier
    bytes_tier: Tier
    share: float = 0.0
    series: str = ""
    parameter: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def total_flop(self) -> float:
        return sum(self.flop.values())

    @property
    def known(self) -> bool:
        """Were its flop and the bytes of some level found?"""
        return self.flop_tier != "unknown" and bool(self.bytes)

    @property
    def performance(self) -> float:
        """flop/s; NaN where no time was measured."""
        return self.total_flop / self.time if self.time > 0 else math.nan

    def intensity(self, level: str) -> float | None:
        """flop/B; infinite without bytes, 0 without both; None where not measured."""
        moved = self.bytes.get(level)
        if moved is None or self.flop_tier == "unknown":
            return None
        if moved <= 0:
            return math.inf if self.total_flop > 0 else 0.0
        return self.total_flop / moved


@dataclass(slots=True)
class _Sum:
    """A point while it is being added up."""

    place: Place
    calls: int = 0
    launches: int = 0
    counted: int = 0
    run_ns: float = 0.0
    time_ns: float = 0.0
    thread_ns: dict[tuple[int, int, int], float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    uncounted_ns: float = 0.0

    def add_values(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0.0) + value


def runs_on_gpu(work: TrialWork) -> bool:
    """Did any kernel of the trial have its flop or bytes counted?"""
    return any(_has_work(kernel.values) for kernel in work.kernels)


def has_host_work(work: TrialWork) -> bool:
    return bool(work.noted) or any(_has_work(routine.inclusive) for routine in work.routines)


def points(
    work: TrialWork, of: Of, *, inclusive: bool = False, timing: TrialWork | None = None
) -> list[Point]:
    """The points of a trial, by run time from large to small.

    Args:
        of: what a point is. Routines count what they did (or launched) themselves, or with
            all that they called if `inclusive`; phases and the program always with all.
        timing: another trial of the same program, run without counters: its times are
            taken for the run time, scaled by the numbers of launches.

    Raises:
        MissingMetric: the trial has no flop, or no bytes of any level; the message names
            the command that measures them.
        UsageError: the timing trial has none of the points.
    """
    if runs_on_gpu(work):
        found = _gpu_points(work, of, inclusive, timing)
    elif of == "kernel" or not has_host_work(work):
        raise _missing(work, of)
    else:
        found = _host_points(work, of, inclusive)
        if timing is None and COUNTED_OPERATIONS in work.metadata:
            note = "times are those of counting less what counting took, about: --timing TRIAL"
            found = [replace(point, notes=(*point.notes, note)) for point in found]
        if timing is not None:
            times = _host_timings(timing, of, inclusive)
            found = [_retimed(point, times, timing) for point in found]
    if timing is not None and all(_UNTIMED in " ".join(point.notes) for point in found):
        raise UsageError(
            f"the timing trial {timing.trial_id} ({timing.name}) has nothing of what trial "
            f"{work.trial_id} ({work.name}) has; --timing takes a run of the same program"
        )
    total = sum(point.run_time for point in found)
    if of != "kernel":
        # These overlap, or are not all there is: their shares are of the whole program.
        whole = _whole_seconds(work if timing is None else timing)
        total = max([point.run_time for point in found] + [whole], default=0.0)
    shared = [replace(point, share=point.run_time / total if total > 0 else 0.0) for point in found]
    return sorted(shared, key=lambda point: (-point.run_time, point.name))


def _whole_seconds(work: TrialWork) -> float:
    if runs_on_gpu(work):
        return sum(kernel.time_ns for kernel in work.kernels if kernel.time_ns > 0) / 1e9
    return work.wall_ns / 1e9


# --- GPU ---------------------------------------------------------------------


def _gpu_points(work: TrialWork, of: Of, inclusive: bool, timing: TrialWork | None) -> list[Point]:
    sums: dict[int, _Sum] = {}
    program = _Sum(Place(work.name, work.application, frozenset({"TAUPY"})))
    for kernel in work.kernels:
        for key in _keys(work, kernel, of, inclusive):
            found = program if key < 0 else sums.setdefault(key, _Sum(work.timers[key]))
            _add_kernel(found, kernel, of)
    if of == "program":
        sums[-1] = program
    _add_calls(work, sums, of)
    times = {} if timing is None else _timings(timing, of, inclusive)
    made = []
    for one in sums.values():
        point = _point(work, of, one, work.gpus[0] if len(work.gpus) == 1 else _joined(work.gpus))
        if timing is not None:
            point = _retimed(point, times, timing)
        made.append(point)
    return made


def _keys(work: TrialWork, kernel: KernelWork, of: Of, inclusive: bool) -> Iterable[int]:
    """The timers that a kernel's work counts for; -1 is the program."""
    if of == "kernel":
        return (kernel.timer,)
    if of == "program":
        return (-1,)
    groups = frozenset({"PHASE"}) if of == "phase" else _PYTHON
    above = [owner for owner in kernel.owners if work.timers[owner].groups & groups]
    if of == "routine" and not inclusive:
        return above[:1]
    return dict.fromkeys(above)


def _add_kernel(found: _Sum, kernel: KernelWork, of: Of) -> None:
    found.launches += kernel.calls
    if of == "kernel":
        found.calls += kernel.calls
    run = kernel.time_ns if kernel.time_ns > 0 else 0.0
    found.run_ns += run
    if not _has_work(kernel.values):
        found.uncounted_ns += run
        return
    counted = kernel.values.get(COUNTED_LAUNCHES, kernel.calls)
    found.counted += int(counted)
    if COUNTED_TIME in kernel.values:
        found.time_ns += kernel.values[COUNTED_TIME]
    elif 0 < counted < kernel.calls:
        found.time_ns += run * counted / kernel.calls
    else:
        found.time_ns += run
    found.add_values(kernel.values)


def _add_calls(work: TrialWork, sums: Mapping[int, _Sum], of: Of) -> None:
    if of == "kernel":
        return
    for routine in work.routines:
        if routine.timer in sums:
            sums[routine.timer].calls += routine.calls
    for key, one in sums.items():
        if key < 0:
            one.calls = 1


def _timings(timing: TrialWork, of: Of, inclusive: bool) -> dict[str, tuple[float, int]]:
    """Name -> seconds and launches, in the trial that was run without counters."""
    found: dict[str, tuple[float, int]] = {}
    full_names: dict[str, set[int]] = {}
    for kernel in timing.kernels:
        if not kernel.time_ns > 0:
            continue
        for key in _keys(timing, kernel, of, inclusive):
            place = _WHOLE if key < 0 else timing.timers[key]
            full_names.setdefault(_SHORT + place.short, set()).add(key)
            for name in dict.fromkeys((_placeless(place.name), _SHORT + place.short)):
                seconds, launches = found.get(name, (0.0, 0))
                found[name] = (seconds + kernel.time_ns / 1e9, launches + kernel.calls)
    # A short name that several kernels have tells nothing.
    return {name: value for name, value in found.items() if len(full_names.get(name, ())) < 2}


def _retimed(point: Point, times: Mapping[str, tuple[float, int]], timing: TrialWork) -> Point:
    """The point with the times of the timing trial; the same launches, more honestly timed."""
    name = "" if point.of == "program" else _placeless(point.name)
    # Tools spell template arguments differently; a short name will do where it is unique.
    seconds, number = times.get(name) or times.get(_SHORT + point.short) or (0.0, 0)
    if not number or seconds <= 0:
        note = f"{_UNTIMED} {timing.trial_id}: timed while it was counted"
        return replace(point, notes=(*point.notes, note))
    each = seconds / number
    here, counted = (point.launches, point.counted) if point.launches else (point.calls,) * 2
    notes = point.notes
    if number != here:
        what = "launches" if point.launches else "calls"
        notes = (*notes, f"{here} {what} here, {number} in the timing trial: scaled to ours")
    return replace(point, run_time=each * here, time=each * counted, notes=notes)


def _placeless(name: str) -> str:
    """A routine's name without its folder, which differs with the way it was started."""
    return re.sub(r"\[\{[^}]*[/\\]([^}/\\]*)\}", r"[{\1}", name)


def _host_timings(timing: TrialWork, of: Of, inclusive: bool) -> dict[str, tuple[float, int]]:
    """Name -> seconds of the longest thread and calls, in the trial that was not counted."""
    whole = of in ("phase", "program") or inclusive
    seconds: dict[str, dict[tuple[int, int, int], float]] = {}
    calls: dict[str, int] = {}
    for routine in timing.routines:
        place = timing.timers[routine.timer]
        took = routine.inclusive_ns if whole else routine.exclusive_ns
        if not _wanted(place, of) or not took > 0:
            continue
        name = "" if of == "program" else _placeless(place.name)
        threads = seconds.setdefault(name, {})
        threads[routine.thread] = threads.get(routine.thread, 0.0) + took / 1e9
        calls[name] = calls.get(name, 0) + routine.calls
    return {name: (max(threads.values()), calls[name]) for name, threads in seconds.items()}


# --- CPU ---------------------------------------------------------------------


def _host_points(work: TrialWork, of: Of, inclusive: bool) -> list[Point]:
    whole = of in ("phase", "program") or inclusive
    sums: dict[int, _Sum] = {}
    for routine in work.routines:
        place = work.timers[routine.timer]
        if not _wanted(place, of):
            continue
        found = sums.setdefault(routine.timer, _Sum(place))
        _add_routine(found, routine, whole)
    _add_noted(work, sums, of, whole)
    _add_gpu_time(work, sums, of, inclusive)
    made = []
    for one in sums.values():
        if not _has_work(one.values) and of != "program":
            continue
        if of == "program":
            one.place = Place(work.name, work.application, one.place.groups)
        processor = _joined(work.gpus) if one.launches else work.processor
        made.append(_point(work, of, one, processor))
    if not made:
        raise _missing(work, of)
    return made


def _add_gpu_time(work: TrialWork, sums: Mapping[int, _Sum], of: Of, inclusive: bool) -> None:
    """Stated work that kernels did took the kernels' time, not that of launching them."""
    if any(routine.inclusive for routine in work.routines):
        return  # counted on the host: the host's time
    for kernel in work.kernels:
        for key in _keys(work, kernel, of, inclusive):
            one = _program_of(work, sums) if key < 0 else sums.get(key)
            if one is not None and kernel.time_ns > 0:
                one.launches += kernel.calls
                one.counted += kernel.calls
                one.run_ns += kernel.time_ns
                one.time_ns += kernel.time_ns


def _program_of(work: TrialWork, sums: Mapping[int, _Sum]) -> _Sum | None:
    return next((one for key, one in sums.items() if work.timers[key].name == _PROGRAM), None)


def _wanted(place: Place, of: Of) -> bool:
    if of == "program":
        return place.name == _PROGRAM
    if of == "phase":
        return "PHASE" in place.groups
    return place.name != _PROGRAM


def _add_routine(found: _Sum, routine: RoutineWork, whole: bool) -> None:
    values = routine.inclusive if whole else routine.exclusive
    took = routine.inclusive_ns if whole else routine.exclusive_ns
    found.calls += routine.calls
    found.add_values(values)
    if took > 0:
        before = found.thread_ns.get(routine.thread, 0.0)
        found.thread_ns[routine.thread] = before + took


def _add_noted(work: TrialWork, sums: Mapping[int, _Sum], of: Of, whole: bool) -> None:
    """What the program said of its own work, where nothing was counted of that kind."""
    counted = {metric for routine in work.routines for metric in routine.inclusive}
    has_flop = bool(counted & PRECISION_OF.keys())
    has_bytes = bool(counted & LEVEL_OF.keys())
    for noted in work.noted:
        if has_flop if noted.metric in PRECISION_OF else has_bytes:
            continue
        fitting = [owner for owner in noted.owners if owner in sums]
        for owner in dict.fromkeys(fitting) if whole else fitting[:1]:
            sums[owner].add_values({noted.metric: noted.value})


# --- both --------------------------------------------------------------------


def _point(work: TrialWork, of: Of, one: _Sum, processor: str) -> Point:
    on_gpu = one.launches > 0
    seconds = one.time_ns / 1e9
    run = one.run_ns / 1e9
    notes = []
    if not on_gpu:
        # Threads work side by side: the longest one's time is the time it took.
        run = seconds = max(one.thread_ns.values(), default=0.0) / 1e9
        if len(one.thread_ns) > 1:
            notes.append(f"on {len(one.thread_ns)} threads; the time is the longest one's")
    values = one.values
    flop_metrics = [name for name in values if name in PRECISION_OF]
    byte_metrics = [name for name in values if name in LEVEL_OF]
    said = {noted.metric for noted in work.noted}
    counted = set(work.metrics)
    if on_gpu and one.counted < one.launches:
        notes.append(f"{one.counted} of {one.launches} launches were counted")
    if not on_gpu and _ANALYTIC in work.metadata and "analytic" in _tiers(values, counted, said):
        notes.append(
            f"analytic: {work.metadata[_ANALYTIC]} calls by their shapes; other operations "
            "(element-wise ones, convolutions) are not counted"
        )
    if "bytes_dram_read" in values:
        notes.append("DRAM bytes are lines read in (also for writing); write-backs not counted")
    return Point(
        name=one.place.name,
        short=one.place.short,
        of=of,
        trial=work.trial_id,
        trial_name=work.name,
        processor=processor,
        calls=one.calls,
        launches=one.launches,
        counted=one.counted,
        run_time=run,
        time=seconds,
        flop=_flop(values),
        bytes={
            LEVEL_OF[name]: values[name]
            for name in LEVEL_OF
            if name in values and not (name == "bytes_dram_read" and "bytes_dram" in values)
        },
        flop_tier=_tier(flop_metrics, counted, said),
        bytes_tier=_tier(byte_metrics, counted, said),
        notes=tuple(notes),
    )


def _tiers(values: Mapping[str, float], counted: set[str], said: set[str]) -> set[Tier]:
    return {_tier([name], counted, said) for name in values}


def _tier(metrics: Sequence[str], counted: set[str], said: set[str]) -> Tier:
    if not metrics:
        return "unknown"
    if any(name in said and name not in counted for name in metrics):
        return "analytic"
    return "measured"


def _flop(values: Mapping[str, float]) -> dict[str, float]:
    """Flop by precision; tensor flop whose precision was not told apart stay "tensor"."""
    found = {
        PRECISION_OF[name]: values[name]
        for name in PRECISION_OF
        if name in values and name != "flop_tensor"
    }
    if "flop_tensor" in values:
        # Integer operations are no flop, and not part of it.
        told = sum(
            value
            for name, value in found.items()
            if name.startswith("tensor ") and name != "tensor int8"
        )
        rest = values["flop_tensor"] - told
        # Counts of two passes differ in their last digits.
        if rest > 1e-6 * values["flop_tensor"] or not told:
            found["tensor"] = max(rest, 0.0)
    if "any" in found and len(found) > 1:
        del found["any"]  # the same operations, not told apart
    return found


def _has_work(values: Mapping[str, float]) -> bool:
    return any(name in PRECISION_OF or name in LEVEL_OF for name in values)


def _joined(names: Sequence[str]) -> str:
    return " + ".join(names)


def _missing(work: TrialWork, of: Of) -> MissingMetric:
    remedy = REMEDY
    if has_host_work(work) and of == "phase":
        remedy = "mark phases with taupy.phase(NAME), or ask for --of routine"
    elif has_host_work(work) and of == "kernel":
        remedy = "its work was done on the CPU: ask for --of routine or --of program"
    elif not work.gpus:
        remedy += "; without hardware counters: taupy run -m taupy.count SCRIPT"
    there = ", ".join(work.metrics) or "none"
    what = {
        "kernel": "no kernel whose flop or bytes were counted",
        "routine": "no routine whose flop or bytes were counted",
        "phase": "no phase whose flop or bytes were counted",
        "program": "no flop or bytes",
    }[of]
    return MissingMetric(f"trial {work.trial_id} has {what} (its metrics: {there}); {remedy}")


def require(found: Sequence[Point], work: TrialWork) -> None:
    """See that flop and bytes are both there.

    Raises:
        MissingMetric: one of them was not measured for any point; a zero in its place would
            put every point at no or at infinite intensity.
    """
    lacking = []
    if all(point.flop_tier == "unknown" for point in found):
        lacking.append("flop of any precision (flop_fp32, flop_tensor ...)")
    if all(not point.bytes for point in found):
        lacking.append("bytes of any level (bytes_dram, bytes_l2, bytes_l1)")
    if lacking:
        there = ", ".join(work.metrics) or "none"
        raise MissingMetric(
            f"trial {work.trial_id} has no {' and no '.join(lacking)} (its metrics: {there}); "
            + REMEDY
        )
