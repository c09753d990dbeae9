"""Ranks whose collectives are not matched: how long each spent in the program's own routines.

Without collectives nothing tells which rank the others waited for. But a routine that took one rank
longer than the others is known, and that rank is the one to look at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from taupy.analysis.places import places
from taupy.analysis.trees import Tree
from taupy.model import callpaths
from taupy.model.job import is_rank, rank_of
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.thread_groups import groups_of
from taupy.pprof.view import Column, View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sources import timer_paths
from taupy.profiledb.values import values
from taupy.units import duration

_LEAST_SHARE = 0.05
_MAIN = ("main thread", "other ranks")
_COLUMNS = (
    Column("rank", "int", "Rank"),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("longer_ns", "time_ns", "Longer by", width=9),
    Column("routine", heading="Most of it in"),
    Column("file", heading="File"),
    Column("line", "int", "Line"),
)


@dataclass(frozen=True, slots=True)
class Longer:
    """The routine that took a rank longer than the median of the others, by most."""

    rank: int
    timer: TimerRow
    excess_ns: float


def ranks_of(facts: Mapping[int, Mapping[str, str]]) -> dict[int, int]:
    """The ranks of the last attempt of a job: node -> number."""
    places_of = {node: rank_of(node, mine) for node, mine in facts.items() if is_rank(node, mine)}
    last = max((attempt for _, attempt in places_of.values()), default=1)
    return {node: rank for node, (rank, attempt) in places_of.items() if attempt == last}


def work_of_ranks(db: ProfileDB, trial: int) -> View | None:
    """One row per rank, and a note on the one that took longer; None without several ranks."""
    facts = query.node_facts(db, trial)
    rank_at = ranks_of(facts)
    if len(rank_at) < 2:
        return None
    by = ("thread", "callpath", "parent", "timer")
    host = Condition("kind", ("host",))
    table = values(db, Question((trial,), by=by, where=(host,), values=("calls", "exclusive")))
    tree = Tree.of(table, callpaths.parents(table))
    main = [group in _MAIN for group in groups_of(tree.threads, facts)]
    names = [
        str(rank_at.get(thread.node, "")) if is_main else ""
        for thread, is_main in zip(tree.threads, main, strict=True)
    ]
    own: dict[int, dict[TimerRow, float]] = {}
    whole: dict[int, float] = {}
    for name, mine in places(tree, names, timer_paths(db, trial)).items():
        if name:
            rank = int(name)
            whole[rank] = sum(place.ns for place in mine)
            own[rank] = {place.timer: place.ns for place in mine
                         if place.kind == "own" and place.timer is not None}  # fmt: skip
    longer = longer_than_others(own)
    rows = [_row(rank, whole[rank], longer.get(rank)) for rank in sorted(whole)]
    return View("RANKS, by what their own routines took", _COLUMNS, rows, _notes(longer, whole))


def longer_than_others(own: Mapping[int, Mapping[TimerRow, float]]) -> dict[int, Longer]:
    """For each rank, the routine that took it longer by most; ranks without one are omitted."""
    of_timer: dict[TimerRow, dict[int, float]] = defaultdict(dict)
    for rank, times in own.items():
        for timer, ns in times.items():
            of_timer[timer][rank] = ns
    longer: dict[int, Longer] = {}
    for timer, by_rank in of_timer.items():
        for rank, ns in by_rank.items():
            excess = ns - median(by_rank.get(other, 0.0) for other in own if other != rank)
            if excess > 0 and (rank not in longer or excess > longer[rank].excess_ns):
                longer[rank] = Longer(rank, timer, excess)
    return longer


def _notes(longer: Mapping[int, Longer], whole: Mapping[int, float]) -> Sequence[str]:
    notes = []
    by_excess = sorted(longer.values(), key=lambda item: -item.excess_ns)
    large = [item for item in by_excess if item.excess_ns >= _LEAST_SHARE * whole[item.rank]]
    if large:
        worst = large[0]
        rest = [rank for rank in whole if rank != worst.rank]
        notes.append(
            f"{worst.timer.timer} took rank {worst.rank} {duration(worst.excess_ns)} longer than "
            + (f"rank {rest[0]}" if len(rest) == 1 else "the median of the other ranks")
        )
        if len(whole) == 2 and len(large) == 2:
            other = large[1]
            notes.append(
                f"{other.timer.timer} took rank {other.rank} {duration(other.excess_ns)} longer "
                f"than rank {worst.rank}: one of the two ranks may be waiting for the other"
            )
    else:
        notes.append("no routine of the program took a rank much longer than the others")
    return [*notes, "no collectives were matched: who waited for whom is not known"]


def _row(
    rank: int, ns: float, longer: Longer | None
) -> tuple[int, float, float | None, str | None, str | None, int | None]:
    if longer is None:
        return rank, ns, None, None, None, None
    timer = longer.timer
    return rank, ns, longer.excess_ns, timer.short_name, timer.file, timer.line
