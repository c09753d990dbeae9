"""Rule: kernels run for a shorter time than the host needs to launch them."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings import kernels
from taupy.analysis.findings.calls import largest_part
from taupy.analysis.findings.gpu_clock import gpu_clock, is_launch
from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Finding
from taupy.units import count, duration

KIND = "tiny kernels"
NEEDS = ("host", "gpu", "clock")

LEAST_IDLE = 0.1
"""Minimum share of the loop in which the GPU is idle, as in `host_bound`: launches
cost nothing while the host is ahead of the GPU."""


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial)
    if clock is None or clock.host_bound_ns < LEAST_IDLE * clock.wall_ns:
        return
    launching = clock.host_calls(is_launch)
    every = kernels.kernels(clock)
    number = sum(kernel.launches for kernel in every)
    if not number or not launching.calls:
        return
    # A graph's launch starts many kernels, so the host's cost per kernel is what matters.
    each_ns = (launching.ns - clock.slow_launches_ns) / number
    tiny = [kernel for kernel in every if kernel.mean_ns < each_ns]
    launches = sum(kernel.launches for kernel in tiny)
    if not launches:
        return
    busy = sum(kernel.ns for kernel in tiny)
    most = max(tiny, key=lambda kernel: kernel.launches)
    yield Finding(
        KIND,
        f"{count(launches)} of {count(number)} kernels run for {duration(busy / launches)} on "
        f"average and take the host {duration(each_ns)} each to launch: {duration(busy)} of work "
        f"for {duration(each_ns * launches)} of launches"
        f"{largest_part(most.timer.short_name, most.launches, launches)}",
        saved_ns=clock.saved_ns(
            host=(clock.made_ns(clock.loop_rows(is_launch)) - clock.slow_launches_ns)
            * launches
            / number,
            gpu=busy,
        ),
        wall_ns=trial.wall_ns,
        evidence=(kernels.evidence(trial, tiny),),
        confidence="high",
        attempt="fuse them: torch.compile, a fused optimizer (fused=True), CUDA graphs, or larger "
        "batches",
        refuted_by="the GPU is not idle between these kernels in a trace (taupy run --trace)",
    )
