"""Rule: some threads, processes or ranks get more of the same work than others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from taupy.analysis.findings import waiting
from taupy.analysis.findings.calls import Sum, around, phase, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.findings.workers import Worker, workers
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import duration, several

KIND = "imbalance"
NEEDS = ("host",)

LEAST = 0.25
"""Minimum difference between the longest worker's time and the mean of all, as a share of the
former. Pools that hand out tasks one by one, and threads on a busy machine, differ by less."""

LEAST_ON_CLOCK = 0.1
"""The same for elapsed time, if CPU time is uneven, too: on a busy machine, a worker that waits for
a processor also takes longer."""

LEAST_SAVED = 0.05
"""Minimum saving as a share of elapsed time: with little to do in all, the first worker that gets a
processor does it, and there is nothing to divide better."""

MANY_PIECES = 20
"""Pieces that each worker takes from a queue, from which on they are divided as workers become
free, whatever each of them has done in all."""

LEAST_OF_RANKS = 0.05
"""The same for ranks, which do equal steps and wait for each other in each: jitter is a few
percent."""


MOST_WAITED = 1.25
"""Maximum time that the main thread waits, in lifetimes of the longest worker (which include its
start and end): it waits longer for workers that it starts one after the other."""


def find(trial: Trial) -> Iterator[Finding]:
    ranks = _ranks(trial)
    if len(ranks) > 1:
        yield from _of_ranks(trial, ranks)
        return
    groups: dict[TimerRow, list[Worker]] = {}
    for worker in workers(trial):
        groups.setdefault(worker.work, []).append(worker)
    for work, sharing in groups.items():
        if len(sharing) > 1:
            yield from _of_workers(trial, work, sharing)


def _of_workers(trial: Trial, work: TimerRow, sharing: list[Worker]) -> Iterator[Finding]:
    longest = max(sharing, key=lambda worker: worker.ns)
    cores = trial.cores or len(sharing)
    even = sum(worker.ns for worker in sharing) / min(len(sharing), cores)
    waited = _main_waits(trial)
    of_work = _uneven([worker.ns for worker in sharing], cores)
    # Of elapsed time, as the run's: the same part of its waits for a processor.
    saved = min(of_work * longest.clock_ns, waited)
    # Workers that are even on the clock and asleep most of the time differ by what a few samples
    # say of their waits for a processor.
    share = min(of_work, _uneven([worker.clock_ns for worker in sharing], cores))
    of_cpu = _uneven_cpu(trial, longest, sharing, cores) if share >= LEAST_ON_CLOCK else 0
    if min(worker.takes for worker in sharing) >= MANY_PIECES:
        return
    life = trial.calls.life_ns()[longest.thread]
    if (
        max(share, of_cpu) < LEAST
        or waited > MOST_WAITED * life
        or saved < LEAST_SAVED * trial.wall_ns
    ):
        return
    # The sentence is about work, which CPU times bear out; the time of the routine has its waits.
    of_cpu_times = (trial.cpu_of_threads(),) if trial.cpu_ns else ()
    yield Finding(
        KIND,
        f"of {several(len(sharing), 'worker')} that run {place(work)}, one works for "
        f"{duration(longest.ns)}, all of them for {duration(even)} on average, without their "
        "waits, also those for a processor",
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(*of_cpu_times,
                  trial.evidence(("thread",), (Condition("timer", (work.timer,)), HOST),
                        ("inclusive", "calls"))),
        confidence="high",
        attempt="divide the work by cost, not by count: smaller pieces, the largest first, handed "
        "out as workers become free",
        refuted_by="the longest piece cannot be divided, or workers are started one after "
        "the other",
    )  # fmt: skip


def _uneven(times: Sequence[float], cores: int) -> float:
    """Difference between the longest time and the mean of all, as a share of the former."""
    most = max(times)
    return 1 - sum(times) / min(len(times), cores) / most if most else 0.0


def _uneven_cpu(trial: Trial, longest: Worker, sharing: list[Worker], cores: int) -> float:
    """Difference between the longest worker's CPU time and the mean of all, as a share of the
    former; 0 if CPU times are unknown."""
    times = [trial.cpu_ns.get(worker.thread) for worker in sharing]
    most = trial.cpu_ns.get(longest.thread)
    if not most or None in times:
        return 0
    return 1 - sum(time or 0 for time in times) / min(len(times), cores) / most


def _main_waits(trial: Trial) -> float:
    """How long the main thread waits for others: the upper bound of the saving."""
    main, *_ = waiting.lives(trial)
    return main.whole_ns - main.working_ns


# --- ranks -----------------------------------------------------------------------


def _ranks(trial: Trial) -> dict[int, int]:
    """Node -> rank, for processes started by a launcher."""
    ranks = {}
    for node, facts in trial.nodes.items():
        text = next((facts[name] for name in ("RANK", "Rank", "MPI Rank") if name in facts), "")
        if text.isascii() and text.isdigit():
            ranks[node] = int(text)
    return ranks


def _of_ranks(trial: Trial, ranks: Mapping[int, int]) -> Iterator[Finding]:
    calls = trial.calls
    talking = calls.by_thread(calls.outermost(phase("communication")))
    others = calls.by_thread(calls.outermost(around))
    own = {
        ranks[thread.node]: whole - talking[thread].ns - others.get(thread, Sum()).ns
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
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("rank", "timer"), (Condition("timer", names), HOST),
                        ("inclusive", "calls")),),
        confidence="high",
        attempt="",
        refuted_by="another rank is the slowest in the next run",
    )  # fmt: skip
