"""Add the metrics of a second run of a program to the trial of the first.

Counting slows a run down, so times and counters are better measured in separate runs and combined
in one trial. Rows are matched by call path, threads by name and order. Runs that differ too
much are rejected.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan

from taupy.errors import TaupyError
from taupy.model.forest import inclusive
from taupy.model.profile import ABSENT, CallTree, Metric, Profile, ThreadProfile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import callpath_ids, timer_ids
from taupy.profiledb.prepared import PreparedThread, thread_ids
from taupy.profiledb.reader import read_profile
from taupy.profiledb.steps import join_metrics
from taupy.profiledb.text import storable
from taupy.profiledb.writer import add_timers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

TIMES = ("time", "time_compensated", "cpu_time")
"""Metrics of the second run that are not added, because the first run's are better."""

LEAST_SHARE = 0.9
"""Minimum share of the time on call paths that both runs entered equally often."""

WAITING = re.compile(
    r"(threading|queue|selectors|socket|subprocess)\.py|(asyncio|concurrent|multiprocessing)/.*"
)
"""Files of the standard library whose routines wait; their numbers of calls vary by chance."""

HEALTH = "taupy.health."


class RunsDiffer(TaupyError):
    """The runs differ, or the trial has these metrics already."""


@dataclass(frozen=True, slots=True)
class Match:
    """How well two runs match.

    Attributes:
        share: share of the time (the smaller of the two runs') on call paths that both have;
            those with different numbers of calls count in proportion.
        callpaths: number of the second run's call paths on matched threads; `matched`: those
            that the trial has.
        threads: number of the second run's matched threads; `alone`: names of the others.
        metrics: names of the added metrics.
        kernels: kernels counted on call paths where the trial has none; their counters are
            omitted.
    """

    share: float
    callpaths: int
    matched: int
    threads: int
    alone: tuple[str, ...]
    metrics: tuple[str, ...]
    kernels: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = (
            f"{', '.join(self.metrics)}: joined by {self.matched} of {self.callpaths} call paths, "
            f"which {100 * self.share:.1f} % of the time was spent on"
        )
        if self.alone:
            text += f"; omitted threads that the trial does not have: {', '.join(self.alone)}"
        if self.kernels:
            text += f"; omitted kernels that the trial does not have: {', '.join(self.kernels)}"
        return text


@dataclass(slots=True)
class _Pair:
    """A thread of the trial and the matching thread of the second run."""

    first: ThreadProfile
    second: ThreadProfile
    first_ids: array[int]
    second_ids: array[int]


