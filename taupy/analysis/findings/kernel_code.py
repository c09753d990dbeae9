"""Rule: kernels whose stored code spills registers or accesses memory in strides.

This is the only rule that examines code, which `taupy static --store` must have stored. Proposals
about occupancy, barriers and tensor instructions are not findings, because the code does not show
whether the kernel suffers from them; `taupy candidates --metric code` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings import kernels
from taupy.analysis.findings.gpu_clock import gpu_clock
from taupy.analysis.findings.trial import Trial
from taupy.analysis.kernel_advice import LEAST_SHARE, Advice
from taupy.model.finding import TRIED_ON_GPU, Finding
from taupy.units import duration

KIND = "kernel's code"
NEEDS = ("host", "gpu")


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial) if trial.advice else None
    if clock is None:
        return
    for kernel in kernels.kernels(clock):
        advice = _first(trial, kernel.timer.timer)
        if advice is None or advice.saved is None:
            continue
        yield Finding(
            KIND,
            f"{kernel.timer.short_name} takes {duration(kernel.ns)} of the GPU; its code says: "
            f"{advice.finding}",
            saved_ns=clock.saved_ns(gpu=kernel.ns * advice.saved),
            wall_ns=trial.wall_ns,
            evidence=(kernels.evidence(trial, [kernel]),),
            confidence="low",
            attempt=advice.change,
            refuted_by="the kernel waits for something else, as its counters would show "
            "(`taupy kernel` sets them beside its code)",
        )


def _first(trial: Trial, timer: str) -> Advice | None:
    """Of the proposals that are worth a finding, the one with the largest possible saving."""
    proposals = [
        advice
        for advice in trial.advice.get(timer, ())
        if advice.rule in TRIED_ON_GPU and (advice.saved or 0) >= LEAST_SHARE
    ]
    return max(proposals, key=lambda advice: advice.saved or 0, default=None)
