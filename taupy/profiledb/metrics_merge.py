"""Metrics of a second run of a program join the trial of the first.

A run that counts is slower than one that is timed, so the two are better taken apart: the
times of the one and the counters of the other become one trial. Rows are joined by call
path, threads by their names and order. Two runs that did not run the same are refused.
"""

from __future__ import annotations

import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isnan

from taupy.errors import TaupyError
from taupy.model.profile import ABSENT, CallTree, Metric, Profile, ThreadProfile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import callpath_ids, timer_id
from taupy.profiledb.prepared import PreparedThread
from taupy.profiledb.reader import read_profile
from taupy.profiledb.text import storable
from taupy.profiledb.writer import add_timers

TIMES = ("time", "time_compensated", "cpu_time")
"""Metrics of a second run that do not join: the first one's are the better."""

LEAST_SHARE = 0.9
"""Share of the time that must lie on call paths that both runs ran as often."""

WAITING = re.compile(
    r"(threading|queue|selectors|socket|subprocess)\.py|(asyncio|concurrent|multiprocessing)/.*"
)
"""Files of the standard library whose routines wait for others: how often is a matter of chance."""

HEALTH = "taupy.health."


class RunsDiffer(TaupyError):
    """The runs did not run the same, or the trial has these metrics already."""


@dataclass(frozen=True, slots=True)
class Match:
    """How well two runs fit together.

    Attributes:
        share: of the time (of the run for which it is less) on call paths that both ran;
            one that the one ran more often than the other counts in proportion.
        callpaths: of the second run, of threads that have a partner; `matched`: of these,
            those that the trial has.
        threads: of the second run that have a partner; `alone`: names of those without.
        metrics: names of the metrics that joined.
        kernels: that the second run counted on call paths that the trial has no such kernel
            on; their counters are left out.
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
            text += f"; left out, since the trial has no such thread: {', '.join(self.alone)}"
        if self.kernels:
            text += f"; left out, since the trial has no such kernels: {', '.join(self.kernels)}"
        return text


@dataclass(slots=True)
class _Pair:
    """A thread of the trial and the one of the second run that did its work there."""

    first: ThreadProfile
    second: ThreadProfile
    first_ids: array[int]
    second_ids: array[int]


def merge_metrics(db: ProfileDB, trial: int, profile: Profile, least: float = LEAST_SHARE) -> Match:
    """Add a second run's metrics to a trial.

    Values of call paths that the trial does not have count as their nearest caller's that
    it has, so that sums stay whole. Rows that only native threads have come as they are.

    Args:
        trial: its number.
        profile: of the second run.
        least: share that must match.

    Raises:
        RunsDiffer: the programs differ in what they ran, or the trial has such metrics.
    """
    metrics = tuple(
        dict.fromkeys(
            metric.name
            for metric in profile.metrics
            if metric.name not in TIMES
            and any(metric.name in one.tree.inclusive for one in profile.threads)
        )
    )
    if not metrics:
        raise RunsDiffer("the run has counted nothing that could be added to a trial")
    target = read_profile(db, trial)
    nodes = {one.thread.node for one in profile.threads}
    mine = [one for one in target.threads if one.thread.node in nodes]
    there = sorted({name for one in mine for name in one.tree.inclusive} & set(metrics))
    if there:
        raise RunsDiffer(
            f"trial {trial} has {', '.join(there)} already; join other metrics, or another trial"
        )
    ids = {id(one): [timer_id(timer) for timer in one.timers] for one in (target, profile)}
    of_first, of_second = ids[id(target)], ids[id(profile)]
    hosts = [one for one in mine if one.thread.kind == "host"]
    second = [one for one in profile.threads if one.thread.kind == "host"]
    pairs, alone = _paired(hosts, second, of_first, of_second)
    share = _share(target, profile, pairs)
    streams, homeless = _streams(target, profile, of_first, of_second, metrics)
    timed = [pair for pair in pairs if _is_timed(pair.second)]
    callpaths = sum(len(pair.second_ids) for pair in timed)
    matched = sum(len(set(pair.second_ids) & set(pair.first_ids)) for pair in timed)
    native = [one for one in alone if not _is_timed(one)]
    lost = tuple(_name(one) for one in alone if _is_timed(one))
    match = Match(share, callpaths, matched, len(timed), lost, metrics, homeless)
    if share < least:
        raise RunsDiffer(
            f"this run and trial {trial} did not run the same: only {100 * share:.1f} % of the "
            f"time lies on call paths that both ran as often ({matched} of {callpaths} call paths "
            f"match; {100 * least:.0f} % are needed)"
        )
    joined = [
        PreparedThread.of(ThreadProfile(pair.first.thread, _joined(pair, metrics)), of_first)
        for pair in pairs
    ]
    joined += [PreparedThread.of(one, of_first) for one in streams]
    rows = [PreparedThread.of(_renumbered(one, target), of_second) for one in native]
    with db.transaction() as connection:
        numbers = metric_ids(connection, [m for m in profile.metrics if m.name in metrics])
        threads = dict(
            (tuple(place), number)
            for number, *place in connection.execute(
                "SELECT id, node, context, thread FROM thread WHERE trial_id = ?", (trial,)
            )
        )
        for one in joined:
            place = (one.thread.node, one.thread.context, one.thread.thread)
            one.add_values(connection, trial, threads[place], numbers)
        _add_timers_of(connection, trial, profile, native, of_second)
        for one in rows:
            one.add(connection, trial, numbers)
        add_facts(connection, trial, _facts(profile, match))
    return match


def _streams(
    target: Profile,
    profile: Profile,
    of_first: list[int],
    of_second: list[int],
    metrics: Iterable[str],
) -> tuple[list[ThreadProfile], tuple[str, ...]]:
    """The trial's streams with what the second run counted of their kernels, and the kernels
    that it does not have.

    A run that counts does not tell streams and calls of CUDA's API: a kernel is found by the
    routines that launched it. Where it ran on several streams its counters are shared out in
    proportion to its launches.
    """
    homes: dict[tuple[object, ...], dict[tuple[int, int], int]] = {}
    for number, one in enumerate(target.threads):
        if one.thread.kind == "stream":
            for row, key in _kernels(one, target, of_first):
                homes.setdefault(key, {})[number, row] = one.tree.calls[row]
    values: dict[int, dict[int, dict[str, float]]] = {}
    homeless: dict[str, None] = {}
    for one in profile.threads:
        if one.thread.kind != "stream":
            continue
        for row, key in _kernels(one, profile, of_second):
            counted = {
                name: one.tree.exclusive[name][row]
                for name in metrics
                if name in one.tree.exclusive and not isnan(one.tree.exclusive[name][row])
            }
            places = homes.get(key, {})
            if counted and not places:
                timer = profile.timers[one.tree.timer[row]]
                homeless[timer.short or timer.name] = None
            if "REGION" in profile.timers[one.tree.timer[row]].groups:
                places = dict(sorted(places.items())[:1])  # counted over all streams
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
    one: ThreadProfile, profile: Profile, ids: list[int]
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Rows of kernels that ran, and of regions, with what they are found by."""
    paths: list[tuple[int, ...]] = []
    for row, position in enumerate(one.tree.timer):
        above = one.tree.parent[row]
        groups = profile.timers[position].groups
        path = paths[above] if above >= 0 else ()
        paths.append(path if "CUDA_API" in groups else (*path, ids[position]))
        if ("GPU_KERNEL" in groups and one.tree.calls[row]) or "REGION" in groups:
            yield row, (one.thread.node, one.thread.context, paths[row])


