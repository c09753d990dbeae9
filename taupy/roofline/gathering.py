"""Sum the work of each point: assign rows to points and add them up.

`points.py` turns the sums into points.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from taupy.model.metric import ROOT_TIMER
from taupy.model.work import (
    COUNTED_LAUNCHES,
    COUNTED_TIME,
    GPU_PRECISIONS,
    LAUNCHES_GROUP,
    LEVEL_OF,
    PRECISION_OF,
    KernelWork,
    Place,
    RoutineWork,
    TrialWork,
)
from taupy.roofline.point import GROUP_OF, Of

_PYTHON = frozenset({"PYTHON", "PYTHON_C", "USER", "PHASE"})


@dataclass(slots=True)
class Sum:
    """The sums of a point.

    Attributes:
        lacking: counted launches for which this precision or level was not counted.
        per_second: sum of rates of launches without a duration; `rated`: their number.
        lacks_formulas: some operations that were stated have no formula.
    """

    place: Place
    calls: int = 0
    launches: int = 0
    counted: int = 0
    run_ns: float = 0.0
    time_ns: float = 0.0
    thread_ns: dict[tuple[int, int, int], float] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    uncounted_ns: float = 0.0
    lacking: dict[str, int] = field(default_factory=dict)
    per_second: dict[str, float] = field(default_factory=dict)
    rated: int = 0
    lacks_formulas: bool = False

    def add_values(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.values[name] = self.values.get(name, 0.0) + value


def has_work(values: Mapping[str, float]) -> bool:
    """Whether flop in any precision, or bytes at any level, were counted."""
    return any(name in PRECISION_OF or name in LEVEL_OF for name in values)


WHOLE: Hashable = "program"
"""Key of the sum over the whole trial."""


def keys(work: TrialWork, kernel: KernelWork, of: Of, inclusive: bool) -> Iterable[Hashable]:
    """The key that a kernel's work counts for: a timer, a kernel with its call path, or `WHOLE`."""
    if of == "kernel":
        return (kernel.timer,)
    if of == "launch":
        return ((kernel.timer, kernel.owners),)
    if of == "program":
        return (WHOLE,)
    groups = frozenset({GROUP_OF[of]}) if of in GROUP_OF else _PYTHON
    above = [owner for owner in kernel.owners if work.timers[owner].groups & groups]
    if of == "routine" and not inclusive:
        return above[:1]
    return dict.fromkeys(above)


def whole_of(work: TrialWork, groups: frozenset[str]) -> Place:
    """The names of all work together: the trial's and its application's, or the rank."""
    if work.rank is not None:
        return Place(f"rank {work.rank}", f"rank {work.rank}", groups)
    return Place(work.name, work.application, groups)


def place_of(work: TrialWork, key: Hashable) -> Place:
    """The names of a key."""
    if key == WHOLE:
        return whole_of(work, frozenset({"TAUPY"}))
    if isinstance(key, int):
        return work.timers[key]
    assert isinstance(key, tuple)
    timer, owners = key
    kernel = work.timers[timer]
    above = [work.timers[owner] for owner in owners]
    if above and LAUNCHES_GROUP in above[0].groups:
        alike = above[0].name.removeprefix("launches of ")
        return Place(f"{kernel.name}, {alike}", f"{kernel.short}, {alike}", kernel.groups)
    routine = next((place for place in above if place.groups & _PYTHON), None)
    if routine is None:
        return kernel
    path = " => ".join(place.name for place in reversed(above))
    return Place(f"{path} => {kernel.name}", f"{kernel.short} < {routine.short}", kernel.groups)


def add_kernel(total: Sum, kernel: KernelWork, of: Of) -> None:
    """Add launches of a kernel: the counted ones to rates, all to the run time."""
    total.launches += kernel.calls
    if of in ("kernel", "launch"):
        total.calls += kernel.calls
        if kernel.per_second:
            _add_rates(total, kernel)
    run = kernel.time_ns if kernel.time_ns > 0 else 0.0
    total.run_ns += run
    if not has_work(kernel.values):
        total.uncounted_ns += run
        return
    counted = kernel.values.get(COUNTED_LAUNCHES, kernel.calls)
    total.counted += int(counted)
    if COUNTED_TIME in kernel.values:
        total.time_ns += kernel.values[COUNTED_TIME]
    elif 0 < counted < kernel.calls:
        total.time_ns += run * counted / kernel.calls
    else:
        total.time_ns += run
    total.add_values(kernel.values)
    for name in _lacking(kernel.values):
        total.lacking[name] = total.lacking.get(name, 0) + int(counted)


