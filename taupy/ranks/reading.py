"""The ranks of a trial: what they did, which rank was waited for, and what took it longer.

This module queries the database; `matching.py` matches and adds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from taupy.errors import UsageError
from taupy.model.job import ENDED, EXIT, HOST, missing, rank_of, spans
from taupy.model.profile import Steps
from taupy.model.question import Condition, Question
from taupy.model.rows import signal_name
from taupy.profiledb.collectives import read_collectives, read_stretches
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels
from taupy.profiledb.query import node_facts, threads_by_id
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values
from taupy.ranks.chains import InRoutines, follow
from taupy.ranks.data import Rank, Ranks
from taupy.ranks.matching import aligned_moments, of_ranks
from taupy.units import duration

_INTERRUPTED = 3
"""A rank interrupted this many times as often as the others shares its processor."""
_LEAST_INTERRUPTED = 100
_RECEIVES = (":recv", ":recv_any_source", ":recvAnysource", ":irecv")
_OF_MPI = "MPI."
"""Start of the names of MPI's calls; those of `COMMUNICATION` are not matched."""
_LEAST_RECEIVED = 0.05
"""Minimum share of the steps' time for receives to be mentioned."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts of a job: a launcher may restart all ranks after a failure.

    Attributes:
        chosen: the attempt examined.
        all: the attempts in the trial.
    """

    chosen: int
    all: tuple[int, ...]


def read_ranks(db: ProfileDB, trial: int, attempt: int | None = None) -> tuple[Ranks, Attempts]:
    """The ranks of one attempt of a trial, with their collectives matched.

    Args:
        attempt: None: the last one.

    Raises:
        UsageError: there is no such attempt.
    """
    threads = threads_by_id(db, trial)
    facts = node_facts(db, trial)
    nodes = {thread.node for thread in threads.values()}
    places = {node: rank_of(node, facts.get(node, {})) for node in nodes}
    attempts = tuple(sorted({attempt for _, attempt in places.values()})) or (1,)
    chosen = attempts[-1] if attempt is None else attempt
    if chosen not in attempts:
        available = ", ".join(map(str, attempts))
        raise UsageError(f"trial {trial} has no attempt {chosen}, only {available}")
    ranks: dict[int, Rank] = {}

    def rank_at(node: int) -> Rank:
        rank = Rank(places[node][0], memory_bytes=_peak(facts.get(node, {})), node=node,
                    host=facts.get(node, {}).get(HOST))  # fmt: skip
        return ranks.setdefault(rank.number, rank)

    for thread, collectives, _ in read_collectives(db, trial):
        if places[node := threads[thread].node][1] == chosen:
            rank_at(node).communicators.append(collectives)
    for measured, steps in steps_of(db, trial):
        number, its_attempt = places[measured.node]
        if steps.kind == "training" and its_attempt == chosen and (number in ranks or not ranks):
            rank = rank_at(measured.node)
            rank.steps = rank.steps or steps
    job = of_ranks([rank for _, rank in sorted(ranks.items())])
    if len(job.matched) > 1:
        follow(job, _in_routines(db, trial, job))
    present = {number for number, its_attempt in places.values() if its_attempt == chosen}
    idle = [number for number in job.missing if number in present]
    job.missing = sorted({*job.missing} - present | {*missing(facts).get(chosen, ())})
    if idle:
        several = len(idle) > 1
        job.behind.insert(
            0,
            f"{'ranks' if several else 'rank'} {spans(idle)} began no collective (waiting for "
            f"{'them' if several else 'it'} is counted as transfer)",
        )
    job.failed = _failed(
        {number: facts.get(node, {}) for node, (number, its) in places.items() if its == chosen}
    )
    return job, Attempts(chosen, attempts)


def _in_routines(db: ProfileDB, trial: int, job: Ranks) -> dict[int, InRoutines]:
    """When the ranks were in routines that communicate, as far as stretches tell."""
    threads = threads_by_id(db, trial)
    ranks = {rank.place: rank.number for rank in job.ranks}
    held: dict[int, InRoutines] = {}
    for thread, stretches, callpaths in read_stretches(db, trial):
        rank = ranks.get(threads[thread].node)
        if rank is None or rank in held:
            continue
        phase_of = labels(db, "phase", [*dict.fromkeys(callpaths)])
        is_in = [phase_of[callpath][0] == "communication" for callpath in callpaths]
        own = np.where(is_in, np.array(stretches.own_ns, "f8"), 0.0)
        start, end = (
            aligned_moments(job, rank, times) for times in (stretches.start_ns, stretches.end_ns)
        )
        held[rank] = InRoutines(
            start, end, np.bincount(stretches.stretch, own, len(stretches)).astype("f8")
        )
    return held


