"""Rule: the training waits for its data."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings.calls import phase, place
from taupy.analysis.findings.gpu_clock import gpu_clock
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.units import duration, percent

KIND = "data wait"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of the time outside imports: a loader whose batches are ready takes 1 to 3 %."""

_ALONE, _WORKERS = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    data = calls.longest(phase("data"))
    if not data.rows:
        return
    imports = calls.longest(phase("import")).ns
    if data.ns < LEAST * (trial.wall_ns - imports):
        return
    clock = gpu_clock(trial)
    saved = data.ns if clock is None else clock.saved_ns(host=data.ns)
    names = {calls.timer[row].short_name.split(".")[0] for top in data.rows
             for row in calls.below(top)}  # fmt: skip
    timers = tuple(dict.fromkeys(calls.timer[row].timer for row in data.rows))
    where = place(calls.timer[calls.largest(data.rows)])
    yield Finding(
        KIND,
        f"the training waits {duration(data.ns)} for its data, "
        f"{percent(100 * data.ns / trial.wall_ns)} % of the run, in {where}",
        saved,
        trial.wall_ns,
        (trial.evidence(("thread", "timer"), (Condition("timer", timers), HOST),
                        ("inclusive", "calls")),),
        "high",
        _advice(names),
        "the loader's time per batch stays the same with data that is already in memory",
    )  # fmt: skip


def _advice(names: set[str]) -> str:
    if _ALONE in names:
        return (
            "load in other processes: DataLoader(num_workers=N, persistent_workers=True); "
            "then make decoding cheaper"
        )
    if _WORKERS in names:
        return "use more workers or cheaper decoding: the current workers do not keep up"
    return "load the next batch while this one is computed, in a thread or another process"