def _add_rates(total: Sum, kernel: KernelWork) -> None:
    total.rated += kernel.calls
    for name, rate in kernel.per_second.items():
        total.per_second[name] = total.per_second.get(name, 0.0) + kernel.calls * rate
    for name in _lacking(kernel.per_second):
        total.lacking[name] = total.lacking.get(name, 0) + kernel.calls


def _lacking(values: Mapping[str, float]) -> list[str]:
    """Precisions and levels of a kernel that were not counted although others were."""
    precisions = {PRECISION_OF[name] for name in values if name in PRECISION_OF}
    levels = {LEVEL_OF[name] for name in values if name in LEVEL_OF}
    missing = (
        []
        if "any" in precisions
        else [precision for precision in GPU_PRECISIONS if precision not in precisions]
    )
    return missing + [level for level in dict.fromkeys(LEVEL_OF.values()) if level not in levels]


def add_calls(work: TrialWork, sums: Mapping[Hashable, Sum], of: Of) -> None:
    """Add the calls of routines to points that are routines, phases or layers."""
    if of in ("kernel", "launch"):
        return
    for routine in work.routines:
        if routine.timer in sums:
            sums[routine.timer].calls += routine.calls
    if WHOLE in sums:
        sums[WHOLE].calls = 1


def add_gpu_time(work: TrialWork, sums: Mapping[Hashable, Sum], of: Of, inclusive: bool) -> None:
    """Stated work of kernels took the kernels' time, not the time of launching them."""
    if any(routine.inclusive for routine in work.routines):
        return  # counted on the host: the host's time
    for kernel in work.kernels:
        for key in keys(work, kernel, of, inclusive):
            total = _program_of(work, sums) if key == WHOLE else sums.get(key)
            if total is not None and kernel.time_ns > 0:
                total.launches += kernel.calls
                total.counted += kernel.calls
                total.run_ns += kernel.time_ns
                total.time_ns += kernel.time_ns


def _program_of(work: TrialWork, sums: Mapping[Hashable, Sum]) -> Sum | None:
    return next((total for total in sums.values() if total.place.name == ROOT_TIMER), None)


def wanted(place: Place, of: Of) -> bool:
    """Whether a routine is a point of this kind."""
    if of == "program":
        return place.name == ROOT_TIMER
    if of in GROUP_OF:
        return GROUP_OF[of] in place.groups
    return place.name != ROOT_TIMER and "IMPORT" not in place.groups


def add_routine(total: Sum, routine: RoutineWork, whole: bool) -> None:
    """Add a routine on one thread to its point.

    Args:
        whole: include everything it called.
    """
    values = routine.inclusive if whole else routine.exclusive
    took = routine.inclusive_ns if whole else routine.exclusive_ns
    total.calls += routine.calls
    total.add_values(values)
    if took > 0:
        before = total.thread_ns.get(routine.thread, 0.0)
        total.thread_ns[routine.thread] = before + took


def add_noted(work: TrialWork, sums: Mapping[Hashable, Sum], of: Of, whole: bool) -> None:
    """Work stated by the program itself, if work of that kind was not counted; that of imports is
    no routine's."""
    counted = {metric for routine in work.routines for metric in routine.inclusive}
    has_flop = bool(counted & PRECISION_OF.keys())
    has_bytes = bool(counted & LEVEL_OF.keys())
    for noted in work.noted:
        if has_flop if noted.metric in PRECISION_OF else has_bytes:
            continue
        if of == "routine" and any("IMPORT" in work.timers[owner].groups for owner in noted.owners):
            continue
        fitting = [owner for owner in noted.owners if owner in sums]
        for owner in dict.fromkeys(fitting) if whole else fitting[:1]:
            sums[owner].add_values({noted.metric: noted.value})
            sums[owner].lacks_formulas |= noted.lacks_formulas