def _failed(facts: Mapping[int, Mapping[str, str]]) -> list[str]:
    """The ranks that were killed or ended with an error, by their ends, the first one first.

    Args:
        facts: the metadata of each rank's process.
    """
    by_end: dict[str, list[int]] = {}
    for rank in sorted(facts, key=lambda rank: (facts[rank].get(ENDED, "").rjust(20), rank)):
        code = facts[rank].get(EXIT, "0")
        if code.removeprefix("-").isdigit() and int(code):
            end = f"killed by {signal_name(-int(code))}" if int(code) < 0 else f"exit code {code}"
            by_end.setdefault(end, []).append(rank)
    texts = [
        f"{'ranks' if len(ranks) > 1 else 'rank'} {spans(sorted(ranks))} ({end})"
        for end, ranks in by_end.items()
    ]
    return [f"failed, in this order: {', '.join(texts)}"] if texts else []


def unknown_waits(db: ProfileDB, trial: int, job: Ranks) -> dict[int, float]:
    """How long each rank at most waited in receives that are not matched, or not waited for when
    they were issued, and in calls of MPI that are not matched [ns]; ranks without any are left
    out."""
    ranks = {rank.place: rank for rank in job.ranks}
    where = (Condition("group", ("COMMUNICATION",)),)
    table = values(db, Question((trial,), by=("thread", "timer"), where=where))
    took: dict[int, float] = {}
    for thread, timer, time in zip(
        table.row_labels("thread"), table.row_labels("timer"),
        table.column("exclusive", "time"), strict=True,
    ):  # fmt: skip
        may_wait = timer.timer.endswith(_RECEIVES) or timer.timer.startswith(_OF_MPI)
        if thread.node in ranks and time and may_wait:
            number = ranks[thread.node].number
            took[number] = took.get(number, 0.0) + time
    for number, time in job.received_ns.items():
        took[number] = took.get(number, 0.0) - time
    return {number: time for number, time in took.items() if time > 0}


def receives(job: Ranks, took: Mapping[int, float]) -> str | None:
    """A note on such waits; None if they are short."""
    steps = [sum(rank.steps.time_ns) for rank in job.ranks if rank.steps is not None]
    if max(took.values(), default=0.0) <= _LEAST_RECEIVED * max(steps, default=0):
        return None
    least, most = (which(took, key=took.__getitem__) for which in (min, max))
    return (
        "waiting in sends, receives and other calls that are not matched, or asynchronous, is "
        "unknown and counts as compute: at most "
        f"{duration(took[most])} on rank {most}, "
        + (f"{duration(took[least])} on rank {least}" if least != most else "only there")
        + " (from each call to the end of its wait(), over the whole run)"
    )


def _peak(facts: Mapping[str, str]) -> int | None:
    """The peak resident memory of a process, in bytes."""
    peak = facts.get("Peak Resident Memory (KiB)", "")
    return int(peak) * 1024 if peak.isdigit() else None


def places(job: Ranks, rank: int) -> tuple[int, list[int]]:
    """The node of a rank, and those of the others."""
    nodes = {member.number: member.place for member in job.ranks}
    return nodes[rank], [node for number, node in nodes.items() if number != rank]


def interruptions(db: ProfileDB, trial: int, job: Ranks, rank: int) -> str:
    """Whether a rank's processor was shared with something else; "" if nothing says so."""
    facts = node_facts(db, trial)
    node, others = places(job, rank)
    counts = {
        number: int(text)
        for number in (node, *others)
        if (text := facts.get(number, {}).get("Context Switches Involuntary", "")).isdigit()
    }
    rest = [counts[other] for other in others if other in counts]
    if node not in counts or not rest:
        return ""
    usual = median(rest)
    if counts[node] < max(_INTERRUPTED * usual, _LEAST_INTERRUPTED):
        return ""
    return (
        f"rank {rank} was interrupted {counts[node]} times, the others {usual:.0f} times: it "
        "shared its processor"
    )


def longer_phase(
    steps: Mapping[int, Steps], waits: Mapping[int, float], rank: int, step: int
) -> tuple[str, float] | None:
    """The phase that took a rank longer in a step than the median of the other ranks, and by how
    much [ns]; None if that is not known.

    Args:
        waits: how long each rank waited for others in the step [ns]. Waits outside communication
            routines are subtracted from its backward pass, where DistributedDataParallel waits.
    """
    times = {
        number: _phases(of_rank, step, waits.get(number, 0.0)) for number, of_rank in steps.items()
    }
    rest = [phases for number, phases in times.items() if number != rank and phases]
    mine = times.get(rank)
    if not mine or not rest:
        return None
    excess = {
        kind: time - median(phases.get(kind, 0.0) for phases in rest)
        for kind, time in mine.items()
        if kind != "communication"
    }
    kind = max(excess, key=excess.__getitem__)
    return (kind, excess[kind]) if excess[kind] > 0 else None


def _phases(steps: Steps, step: int, waited: float) -> dict[str, float]:
    """The time in each phase of a step, and outside all phases, without waiting."""
    for row, (number, count) in enumerate(zip(steps.number, steps.count, strict=True)):
        if number <= step < number + count:
            phases = {kind: times[row] / count for kind, times in steps.phases.items()}
            phases["other"] = steps.time_ns[row] / count - sum(phases.values())
            unseen = max(0.0, waited - phases.get("communication", 0.0))
            if "backward" in phases:
                phases["backward"] = max(0.0, phases["backward"] - unseen)
            return phases
    return {}
