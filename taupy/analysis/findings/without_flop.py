"""Rule: the GPU spends its time in kernels that only move data."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from taupy.analysis.findings import kernels
from taupy.analysis.findings.calls import largest_part
from taupy.analysis.findings.gpu_clock import GpuClock, gpu_clock
from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.units import count, duration, percent

KIND = "kernels without flop"
NEEDS = ("host", "gpu")

LEAST = 0.25
"""Minimum share of the GPU's time. Even fused transformers spend a tenth to a fifth of it in
copies, changes of layout and embeddings, which have no flop."""

COUNTED = 0.95
"""Minimum share of the GPU's time in kernels whose flop were counted."""

_ALL_FLOP = ({"flop"}, {"flop_fp32", "flop_tensor"})
"""Alternative sets of metrics, one of which is needed: without the flop of tensor cores, a matrix
product seems to have none."""


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    clock = gpu_clock(trial)
    if clock is None:
        return
    if not any(names <= set(trial.metrics) for names in _ALL_FLOP):
        yield Abstention(
            KIND, "no flop were counted on the GPU: taupy run --metrics flop_fp32,flop_tensor"
        )
        return
    flop = _flop(clock)
    every = kernels.kernels(clock)
    whole = sum(kernel.ns for kernel in every)
    counted = [kernel for kernel in every if flop.get(kernel.timer.timer) is not None]
    if sum(kernel.ns for kernel in counted) < COUNTED * whole:
        yield Abstention(KIND, "flop were counted in only some of the kernels")
        return
    idle = [kernel for kernel in counted if not flop[kernel.timer.timer]]
    gpu = sum(kernel.ns for kernel in idle)
    if gpu < LEAST * whole:
        return
    timed, launches = (sum(map(attrgetter(name), every)) for name in ("timed", "launches"))
    part = f" (as {count(timed)} of {count(launches)} launches say)" if timed < launches else ""
    yield Finding(
        KIND,
        f"{percent(100 * gpu / whole)} % of the GPU's time, {duration(gpu)}{part}, is in "
        "kernels that compute nothing"
        f"{largest_part(idle[0].timer.short_name, idle[0].ns, gpu)}",
        saved_ns=clock.saved_ns(gpu=gpu),
        wall_ns=trial.wall_ns,
        evidence=(kernels.evidence(trial, idle),),
        confidence="medium",
        attempt="keep one memory layout (channels_last, contiguous), fuse conversions into the "
        "kernels that use them (torch.compile)",
        refuted_by="the kernels move data that has to be moved: gathers, embeddings, sorting",
    )


def _flop(clock: GpuClock) -> dict[str, float | None]:
    """Each kernel's flop; None if not counted."""
    trial = clock.trial
    names = tuple(name for name in trial.metrics if name.startswith("flop"))
    where = (Condition("kind", ("gpu",)), Condition("group", ("GPU_KERNEL",)))
    table = trial.ask(Question((trial.id,), names, ("timer",), where))
    columns = [table.column("exclusive", name) for name in names]
    flop: dict[str, float | None] = {}
    for timer, *values in zip(table.row_labels("timer"), *columns, strict=True):
        counted = [value for value in values if value is not None]
        flop[timer.timer] = sum(counted) if counted else None
    return flop
