"""Rule: the host does not keep up with the GPU; Python between launches leaves the GPU idle."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings.calls import Sum, largest_part, phase, place
from taupy.analysis.findings.gpu_clock import (
    GpuClock,
    gpu_clock,
    is_call,
    is_data_loading,
    is_other_wait,
)
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import duration, percent

KIND = "host slower than GPU"
NEEDS = ("host", "gpu", "clock")

LEAST_IDLE = 0.1
"""Minimum share of the loop in which the GPU is idle. A busy GPU is idle for a few
percent: at the beginning, at the end, and between dependent kernels."""

_OTHERS = ("data", "checkpoint", "compile", "import", "exit")
"""Phases whose time other rules judge."""


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial)
    if clock is None or clock.host_bound_ns < LEAST_IDLE * clock.wall_ns:
        return
    python, others = _python(clock)
    launching = clock.host_calls(is_call).ns - clock.waits_ns
    if python + launching <= clock.busy_ns:
        return  # apart from data, checkpoints and waits, the host keeps up
    if python < LEAST_IDLE * clock.wall_ns:
        return  # what leaves the GPU idle is something else
    saved = min(clock.saved_ns(host=python), clock.host_caused_ns)
    yield Finding(
        KIND,
        f"the GPU is idle for {'' if clock.exact else 'at least '}{duration(clock.idle_ns)}, "
        f"{percent(100 * clock.idle_ns / clock.wall_ns)} % of {clock.where}{clock.why_idle}, while "
        f"the host runs Python for {duration(python)}{_largest(trial, clock, others, python)}",
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("timer",), (Condition("thread", (_text(clock),)), HOST)),),
        confidence="high",
        attempt="do less in Python between launches: batch it, move it to the GPU, or capture the "
        "step in a CUDA graph or with torch.compile",
        refuted_by="the GPU's busy time in a trace (taupy run --trace) is longer than the sum of "
        "its kernels",
    )


def _python(clock: GpuClock) -> tuple[float, set[int]]:
    """The main thread's time outside CUDA calls, waits and other rules' phases, and the rows of
    these waits and phases."""
    calls = clock.trial.calls
    others: set[int] = set()
    taken = 0.0
    for matches in (*map(phase, _OTHERS), is_data_loading, is_other_wait):
        inside = clock.host_calls(matches)
        fresh = [row for row in inside.rows if row not in others]
        taken += sum(calls.inclusive[row] for row in fresh)
        for row in fresh:
            others.update(calls.below(row))
    outside = [row for row in calls.rows(is_call) if row in clock.loop.rows - others]
    return clock.loop_ns - taken - calls.by_thread(outside).get(clock.main, Sum()).ns, others


def _largest(trial: Trial, clock: GpuClock, others: set[int], python_ns: float) -> str:
    """The program's routine that took most of the loop's time outside these rows, libraries
    included, and the library's routine that took most of it, if it is most of it; as a clause."""
    calls = trial.calls
    by_place: dict[TimerRow | None, dict[TimerRow, float]] = {}
    for row in sorted(clock.loop.rows - others):
        timer = calls.timer[row]
        if calls.parent[row] >= 0 and not is_call(timer):
            nearest = timer if trial.is_own(timer) else trial.caller(row)
            sums = by_place.setdefault(nearest, {})
            sums[timer] = sums.get(timer, 0) + calls.exclusive[row]
    if not by_place:
        return ""
    own, sums = max(by_place.items(), key=lambda pair: sum(pair[1].values()))
    most = max(sums, key=lambda timer: sums[timer])
    clause = largest_part(place(own), sum(sums.values()), python_ns)
    if not clause or most is own or sums[most] < sum(sums.values()) / 2:
        return clause
    return f"{clause}, there in {most.short_name}"


def _text(clock: GpuClock) -> str:
    return ".".join(map(str, clock.main[:3]))