def with_values(
    one: ThreadProfile, rows: Mapping[int, Mapping[str, float]], metrics: Iterable[str]
) -> ThreadProfile:
    """A stream with these metrics alone: kernels that were not counted have no value.

    Args:
        rows: row of a kernel -> metric -> value.
    """
    tree = CallTree(one.tree.timer, one.tree.parent, one.tree.calls, one.tree.subroutines)
    for name in metrics:
        own: list[float] = [
            rows[row].get(name, ABSENT) if row in rows else ABSENT if calls else 0.0
            for row, calls in enumerate(tree.calls)
        ]
        own[0] = 0.0
        whole = own.copy()
        for row in range(len(own) - 1, 0, -1):
            above = tree.parent[row]
            if not isnan(whole[row]):
                whole[above] = whole[row] + (0 if isnan(whole[above]) else whole[above])
        tree.exclusive[name], tree.inclusive[name] = _column("d", own), _column("d", whole)
    return ThreadProfile(one.thread, tree)


def _name(one: ThreadProfile) -> str:
    where = one.thread
    return f"{where.node}.{where.context}.{where.thread} {where.name}".rstrip()


def _paired(
    first: list[ThreadProfile],
    second: list[ThreadProfile],
    of_first: list[int],
    of_second: list[int],
) -> tuple[list[_Pair], list[ThreadProfile]]:
    """Threads that are each other's: of one node, context and name, in their order; what is
    left over, in its order. And the second run's threads without a partner."""
    pairs: list[_Pair] = []
    free = sorted(first, key=lambda one: one.thread)
    waiting = sorted(second, key=lambda one: one.thread)
    for by_name in (True, False):
        candidates: dict[tuple[object, ...], list[ThreadProfile]] = {}
        for one in reversed(free):
            candidates.setdefault(_place(one, by_name), []).append(one)
        unmatched: list[ThreadProfile] = []
        for one in waiting:
            partners = candidates.get(_place(one, by_name))
            if not partners:
                unmatched.append(one)
                continue
            partner = partners.pop()
            pairs.append(
                _Pair(partner, one, _ids(partner.tree, of_first), _ids(one.tree, of_second))
            )
        free = [one for left in candidates.values() for one in left]
        free.sort(key=lambda one: one.thread)
        waiting = unmatched
    return pairs, waiting


