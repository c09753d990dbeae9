"""Rule: the training waits for its data.

It names the program's own routine that takes the time, and gives no advice: other processes made a
training with tiny batches twice as slow, and more workers one on two processors by 13 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean

from taupy.analysis.findings.calls import Sum, largest_part, phase, place
from taupy.analysis.findings.gpu_clock import gpu_clock, is_data_loading
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import STATES
from taupy.units import count, duration, percent, several

KIND = "data wait"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of the time outside imports: a loader whose batches are ready takes 1 to 3 %."""

LEAST_ITSELF = 0.25
"""The same if nobody waits for workers or leaves a GPU idle, and no routine of the program makes
most of the data: to collect batches of what is in memory took a loader 7 to 14 % of a training of a
small network."""

BUSY, LEAST_BUSY = 0.2, 0.5
"""If those who make the data wait for a processor for more than this share of their time, the rest
of the wait must be half of the time outside imports: two workers and a training on two processors
that others used, too, made it 37 % of a program whose loader is quick."""

_WORK = among(("torch/utils/data/_utils/fetch.py:_MapDatasetFetcher.fetch",
               "torch/utils/data/_utils/fetch.py:_IterableDatasetFetcher.fetch"))  # fmt: skip


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    calls = trial.calls
    data = calls.longest(is_data_loading)
    if not data.rows:
        return
    work = _work(trial, data)
    queued = (
        fmean(_queued(trial, sums) for sums in work.values())
        if work
        else trial.runnable(calls.thread[data.rows[0]]) or 0.0
    )
    ns = data.ns * (1 - queued)
    clock = gpu_clock(trial)
    is_alone = clock is None and not work and not _makes_most(trial, data)
    worked_ns = trial.wall_ns - calls.longest(phase("import")).ns
    least_ns = (LEAST_ITSELF if is_alone else LEAST) * worked_ns
    if data.ns < least_ns:
        return
    fact = (
        f"the training waits {duration(data.ns)} for its data, "
        f"{percent(100 * data.ns / trial.wall_ns)} % of the run{_makers(trial, data, work)}"
    )
    if queued > BUSY and ns < LEAST_BUSY * worked_ns:
        yield Abstention(
            KIND,
            f"those who make the data waited for a processor {percent(100 * queued)} % of their "
            "time: how long the training would wait otherwise is not known",
            fact,
        )
        return
    if ns < least_ns:
        return
    saved = ns if clock is None else clock.saved_ns(host=ns)
    timers = tuple(dict.fromkeys(calls.timer[row].timer for row in data.rows))
    yield Finding(
        KIND,
        fact,
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("thread", "timer"), (Condition("timer", timers), HOST),
                        ("inclusive", "calls")),),
        confidence="high",
        attempt="",
        refuted_by="the loader's time per batch stays the same with data that is already in memory",
    )  # fmt: skip


def _queued(trial: Trial, work: Sum) -> float:
    """The share of what a worker did in which it waited for a processor: that the machine was busy
    is no fault of the loader. Its sleep between one batch and the next is nothing that it did."""
    calls = trial.calls
    making = {calls.timer[row] for top in work.rows for row in calls.below(top)}
    ran = queued = 0.0
    for timer, states in trial.states.get(calls.thread[work.rows[0]], {}).items():
        on_cpu, runnable, asleep, disk = (states.get(state, 0.0) for state in STATES)
        ran += on_cpu + disk + (asleep if timer in making else 0.0)
        queued += runnable
    return queued / (ran + queued) if queued else 0.0


def _work(trial: Trial, data: Sum) -> dict[ThreadRow, Sum]:
    """What the loader's workers do, by thread."""
    calls = trial.calls
    return calls.by_thread(
        row for row in calls.outermost(_WORK) if calls.thread[row] != calls.thread[data.rows[0]]
    )


def _makes_most(trial: Trial, data: Sum) -> bool:
    """Whether the program's own routines take most of the time."""
    return sum(ns for _, ns in _own(trial, data.rows)) >= data.ns / 2


def _makers(trial: Trial, data: Sum, work: Mapping[ThreadRow, Sum]) -> str:
    """Which of the program's own routines make the data, as a clause: those that the training
    calls itself, or else those of the workers that it waits for."""
    calls = trial.calls
    for timer, ns in _own(trial, data.rows)[:1]:
        if clause := largest_part(place(timer), ns, data.ns):
            return f"{clause}: {duration(ns)} in {count(_entries(trial, timer))} calls"
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