def merge_metrics(db: ProfileDB, trial: int, profile: Profile, least: float = LEAST_SHARE) -> Match:
    """Add a second run's metrics to a trial.

    Values of call paths that the trial lacks are added to the nearest caller it has, so that sums
    are complete. Rows of native threads are copied unchanged.

    Args:
        trial: its id.
        profile: the second run.
        least: minimum share that must match.

    Raises:
        RunsDiffer: the runs differ, or the trial has these metrics already.
    """
    metrics = tuple(
        dict.fromkeys(
            metric.name
            for metric in profile.metrics
            if metric.name not in TIMES
            and any(metric.name in thread.tree.inclusive for thread in profile.threads)
        )
    )
    if not metrics:
        raise RunsDiffer("the run has no counters to add to a trial")
    target = read_profile(db, trial)
    nodes = {thread.thread.node for thread in profile.threads}
    mine = [thread for thread in target.threads if thread.thread.node in nodes]
    doubled = sorted({name for thread in mine for name in thread.tree.inclusive} & set(metrics))
    if doubled:
        raise RunsDiffer(
            f"trial {trial} has {', '.join(doubled)} already; add other metrics or use another "
            "trial"
        )
    of_first, of_second = timer_ids(target.timers), timer_ids(profile.timers)
    hosts = [thread for thread in mine if thread.thread.kind == "host"]
    second = [thread for thread in profile.threads if thread.thread.kind == "host"]
    pairs, alone = _paired(hosts, second, of_first, of_second)
    share = _share(target, profile, pairs)
    streams, homeless = _streams(target, profile, of_first, of_second, metrics)
    timed = [pair for pair in pairs if _is_timed(pair.second)]
    callpaths = sum(len(pair.second_ids) for pair in timed)
    matched = sum(len(set(pair.second_ids) & set(pair.first_ids)) for pair in timed)
    native = [thread for thread in alone if not _is_timed(thread)]
    lost = tuple(_name(thread) for thread in alone if _is_timed(thread))
    match = Match(
        share=share,
        callpaths=callpaths,
        matched=matched,
        threads=len(timed),
        alone=lost,
        metrics=metrics,
        kernels=homeless,
    )
    if share < least:
        raise RunsDiffer(
            f"this run differs from trial {trial}: only {100 * share:.1f} % of the time is on "
            f"call paths that both entered equally often ({matched} of {callpaths} call paths "
            f"match; {100 * least:.0f} % are needed)"
        )
    joined = [
        PreparedThread.of(ThreadProfile(pair.first.thread, _joined(pair, metrics)), of_first)
        for pair in pairs
    ]
    joined += [PreparedThread.of(stream, of_first) for stream in streams]
    rows = [PreparedThread.of(_renumbered(thread, target), of_second) for thread in native]
    with db.transaction() as connection:
        numbers = metric_ids(connection, [m for m in profile.metrics if m.name in metrics])
        threads = thread_ids(connection, trial)
        for row in joined:
            row.add_values(connection, trial, threads[row.measured.thread.place], numbers)
        for pair in pairs:
            key = trial, threads[pair.first.thread.place]
            join_metrics(connection, key, pair.first.steps, pair.second.steps, metrics)
        _add_timers_of(connection, trial, profile, native, of_second)
        for row in rows:
            row.add(connection, trial, numbers)
        add_facts(connection, trial, _facts(profile, match))
    return match


def _streams(
    target: Profile,
    profile: Profile,
    of_first: list[int],
    of_second: list[int],
    metrics: Iterable[str],
) -> tuple[list[ThreadProfile], tuple[str, ...]]:
    """The trial's streams with the second run's counters of their kernels, and the kernels that
    the trial lacks.

    A counting run records neither streams nor CUDA API calls: a kernel is matched by the routines
    that launched it. If it ran on several streams, its counters are distributed in proportion to
    its launches.
    """
    homes: dict[tuple[object, ...], dict[tuple[int, int], int]] = {}
    for number, thread in enumerate(target.threads):
        if thread.thread.kind == "stream":
            for row, key in _kernels(thread, target, of_first):
                homes.setdefault(key, {})[number, row] = thread.tree.calls[row]
    values: dict[int, dict[int, dict[str, float]]] = {}
    homeless: dict[str, None] = {}
    for thread in profile.threads:
        if thread.thread.kind != "stream":
            continue
        for row, key in _kernels(thread, profile, of_second):
            counted = {
                name: thread.tree.exclusive[name][row]
                for name in metrics
                if name in thread.tree.exclusive and not isnan(thread.tree.exclusive[name][row])
            }
            places = homes.get(key, {})
            if counted and not places:
                timer = profile.timers[thread.tree.timer[row]]
                homeless[timer.short or timer.name] = None
            if "REGION" in profile.timers[thread.tree.timer[row]].groups:
                places = dict(sorted(places.items())[:1])  # its counters cover all streams
            whole = sum(places.values())
            for (number, at), calls in places.items():
                sums = values.setdefault(number, {}).setdefault(at, {})
                for name, value in counted.items():
                    part = value if len(places) == 1 else value * calls / whole
                    sums[name] = sums.get(name, 0) + part
    threads = [
        with_values(target.threads[number], rows, metrics) for number, rows in values.items()
    ]
    return threads, tuple(homeless)[:8]


