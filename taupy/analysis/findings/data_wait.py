"""Rule: the training waits for its data.

It names the program's own routine that takes the time, and gives no advice: other processes made a
training with tiny batches twice as slow, and more workers one on two processors by 13 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taupy.analysis.findings.calls import Sum, largest_part, phase, place
from taupy.analysis.findings.gpu_clock import gpu_clock, is_data_loading
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent, several

KIND = "data wait"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of the time outside imports: a loader whose batches are ready takes 1 to 3 %."""

_WORK = among(("torch/utils/data/_utils/fetch.py:_MapDatasetFetcher.fetch",
               "torch/utils/data/_utils/fetch.py:_IterableDatasetFetcher.fetch"))  # fmt: skip


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    data = calls.longest(is_data_loading)
    if not data.rows:
        return
    imports = calls.longest(phase("import")).ns
    if data.ns < LEAST * (trial.wall_ns - imports):
        return
    clock = gpu_clock(trial)
    saved = data.ns if clock is None else clock.saved_ns(host=data.ns)
    timers = tuple(dict.fromkeys(calls.timer[row].timer for row in data.rows))
    yield Finding(
        KIND,
        f"the training waits {duration(data.ns)} for its data, "
        f"{percent(100 * data.ns / trial.wall_ns)} % of the run{_makers(trial, data)}",
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("thread", "timer"), (Condition("timer", timers), HOST),
                        ("inclusive", "calls")),),
        confidence="high",
        attempt="",
        refuted_by="the loader's time per batch stays the same with data that is already in memory",
    )  # fmt: skip


def _makers(trial: Trial, data: Sum) -> str:
    """Which of the program's own routines make the data, as a clause: those that the training
    calls itself, or else those of the workers that it waits for."""
    calls = trial.calls
    for timer, ns in _own(trial, data.rows)[:1]:
        if clause := largest_part(place(timer), ns, data.ns):
            return f"{clause}: {duration(ns)} in {count(_entries(trial, timer))} calls"
    work = calls.by_thread(
        row for row in calls.outermost(_WORK) if calls.thread[row] != calls.thread[data.rows[0]]
    )
    whole = sum(sums.ns for sums in work.values())
    cpu = sum(trial.cpu_ns.get(thread, 0) for thread in work)
    for timer, ns in _own(trial, (row for sums in work.values() for row in sums.rows))[:1]:
        by_workers = (
            f", made by {several(len(work), 'worker')}, on a CPU for {duration(cpu)} of "
            f"{duration(whole)}"
        )
        if clause := largest_part(place(timer), ns, whole):
            return f"{by_workers}{clause}: {duration(ns)} in {count(_entries(trial, timer))} calls"
        return by_workers
    waits: dict[TimerRow, float] = {}
    for row in data.rows:
        waits[calls.timer[row]] = waits.get(calls.timer[row], 0) + calls.inclusive[row]
    most = max(waits, key=waits.__getitem__)
    if len(waits) == 1:
        return f", in {place(most)}"
    return largest_part(place(most), waits[most], data.ns)


def _own(trial: Trial, tops: Iterable[int]) -> list[tuple[TimerRow, float]]:
    """The program's routines below, each with its time; the loader's are never the program's."""
    return [(timer, ns) for timer, ns in trial.own_below(tops)
            if not (timer.file or "").startswith("torch/utils/data/")]  # fmt: skip


def _entries(trial: Trial, timer: TimerRow) -> int:
    return int(trial.calls.entries(timer))
