"""Some threads, processes or ranks get more of the same work than others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import NamedTuple

from taupy.analysis.findings import waiting
from taupy.analysis.findings.calls import Sum, phase, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import ThreadRow, TimerRow
from taupy.units import duration, several

KIND = "imbalance"
NEEDS = ("host",)

LEAST = 0.25
"""Of the longest worker's time, that the mean of all is shorter. Pools that hand out tasks one by
one, and threads on a busy machine, differ by less."""

LEAST_OF_RANKS = 0.05
"""The same for ranks, which do equal steps and wait for each other in each: jitter is a few
percent."""

_STARTERS = ("threading.py", "concurrent/futures/", "multiprocessing/", "joblib/")


class _Worker(NamedTuple):
    thread: ThreadRow
    work: TimerRow
    ns: float


def find(trial: Trial) -> Iterator[Finding]:
    ranks = _ranks(trial)
    if len(ranks) > 1:
        yield from _of_ranks(trial, ranks)
        return
    groups: dict[TimerRow, list[_Worker]] = {}
    for worker in _workers(trial):
        groups.setdefault(worker.work, []).append(worker)
    for work, workers in groups.items():
        if len(workers) > 1:
            yield from _of_workers(trial, work, workers)


def _of_workers(trial: Trial, work: TimerRow, workers: list[_Worker]) -> Iterator[Finding]:
    longest = max(workers, key=lambda worker: worker.ns)
    cores = trial.cores or len(workers)
    even = sum(worker.ns for worker in workers) / min(len(workers), cores)
    waited = _main_waits(trial)
    saved = min(longest.ns - even, waited)
    if longest.ns - even < LEAST * longest.ns:
        return
    yield Finding(
        KIND,
        f"of {several(len(workers), 'worker')} that run {place(work)} one works for "
        f"{duration(longest.ns)}, all of them for {duration(even)} on average",
        saved,
        trial.wall_ns,
        (trial.evidence(("thread",), (Condition("timer", (work.timer,)), HOST),
                        ("inclusive", "calls")),),
        "high",
        "cut the work by what it costs and not by count: smaller pieces, the largest first, handed "
        "out as workers become free",
        "the longest piece cannot be divided, or workers are started one after the other",
    )  # fmt: skip


def _workers(trial: Trial) -> list[_Worker]:
    """Threads and processes besides the main thread, with the routine that they were given."""
    calls = trial.calls
    workers = []
    for thread, tops in _given(trial).items():
        sums: dict[TimerRow, float] = {}
        for row in tops:
            waits = sum(calls.inclusive[wait] for wait in _waits_below(trial, row))
            timer = calls.timer[row]
            sums[timer] = sums.get(timer, 0) + calls.inclusive[row] - waits
        if sums:
            work = max(sums, key=sums.__getitem__)
            workers.append(_Worker(thread, work, sums[work]))
    return workers


def _given(trial: Trial) -> dict[ThreadRow, list[int]]:
    """For each worker the outermost call paths that it ran itself and that no library starts."""
    calls = trial.calls
    main = min(calls.threads, default=None)
    given: dict[ThreadRow, list[int]] = {}
    stack = [row for row, above in enumerate(calls.parent) if above < 0]
    while stack:
        row = stack.pop()
        timer = calls.timer[row]
        starts = (timer.file or "").startswith(_STARTERS) or not calls.calls[row]
        if calls.thread[row] == main:
            continue
        if trial.is_own(timer) and not starts:
            given.setdefault(calls.thread[row], []).append(row)
        elif calls.parent[row] < 0 or starts:
            stack += calls.children(row)
    return given


def _waits_below(trial: Trial, top: int) -> Iterator[int]:
    calls = trial.calls
    stack = [top]
    while stack:
        row = stack.pop()
        if waiting.is_wait(calls.timer[row]):
            yield row
        else:
            stack += calls.children(row)


def _main_waits(trial: Trial) -> float:
    """How long the main thread waits for others: more cannot be saved."""
    main, *_ = waiting.lives(trial)
    return main.whole_ns - main.working_ns


# --- ranks -----------------------------------------------------------------------


def _ranks(trial: Trial) -> dict[int, int]:
    """Node -> rank, of the processes that a launcher has started."""
    ranks = {}
    for node, facts in trial.nodes.items():
        text = next((facts[name] for name in ("RANK", "Rank", "MPI Rank") if name in facts), "")
        if text.isascii() and text.isdigit():
            ranks[node] = int(text)
    return ranks


def _of_ranks(trial: Trial, ranks: Mapping[int, int]) -> Iterator[Finding]:
    calls = trial.calls
    talking = calls.by_thread(calls.outermost(phase("communication")))
    imports = calls.by_thread(calls.outermost(phase("import")))
    own = {
        ranks[thread.node]: whole - talking[thread].ns - imports.get(thread, Sum()).ns
        for thread, whole in calls.life_ns().items()
        if thread.node in ranks and thread in talking
    }
    if len(own) < 2:
        return
    slowest = max(own, key=own.__getitem__)
    even = fmean(own.values())
    saved = min(own[slowest] - even, max(talked.ns for talked in talking.values()))
    if saved < LEAST_OF_RANKS * own[slowest]:
        return
    names = tuple(dict.fromkeys(calls.timer[row].timer for talked in talking.values()
                                for row in talked.rows))  # fmt: skip
    yield Finding(
        KIND,
        f"rank {slowest} works for {duration(own[slowest])} outside collectives, all "
        f"{several(len(own), 'rank')} for {duration(even)} on average: the others wait for it",
        saved,
        trial.wall_ns,
        (trial.evidence(("rank", "timer"), (Condition("timer", names), HOST),
                        ("inclusive", "calls")),),
        "high",
        "give all ranks the same amount of work per step: equal lengths, sizes and files; look "
        "for a slower machine or GPU",
        "another rank is the slowest in the next run",
    )  # fmt: skip