def _kernels(
    measured: ThreadProfile, profile: Profile, ids: list[int]
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Rows of kernels and regions, with the keys for matching."""
    paths: list[tuple[int, ...]] = []
    for row, position in enumerate(measured.tree.timer):
        above = measured.tree.parent[row]
        groups = profile.timers[position].groups
        path = paths[above] if above >= 0 else ()
        paths.append(path if "CUDA_API" in groups else (*path, ids[position]))
        if ("GPU_KERNEL" in groups and measured.tree.calls[row]) or "REGION" in groups:
            yield row, (measured.thread.node, measured.thread.context, paths[row])


def with_values(
    measured: ThreadProfile, rows: Mapping[int, Mapping[str, float]], metrics: Iterable[str]
) -> ThreadProfile:
    """A stream with only these metrics: kernels without counts have no value.

    Args:
        rows: row of a kernel -> metric -> value.
    """
    tree = CallTree(
        measured.tree.timer, measured.tree.parent, measured.tree.calls, measured.tree.subroutines
    )
    for name in metrics:
        own: list[float] = [
            rows[row].get(name, ABSENT) if row in rows else ABSENT if calls else 0.0
            for row, calls in enumerate(tree.calls)
        ]
        own[0] = 0.0
        tree.exclusive[name] = _column("d", own)
        tree.inclusive[name] = _column("d", inclusive(tree.parent, own))
    return ThreadProfile(measured.thread, tree)


def _name(measured: ThreadProfile) -> str:
    where = measured.thread
    return f"{where.node}.{where.context}.{where.thread} {where.name}".rstrip()


def _paired(
    first: list[ThreadProfile],
    second: list[ThreadProfile],
    of_first: list[int],
    of_second: list[int],
) -> tuple[list[_Pair], list[ThreadProfile]]:
    """Threads matched by node, context and name, in order, then the rest in order; and the second
    run's unmatched threads."""
    pairs: list[_Pair] = []
    free = sorted(first, key=lambda thread: thread.thread)
    waiting = sorted(second, key=lambda thread: thread.thread)
    for by_name in (True, False):
        candidates: dict[tuple[object, ...], list[ThreadProfile]] = {}
        for thread in reversed(free):
            candidates.setdefault(_place(thread, by_name), []).append(thread)
        unmatched: list[ThreadProfile] = []
        for thread in waiting:
            partners = candidates.get(_place(thread, by_name))
            if not partners:
                unmatched.append(thread)
                continue
            partner = partners.pop()
            pairs.append(
                _Pair(partner, thread, _ids(partner.tree, of_first), _ids(thread.tree, of_second))
            )
        free = [thread for left in candidates.values() for thread in left]
        free.sort(key=lambda thread: thread.thread)
        waiting = unmatched
    return pairs, waiting


def _is_timed(measured: ThreadProfile) -> bool:
    """Whether the thread was timed; native threads have counters only."""
    return "time" in measured.tree.inclusive


def _place(measured: ThreadProfile, by_name: bool) -> tuple[object, ...]:
    where = measured.thread
    return (
        where.node,
        where.context,
        where.kind,
        _is_timed(measured),
        where.name if by_name else None,
    )


def _ids(tree: CallTree, timers: list[int]) -> array[int]:
    return callpath_ids(tree.parent, [timers[timer] for timer in tree.timer])


def _share(target: Profile, profile: Profile, pairs: list[_Pair]) -> float:
    """The smaller run's share of time on call paths that both runs entered equally often.

    CUDA API calls count as part of their caller, because a counting run does not record them. So
    do waiting routines of the standard library, whose calls vary from run to run.
    """
    nodes = {thread.thread.node for thread in profile.threads}
    shares = []
    for whole, mine, others in ((target, "first", "second"), (profile, "second", "first")):
        api = ["CUDA_API" in timer.groups for timer in whole.timers]
        waits = [WAITING.fullmatch(timer.file or "") is not None for timer in whole.timers]
        time = sum(
            sum(thread.tree.exclusive.get("time", ()))
            for thread in whole.threads
            if thread.thread.kind == "host" and thread.thread.node in nodes
        )
        together = 0.0
        for pair in pairs:
            tree, other = getattr(pair, mine).tree, getattr(pair, others).tree
            if "time" not in tree.exclusive:
                continue
            calls = dict(zip(getattr(pair, f"{others}_ids"), other.calls, strict=True))
            alike: list[float] = []
            for row, path in enumerate(getattr(pair, f"{mine}_ids")):
                here, other_calls = tree.calls[row], calls.get(path)
                above = tree.parent[row]
                if waits[tree.timer[row]] and above >= 0:
                    alike.append(alike[above])
                elif other_calls is not None:
                    alike.append(
                        min(here, other_calls) / max(here, other_calls)
                        if max(here, other_calls)
                        else 1.0
                    )
                else:
                    alike.append(alike[above] if api[tree.timer[row]] else 0.0)
                together += tree.exclusive["time"][row] * alike[row]
        shares.append(together / time if time else 0.0)
    return min(shares)


def _joined(pair: _Pair, metrics: Iterable[str]) -> CallTree:
    """The first run's tree with only the second run's metrics."""
    first, second = pair.first.tree, pair.second.tree
    row_of = {path: row for row, path in enumerate(pair.first_ids)}
    partner = [row_of.get(path, -1) for path in pair.second_ids]
    tree = CallTree(first.timer, first.parent, first.calls, first.subroutines)
    for name in metrics:
        if name not in second.inclusive:
            continue
        inclusive, exclusive = second.inclusive[name], second.exclusive[name]
        whole: list[float] = [ABSENT] * len(first)
        own: list[float] = [ABSENT] * len(first)
        for row, to in enumerate(partner):
            if to >= 0 and not isnan(inclusive[row]):
                whole[to], own[to] = inclusive[row], exclusive[row]
        for row, to in enumerate(partner):
            if to < 0 and not isnan(exclusive[row]):
                above = second.parent[row]
                while above >= 0 and (partner[above] < 0 or isnan(inclusive[above])):
                    above = second.parent[above]
                if above >= 0:
                    own[partner[above]] += exclusive[row]
        kind = "d" if any(map(isnan, whole)) else inclusive.typecode
        tree.inclusive[name] = _column(kind, whole)
        tree.exclusive[name] = _column(kind, own)
    return tree


def _column(kind: str, values: list[float]) -> array[int]:
    if kind == "q":
        return array("q", map(int, values))
    return array("d", values)  # type: ignore[return-value]


def _renumbered(measured: ThreadProfile, target: Profile) -> ThreadProfile:
    """A thread that the trial lacks, under a free number."""
    where = measured.thread
    taken = {
        other.thread.thread
        for other in target.threads
        if (other.thread.node, other.thread.context) == (where.node, where.context)
    }
    moved = ThreadProfile(replace(where, thread=max(taken, default=-1) + 1), measured.tree)
    target.threads.append(moved)
    return moved


def metric_ids(connection: sqlite3.Connection, metrics: Iterable[Metric]) -> dict[str, int]:
    """The ids of metrics by name; missing ones are created."""
    ids = {}
    for metric in metrics:
        key = (storable(metric.name), storable(metric.unit))
        connection.execute(
            "INSERT INTO metric (name, unit) VALUES (?, ?) ON CONFLICT DO NOTHING", key
        )
        (number,) = connection.execute(
            "SELECT id FROM metric WHERE name = ? AND unit = ?", key
        ).fetchone()
        ids[metric.name] = int(number)
    return ids


def _add_timers_of(
    connection: sqlite3.Connection,
    trial: int,
    profile: Profile,
    threads: list[ThreadProfile],
    ids: list[int],
) -> None:
    """Add the timers of the second run's native threads."""
    used = sorted({timer for thread in threads for timer in thread.tree.timer})
    add_timers(connection, trial, [profile.timers[at] for at in used], [ids[at] for at in used])


def _facts(profile: Profile, match: Match) -> dict[str, str]:
    """Metadata: how the run was counted, its problems, and how well it matched."""
    facts = {
        name: value
        for name, value in profile.metadata.items()
        if name.startswith(("taupy.counters.", HEALTH)) or name == "taupy.option.metrics"
    }
    return {**facts, "taupy.counters.joined": f"{match} (run {profile.uuid})"}


def add_facts(connection: sqlite3.Connection, trial: int, facts: Mapping[str, str]) -> None:
    """Add metadata to a trial; a new value is appended to an existing one on a line of its own."""
    for name, value in facts.items():
        connection.execute(
            "INSERT INTO metadata (trial_id, node, name, value) VALUES (?, NULL, ?, ?)"
            " ON CONFLICT (trial_id, name, ifnull(node, -1)) DO UPDATE"
            "    SET value = value || char(10) || excluded.value WHERE value <> excluded.value",
            (trial, storable(name), storable(value)),
        )
