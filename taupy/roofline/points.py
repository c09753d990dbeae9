"""Points: the work of a trial summed over what people ask for.

A kernel, a Python routine, a phase or the whole program. Flop, bytes and times are summed
over launches first, and only sums are divided: never an average of ratios. A point knows
where its numbers come from, and which of its launches were counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from taupy.errors import MissingMetric, UsageError
from taupy.model.work import (
    COUNTED_OPERATIONS,
    LEVEL_OF,
    PRECISION_OF,
    Place,
    Tier,
    TrialWork,
)
from taupy.roofline.gathering import (
    Sum,
    add_calls,
    add_gpu_time,
    add_kernel,
    add_noted,
    add_routine,
    has_work,
    keys,
    wanted,
)
from taupy.roofline.point import Of, Point
from taupy.roofline.retiming import UNTIMED, kernel_timings, retimed, routine_timings
from taupy.units import duration

__all__ = ["REMEDY", "Of", "Point", "has_host_work", "points", "require", "runs_on_gpu"]

REMEDY = "measure it with: taupy run --metrics roofline SCRIPT"

_ANALYTIC = "taupy.option.analytic"  # metadata: the library whose calls were counted


def runs_on_gpu(work: TrialWork) -> bool:
    """Did any kernel of the trial have its flop or bytes counted?"""
    return any(has_work(kernel.values) for kernel in work.kernels)


def has_host_work(work: TrialWork) -> bool:
    return bool(work.noted) or any(has_work(routine.inclusive) for routine in work.routines)


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
            times = routine_timings(timing, of, inclusive)
            found = [retimed(point, times, timing) for point in found]
        covered = _covered(work, timing)
        found = [replace(point, covered=covered) for point in found]
    if timing is not None and all(UNTIMED in " ".join(point.notes) for point in found):
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


def _gpu_points(work: TrialWork, of: Of, inclusive: bool, timing: TrialWork | None) -> list[Point]:
    sums: dict[int, Sum] = {}
    program = Sum(Place(work.name, work.application, frozenset({"TAUPY"})))
    for kernel in work.kernels:
        for key in keys(work, kernel, of, inclusive):
            found = program if key < 0 else sums.setdefault(key, Sum(work.timers[key]))
            add_kernel(found, kernel, of)
    if of == "program":
        sums[-1] = program
    add_calls(work, sums, of)
    times = {} if timing is None else kernel_timings(timing, of, inclusive)
    made = []
    for one in sums.values():
        point = _point(work, of, one, work.gpus[0] if len(work.gpus) == 1 else _joined(work.gpus))
        if timing is not None:
            point = retimed(point, times, timing)
        made.append(point)
    return made


def _host_points(work: TrialWork, of: Of, inclusive: bool) -> list[Point]:
    whole = of in ("phase", "program") or inclusive
    sums: dict[int, Sum] = {}
    for routine in work.routines:
        place = work.timers[routine.timer]
        if not wanted(place, of):
            continue
        found = sums.setdefault(routine.timer, Sum(place))
        add_routine(found, routine, whole)
    add_noted(work, sums, of, whole)
    add_gpu_time(work, sums, of, inclusive)
    made = []
    for one in sums.values():
        if not has_work(one.values) and of != "program":
            continue
        if of == "program":
            one.place = Place(work.name, work.application, one.place.groups)
        processor = _joined(work.gpus) if one.launches else work.processor
        made.append(_point(work, of, one, processor))
    if not made:
        raise _missing(work, of)
    return made


def _covered(work: TrialWork, timing: TrialWork | None) -> float | None:
    """Where operations are worked out from shapes: the share of the run time that routines
    with such operations take themselves. What the others did, nobody knows."""
    if not {_ANALYTIC, COUNTED_OPERATIONS} & work.metadata.keys():
        return None
    found = _host_points(work, "routine", inclusive=False)
    if timing is not None:
        times = routine_timings(timing, "routine", inclusive=False)
        found = [retimed(point, times, timing) for point in found]
    whole = _whole_seconds(work if timing is None else timing)
    seconds = sum(point.run_time for point in found if point.flop_tier == "analytic")
    return min(seconds / whole, 1.0) if whole > 0 else None


def _point(work: TrialWork, of: Of, one: Sum, processor: str) -> Point:
    on_gpu = one.launches > 0
    seconds = one.time_ns / 1e9
    run = one.run_ns / 1e9
    notes = []
    if not on_gpu:
        # Threads work side by side: the longest one's time is the time it took.
        run = seconds = max(one.thread_ns.values(), default=0.0) / 1e9
        if len(one.thread_ns) > 1:
            whole = sum(one.thread_ns.values())
            note = (
                f"{one.place.short}: on {len(one.thread_ns)} threads; the time is the longest one's"
            )
            if run > 0:
                note += (
                    f", as if all ran side by side; one after another they took {duration(whole)}, "
                    f"and its rates were {whole / 1e9 / run:.3g}x lower"
                )
            notes.append(note)
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