def _is_timed(one: ThreadProfile) -> bool:
    """Native threads are not: only their counters are known."""
    return "time" in one.tree.inclusive


def _place(one: ThreadProfile, by_name: bool) -> tuple[object, ...]:
    where = one.thread
    return (where.node, where.context, where.kind, _is_timed(one), where.name if by_name else None)


def _ids(tree: CallTree, timers: list[int]) -> array[int]:
    return callpath_ids(tree.parent, [timers[timer] for timer in tree.timer])


def _share(target: Profile, profile: Profile, pairs: list[_Pair]) -> float:
    """The share of the time on call paths that both ran as often, of the run of less.

    Calls of CUDA's API count as their caller's: a run that counts does not record them. So
    do the standard library's ways of waiting: they differ from one run to the next.
    """
    nodes = {one.thread.node for one in profile.threads}
    shares = []
    for whole, mine, others in ((target, "first", "second"), (profile, "second", "first")):
        api = ["CUDA_API" in timer.groups for timer in whole.timers]
        waits = [WAITING.fullmatch(timer.file or "") is not None for timer in whole.timers]
        time = sum(
            sum(one.tree.exclusive.get("time", ()))
            for one in whole.threads
            if one.thread.kind == "host" and one.thread.node in nodes
        )
        together = 0.0
        for pair in pairs:
            tree, other = getattr(pair, mine).tree, getattr(pair, others).tree
            if "time" not in tree.exclusive:
                continue
            calls = dict(zip(getattr(pair, f"{others}_ids"), other.calls, strict=True))
            alike: list[float] = []
            for row, path in enumerate(getattr(pair, f"{mine}_ids")):
                here, there = tree.calls[row], calls.get(path)
                above = tree.parent[row]
                if waits[tree.timer[row]] and above >= 0:
                    alike.append(alike[above])
                elif there is not None:
                    alike.append(min(here, there) / max(here, there) if max(here, there) else 1.0)
                else:
                    alike.append(alike[above] if api[tree.timer[row]] else 0.0)
                together += tree.exclusive["time"][row] * alike[row]
        shares.append(together / time if time else 0.0)
    return min(shares)


def _joined(pair: _Pair, metrics: Iterable[str]) -> CallTree:
    """The first tree with the second one's metrics, and no others."""
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


def _renumbered(one: ThreadProfile, target: Profile) -> ThreadProfile:
    """A thread that the trial does not have, under a number that is free there."""
    where = one.thread
    taken = {
        other.thread.thread
        for other in target.threads
        if (other.thread.node, other.thread.context) == (where.node, where.context)
    }
    moved = ThreadProfile(replace(where, thread=max(taken, default=-1) + 1), one.tree)
    target.threads.append(moved)
    return moved


def metric_ids(connection: sqlite3.Connection, metrics: Iterable[Metric]) -> dict[str, int]:
    """The ids of metrics, by name; those that the database does not have are made."""
    found = {}
    for metric in metrics:
        key = (storable(metric.name), storable(metric.unit))
        connection.execute(
            "INSERT INTO metric (name, unit) VALUES (?, ?) ON CONFLICT DO NOTHING", key
        )
        (number,) = connection.execute(
            "SELECT id FROM metric WHERE name = ? AND unit = ?", key
        ).fetchone()
        found[metric.name] = int(number)
    return found


def _add_timers_of(
    connection: sqlite3.Connection,
    trial: int,
    profile: Profile,
    threads: list[ThreadProfile],
    ids: list[int],
) -> None:
    """Timers that only the second run's native threads have."""
    used = sorted({timer for one in threads for timer in one.tree.timer})
    add_timers(connection, trial, [profile.timers[at] for at in used], [ids[at] for at in used])


def _facts(profile: Profile, match: Match) -> dict[str, str]:
    """How it was counted, what is wrong with it, and how well it fits."""
    facts = {
        name: value
        for name, value in profile.metadata.items()
        if name.startswith(("taupy.counters.", HEALTH)) or name == "taupy.option.metrics"
    }
    return {**facts, "taupy.counters.joined": f"{match} (run {profile.uuid})"}


def add_facts(connection: sqlite3.Connection, trial: int, facts: Mapping[str, str]) -> None:
    """Add metadata to a trial; what stands there already stays, the new below it."""
    for name, value in facts.items():
        connection.execute(
            "INSERT INTO metadata (trial_id, node, name, value) VALUES (?, NULL, ?, ?)"
            " ON CONFLICT (trial_id, name, ifnull(node, -1)) DO UPDATE"
            "    SET value = value || char(10) || excluded.value WHERE value <> excluded.value",
            (trial, storable(name), storable(value)),
        )
