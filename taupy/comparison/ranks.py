"""The ranks of a trial: what they did, who was waited for, and what took it longer.

The database is asked here; `analysis/ranks.py` matches and adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from taupy.analysis.ranks import Rank, Ranks, of_ranks
from taupy.model.collectives import THREAD_NAME
from taupy.model.profile import Steps
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.profiledb.collectives import read_collectives
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import threads_by_id, trial_metadata
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values

_SETTING_UP = (
    *("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py"),
    *("torch/distributed/constants.py", "torch/distributed/c10d_logger.py"),
)
"""Files whose routines wait for other processes, with all that they call."""
_NOT_WORK = ("import", "communication")
_INTERRUPTED = 3
"""So many times as often as the others a rank is interrupted that shares its processor."""
_LEAST_INTERRUPTED = 100


@dataclass(frozen=True, slots=True)
class Cause:
    """What took a rank longer than the others, in its own time.

    Attributes:
        layer, phase: that the routine was called in; None if there is none.
        excess_ns: by so much it exceeds the median of the other ranks.
        share: of all that took the rank longer.
    """

    timer: TimerRow
    layer: str | None
    phase: str | None
    excess_ns: float
    share: float


def read_ranks(db: ProfileDB, trial: int) -> Ranks:
    """The ranks of a trial, with their collectives matched."""
    threads = threads_by_id(db, trial)
    facts = _facts(db, trial)
    ranks: dict[int, Rank] = {}
    for thread, collectives, _ in read_collectives(db, trial):
        _rank(ranks, threads[thread].node, facts).communicators.append(collectives)
    for measured, steps in steps_of(db, trial):
        if steps.kind == "training" and (measured.node in ranks or not ranks):
            rank = _rank(ranks, measured.node, facts)
            rank.steps = rank.steps or steps
    return of_ranks([rank for _, rank in sorted(ranks.items())])


def _rank(ranks: dict[int, Rank], number: int, facts: Mapping[int, Mapping[str, str]]) -> Rank:
    if number not in ranks:
        peak = facts.get(number, {}).get("Peak Resident Memory (KiB)", "")
        ranks[number] = Rank(number, memory_bytes=int(peak) * 1024 if peak.isdigit() else None)
    return ranks[number]


def _facts(db: ProfileDB, trial: int) -> dict[int, dict[str, str]]:
    facts: dict[int, dict[str, str]] = {}
    for node, name, value in trial_metadata(db, trial):
        if node is not None:
            facts.setdefault(node, {})[name] = value
    return facts


# --- causes ----------------------------------------------------------------------


def causes(db: ProfileDB, trial: int, rank: int, others: Sequence[int]) -> list[Cause]:
    """What took a rank longer than the others, the largest first.

    Left out are imports, collectives, and making groups of processes: these wait for other ranks.
    """
    host = Condition("kind", ("host",))
    by = ("thread", "callpath", "parent", "timer", "layer", "phase")
    table = values(db, Question((trial,), by=by, where=(host,)))
    columns = {name: table.row_labels(name) for name in by}
    left_out = _setting_up(columns["callpath"], columns["parent"], columns["timer"])
    own: dict[tuple[TimerRow, str | None, str | None], dict[int, float]] = {}
    wanted = {rank, *others}
    for thread, callpath, parent, timer, layer, phase, time in zip(
        *(columns[name] for name in by), table.column("exclusive", "time"), strict=True
    ):
        if (
            thread.node in wanted
            and parent is not None
            and thread.name != THREAD_NAME
            and phase not in _NOT_WORK
            and callpath not in left_out
            and time
        ):
            by_rank = own.setdefault((timer, layer, phase), {})
            by_rank[thread.node] = by_rank.get(thread.node, 0.0) + time
    excess = {
        key: by_rank.get(rank, 0.0) - median(by_rank.get(other, 0.0) for other in others)
        for key, by_rank in own.items()
    }
    total = sum(time for time in excess.values() if time > 0)
    longer = sorted(((time, key) for key, time in excess.items() if time > 0), key=lambda x: -x[0])
    return [Cause(*key, time, time / total) for time, key in longer]


def _setting_up(
    callpaths: Iterable[int], parents: Iterable[int | None], timers: Iterable[TimerRow]
) -> set[int]:
    """Call paths in which groups of processes are made, and those below."""
    above: dict[int, int | None] = {}
    begins: set[int] = set()
    for callpath, parent, timer in zip(callpaths, parents, timers, strict=True):
        above[callpath] = parent
        if (timer.file or "").endswith(_SETTING_UP):
            begins.add(callpath)
    inside: dict[int, bool] = {}
    for callpath in above:
        path = []
        at: int | None = callpath
        while at is not None and at not in inside and at not in begins:
            path.append(at)
            at = above.get(at)
        verdict = at is not None and (at in begins or inside.get(at, False))
        inside.update(dict.fromkeys(path, verdict))
    return begins | {callpath for callpath, verdict in inside.items() if verdict}


def interruptions(db: ProfileDB, trial: int, rank: int, others: Sequence[int]) -> str:
    """Whether a rank's processor was shared with something else; "" if nothing says so."""
    facts = _facts(db, trial)
    counts = {
        number: int(text)
        for number in (rank, *others)
        if (text := facts.get(number, {}).get("Context Switches Involuntary", "")).isdigit()
    }
    rest = [counts[other] for other in others if other in counts]
    if rank not in counts or not rest:
        return ""
    usual = median(rest)
    if counts[rank] < max(_INTERRUPTED * usual, _LEAST_INTERRUPTED):
        return ""
    return (
        f"rank {rank} was interrupted {counts[rank]} times, the others {usual:.0f} times: it "
        "shared its processor"
    )


def longer_phase(
    steps: Mapping[int, Steps], waits: Mapping[int, float], rank: int, step: int
) -> tuple[str, float] | None:
    """The phase that took a rank longer in a step than the median of the other ranks, and by how
    much [ns]; None if that is not known.

    Args:
        waits: how long each rank waited for others in the step [ns]. What is not in a routine of
            communication is taken from its backward pass, in which DistributedDataParallel waits.
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
    """The time in each phase of a step, and in none of them, without waiting."""
    for row, (number, count) in enumerate(zip(steps.number, steps.count, strict=True)):
        if number <= step < number + count:
            phases = {kind: times[row] / count for kind, times in steps.phases.items()}
            phases["other"] = steps.time_ns[row] / count - sum(phases.values())
            unseen = max(0.0, waited - phases.get("communication", 0.0))
            if "backward" in phases:
                phases["backward"] = max(0.0, phases["backward"] - unseen)
            return phases
    return {}
