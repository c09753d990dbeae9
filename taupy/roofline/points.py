"""Points: the work of a trial, summed by kernel, launch, routine, phase, layer, rank or program.

Flop, bytes and times are summed over launches first; only sums are divided, ratios are never
averaged. A point includes the origin of its numbers, and what was not counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from taupy.errors import MissingMetric, UsageError
from taupy.model.work import BLAS_ALONE, COUNTED_OPERATIONS, COUNTED_PROGRAM, TrialWork
from taupy.roofline.gathering import (
    WHOLE,
    Sum,
    add_calls,
    add_gpu_time,
    add_kernel,
    add_noted,
    add_routine,
    has_work,
    keys,
    place_of,
    wanted,
    whole_of,
)
from taupy.roofline.point import Of, Point, is_whole
from taupy.roofline.retiming import UNTIMED, kernel_timings, retimed, routine_timings
from taupy.roofline.step_points import step_points
from taupy.roofline.summed import gpu_point, host_point
from taupy.units import percent

__all__ = ["REMEDY", "Of", "Point", "has_host_work", "points", "require", "runs_on_gpu"]

WHOLLY = 0.995
"""Share of the run time above which counted routines represent the whole."""

REMEDY = "measure it with: taupy run --metrics roofline SCRIPT"


def runs_on_gpu(work: TrialWork) -> bool:
    """Whether flop or bytes were counted for any kernel of the trial."""
    return any(has_work(kernel.values) or kernel.per_second for kernel in work.kernels)


def has_host_work(work: TrialWork) -> bool:
    """Whether work of the CPU was counted, or stated by the program."""
    return bool(work.noted) or any(has_work(routine.inclusive) for routine in work.routines)


def points(
    work: TrialWork,
    of: Of,
    *,
    inclusive: bool = False,
    timing: TrialWork | None = None,
    uncounted: bool = False,
) -> list[Point]:
    """The points of a trial, longest run time first.

    Args:
        of: what a point represents. Routines count their own work (and launches), and that of
            everything they called if `inclusive`; phases and programs are always inclusive. For
            ranks, `work` is that of one of them (`rank_work`); for steps, it has them
            (`with_steps`).
        timing: another trial of the same program, run without counters, whose times are used
            as run times, scaled by the numbers of launches.
        uncounted: include kernels of a trial in which nothing was counted.

    Raises:
        MissingMetric: the trial has no flop, or no bytes at any level; the message names the
            command that measures them.
        UsageError: the timing trial has none of the points.
    """
    if of == "step":
        return step_points(work, timing)
    if of == "rank":
        program = points(work, "program", timing=timing, uncounted=uncounted)
        return [_of_rank(point, timing or work) for point in program]
    of_gpu = of in ("kernel", "launch")
    if runs_on_gpu(work) or (uncounted and of_gpu and work.kernels):
        all_points = _gpu_points(work, of, inclusive, timing)
    elif of_gpu or not has_host_work(work) or (work.knows_layers_alone and of != "layer"):
        raise _missing(work, of)
    else:
        all_points = _host_points(work, of, inclusive)
        if timing is None and COUNTED_OPERATIONS in work.metadata:
            note = (
                "times were measured while counting, minus the estimated cost of counting; for "
                "measured times use --timing TRIAL"
            )
            all_points = [replace(point, notes=(*point.notes, note)) for point in all_points]
        if timing is not None:
            times = routine_timings(timing, of, inclusive)
            all_points = [retimed(point, times, timing) for point in all_points]
        covered = _covered(work, timing)
        all_points = [_covered_point(point, covered) for point in all_points]
    if timing is not None and all(UNTIMED in " ".join(point.notes) for point in all_points):
        raise UsageError(
            f"the timing trial {timing.trial_id} ({timing.name}) has no point in common with trial "
            f"{work.trial_id} ({work.name}); --timing needs a run of the same program"
        )
    total = sum(point.run_time for point in all_points)
    if not of_gpu:
        # These overlap or do not cover everything, so shares are of the whole program.
        whole = _whole_seconds(work if timing is None else timing)
        total = max([point.run_time for point in all_points] + [whole], default=0.0)
    shared = [
        replace(point, share=point.run_time / total if total > 0 else 0.0) for point in all_points
    ]
    return sorted(shared, key=lambda point: (-point.run_time, point.name))


def _of_rank(program: Point, timed: TrialWork) -> Point:
    """A rank's point; ranks run side by side, so its share is of the trial's duration."""
    wall = timed.wall_ns / 1e9
    return replace(program, of="rank", share=program.run_time / wall if wall > 0 else 1.0)


def _whole_seconds(work: TrialWork) -> float:
    if runs_on_gpu(work):
        return sum(kernel.time_ns for kernel in work.kernels if kernel.time_ns > 0) / 1e9
    return work.wall_ns / 1e9


def _gpu_points(work: TrialWork, of: Of, inclusive: bool, timing: TrialWork | None) -> list[Point]:
    sums: dict[Hashable, Sum] = {}
    if of == "program":
        sums[WHOLE] = Sum(place_of(work, WHOLE))
    for kernel in work.kernels:
        for key in keys(work, kernel, of, inclusive):
            if key not in sums:
                sums[key] = Sum(place_of(work, key))
            add_kernel(sums[key], kernel, of)
    add_calls(work, sums, of)
    gpu_points = [gpu_point(work, of, total) for total in sums.values()]
    if timing is not None:
        times = kernel_timings(timing, of, inclusive)
        gpu_points = [retimed(point, times, timing) for point in gpu_points]
    return gpu_points


def _host_points(work: TrialWork, of: Of, inclusive: bool) -> list[Point]:
    whole = is_whole(of, inclusive)
    sums: dict[Hashable, Sum] = {}
    for routine in work.routines:
        place = work.timers[routine.timer]
        if not wanted(place, of):
            continue
        total = sums.setdefault(routine.timer, Sum(place))
        add_routine(total, routine, whole)
    add_noted(work, sums, of, whole)
    add_gpu_time(work, sums, of, inclusive)
    host_points = []
    for total in sums.values():
        if not has_work(total.values) and of != "program":
            continue
        if of == "program":
            total.place = whole_of(work, total.place.groups)
        host_points.append(
            gpu_point(work, of, total) if total.launches else host_point(work, of, total)
        )
    if not host_points:
        raise _missing(work, of)
    return host_points


def _covered(work: TrialWork, timing: TrialWork | None) -> float | None:
    """For operations derived from shapes: the share of the run time spent in routines with such
    operations. The work of other routines is unknown."""
    if not {BLAS_ALONE, COUNTED_OPERATIONS} & work.metadata.keys():
        return None
    routines = _host_points(work, "routine", inclusive=False)
    if timing is not None:
        times = routine_timings(timing, "routine", inclusive=False)
        routines = [retimed(point, times, timing) for point in routines]
    whole = _whole_seconds(work if timing is None else timing)
    seconds = sum(point.run_time for point in routines if point.flop_tier == "analytic")
    return min(seconds / whole, 1.0) if whole > 0 else None


def _covered_point(point: Point, covered: float | None) -> Point:
    """What a phase lacks if counted routines do not account for all of its time."""
    if covered is None or covered >= WHOLLY or not is_whole(point.of):
        return replace(point, covered=covered)
    rest = f"work in {percent(100 * (1 - covered))} % of the run time"
    return replace(point, covered=covered, uncounted=(*point.uncounted, rest))


def _missing(work: TrialWork, of: Of) -> MissingMetric:
    remedy = _remedy(work)
    was_counted = has_host_work(work) and not work.knows_layers_alone
    if was_counted and of == "phase":
        remedy = "mark phases with taupy.phase(NAME), or use --by routine"
    elif was_counted and of == "layer":
        remedy = "no layers of a network were recorded; use --by routine"
    elif was_counted and of in ("kernel", "launch"):
        remedy = "its work was done on the CPU: use --by routine or --by program"
    elif COUNTED_OPERATIONS in work.metadata:
        remedy = (
            f"{work.metadata.get(COUNTED_PROGRAM, 'the program')} ran inside taupy.count, which "
            "counts operations of NumPy and PyTorch, and called none of them; " + remedy
        )
    elif not work.gpus and not _imported(work):
        remedy += "; without hardware counters: taupy run -m taupy.count SCRIPT"
    if work.knows_layers_alone:
        remedy += "; the flop of its layers, without bytes, are known: --by layer"
    metrics = ", ".join(work.metrics) or "none"
    what = {
        "kernel": "no kernel whose flop or bytes were counted",
        "launch": "no launch whose flop or bytes were counted",
        "routine": "no routine whose flop or bytes were counted",
        "phase": "no phase whose flop or bytes were counted",
        "layer": "no layer with a metric of flop or bytes",
        "step": "no step whose flop or bytes were counted",
        "rank": "no rank whose flop or bytes were counted",
        "program": "no flop or bytes",
    }[of]
    return MissingMetric(f"trial {work.trial_id} has {what} (its metrics: {metrics}); {remedy}")


def require(drawn: Sequence[Point], work: TrialWork, *, for_charts: bool = True) -> None:
    """Check that both flop and bytes were measured.

    Args:
        for_charts: a table of layers needs no bytes, which taupy does not derive for them.

    Raises:
        MissingMetric: one of them was not measured for any point; a zero instead would give
            every point zero or infinite intensity.
    """
    lacking = []
    if all(point.flop_tier == "unknown" and not point.uncounted for point in drawn):
        lacking.append("flop in any precision (flop_fp32, flop_tensor ...)")
    needs_bytes = for_charts or not work.knows_layers_alone
    if needs_bytes and all(not point.bytes for point in drawn):
        lacking.append("bytes at any level (bytes_dram, bytes_l2, bytes_l1)")
    if lacking:
        metrics = ", ".join(work.metrics) or "none"
        raise MissingMetric(
            f"trial {work.trial_id} has no {' and no '.join(lacking)} (its metrics: {metrics}); "
            + _remedy(work)
        )


def _imported(work: TrialWork) -> bool:
    return work.source.startswith("import ")


def _remedy(work: TrialWork) -> str:
    """How to get missing counts; an imported file cannot be measured again."""
    if not _imported(work):
        return REMEDY
    stated = "state them with --flop 'KERNEL=2*M*N*K' and --bytes 'KERNEL=...'"
    if work.source.startswith("import ncu"):
        return (
            "count them with: ncu --set roofline (tensor cores: --metrics "
            "regex:sm__ops_path_tensor_src_.*); sections of the same launches in other files join "
            f"them when imported together; or {stated}"
        )
    return f"add counts of the same program with: taupy import --merge-into TRIAL FILE; or {stated}"
