"""Steps of a training as points: the work of each step's own thread, as counted on the CPU."""

from __future__ import annotations

from dataclasses import replace

from taupy.errors import MissingMetric, UsageError
from taupy.model.metric import ROOT_TIMER
from taupy.model.work import COUNTED_OPERATIONS, PRECISION_OF, Place, StepWork, TrialWork
from taupy.roofline.gathering import Sum, has_work
from taupy.roofline.point import Point
from taupy.roofline.retiming import UNTIMED, retimed
from taupy.roofline.summed import host_point

_MOSTLY = 0.95
"""Share of the trial's flop above which the threads with steps represent the whole."""
_NOT_OF_GPU = "kernels of GPUs are not counted step by step: points are work of the CPU"
_WITH_COUNTING = "times include counting; for measured times use --timing TRIAL"
_REMEDY = "measure it with: taupy run --metrics roofline SCRIPT"


def step_points(work: TrialWork, timing: TrialWork | None = None) -> list[Point]:
    """A point for each step with counts, longest time first.

    Args:
        timing: another trial of the same program, run without counters, with its steps.

    Raises:
        MissingMetric: the trial has no steps, or nothing was counted in them.
        UsageError: the timing trial has none of the steps.
    """
    if not work.steps:
        raise MissingMetric(f"trial {work.trial_id} has no steps: see docs/steps.md")
    own_points = [_point(work, step) for step in work.steps if has_work(step.values)]
    if not own_points:
        raise _missing(work)
    if timing is not None:
        times = {step.name: (step.time_ns / 1e9, step.calls) for step in timing.steps}
        own_points = [retimed(point, times, timing) for point in own_points]
        if all(UNTIMED in " ".join(point.notes) for point in own_points):
            raise UsageError(
                f"the timing trial {timing.trial_id} ({timing.name}) has no step in common "
                f"with trial {work.trial_id} ({work.name})"
            )
    notes = [_NOT_OF_GPU] if work.kernels else []
    if timing is None and COUNTED_OPERATIONS in work.metadata:
        notes.append(_WITH_COUNTING)
    lacking = _of_others(work)
    wall = work.wall_ns / 1e9
    own_points = [
        replace(
            point,
            share=point.run_time / wall if wall > 0 else 0.0,
            notes=(*point.notes, *notes),
            uncounted=(*point.uncounted, *lacking) if point.flop else point.uncounted,
        )
        for point in own_points
    ]
    return sorted(own_points, key=lambda point: (-point.run_time, point.name))


def _point(work: TrialWork, step: StepWork) -> Point:
    total = Sum(Place(step.name, step.name, frozenset()), step.calls)
    total.thread_ns[step.thread] = step.time_ns
    total.add_values(step.values)
    return host_point(work, "step", total)


def _of_others(work: TrialWork) -> list[str]:
    """What steps lack: the work of threads without steps, such as those of a library, in the
    processes of those with steps."""
    threads = {step.thread for step in work.steps}
    nodes = {node for node, _, _ in threads}
    flop = {
        routine.thread: sum(routine.inclusive.get(name, 0.0) for name in PRECISION_OF)
        for routine in work.routines
        if work.timers[routine.timer].name == ROOT_TIMER and routine.thread[0] in nodes
    }
    others = [number for thread, number in flop.items() if thread not in threads and number > 0]
    if sum(others) <= (1 - _MOSTLY) * sum(flop.values()):
        return []
    return [f"work of {len(others)} other thread{'s' if len(others) > 1 else ''}"]


def _missing(work: TrialWork) -> MissingMetric:
    what = f"trial {work.trial_id} has no step whose flop or bytes were counted"
    if work.kernels:
        return MissingMetric(
            f"{what}: {_NOT_OF_GPU.partition(':')[0]}; use --by kernel, --by phase, or `taupy run "
            "--steps A:B` for some steps"
        )
    if work.is_stated_twice:
        return MissingMetric(
            f"{what}: `taupy.count` and BLAS calls overlap; count with `taupy run -m taupy.count` "
            "without --metrics"
        )
    metrics = ", ".join(work.metrics) or "none"
    return MissingMetric(f"{what} (its metrics: {metrics}); {_REMEDY}")
