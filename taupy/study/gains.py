"""Tuning candidates: rank routines by potential gain.

TAU multiplies the time by a ratio for which smaller is better (`product`). If larger is better,
routines are ranked by the time saved if the ratio reached a target (`shortfall`); with a
roofline, the target is the roof.

The bound is Amdahl's: a program of T seconds that saves t of them is T / (T - t) times faster. t
is an upper bound: work that overlaps with other work may save nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from taupy.model.answer import Answer
from taupy.model.finding import amdahl

Way = Literal["product", "shortfall", "value"]
WAYS: tuple[Way, ...] = get_args(Way)


@dataclass(slots=True)
class Routine:
    """Exclusive values of one routine over all threads.

    Attributes:
        time_ns: summed over threads; None if not measured.
        longest_ns: time on the node where it took longest: the largest possible saving.
        value: value of the metric to rank by; None if it has none.
        evidence: its other metrics, name -> value and unit.
        remarks: other facts about it, as text.
        groups: groups of the timer, joined by `|`.
    """

    name: str
    short: str
    calls: int = 0
    time_ns: float | None = None
    longest_ns: float | None = None
    value: float | None = None
    evidence: dict[str, tuple[float, str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    groups: str = ""


class Candidate(NamedTuple):
    """A routine with its rank.

    Attributes:
        score: sort key, largest first.
        share: share of the time of all routines considered, 0 to 1.
        saved_ns: largest possible saving.
        saved_share: saving as a share of the program's time, 0 to 1.
        speedup: largest possible speed-up of the program; None if unbounded.
    """

    routine: Routine
    score: float
    share: float | None
    saved_ns: float | None
    saved_share: float | None
    speedup: float | None


def routines(
    times: Answer | None, values: Answer | None, evidence: Mapping[str, Answer]
) -> list[Routine]:
    """Combine exclusive values by routine.

    Args:
        times: the metric `time` [ns], by timer and node.
        values: the metric to rank by, by timer.
        evidence: other metrics by name, by timer.
    """
    by_name: dict[str, Routine] = {}
    if times is not None:
        for (name, short, groups), calls, time in _by_name(times):
            by_name[name] = Routine(name, short, calls, time, groups=groups)
        pairs = zip(times.timers, times.table.row_labels("node"), strict=True)
        places, sums = times.grouped((timer.timer, node) for timer, node in pairs)
        for (name, _), time in zip(places, sums.values("exclusive"), strict=True):
            if name in by_name and time == time:
                by_name[name].longest_ns = max(by_name[name].longest_ns or 0, time)
    if values is not None:
        for (name, short, groups), calls, value in _by_name(values):
            routine = by_name.setdefault(name, Routine(name, short, groups=groups))
            routine.value = value
            routine.calls = routine.calls or calls
    for metric, answer in evidence.items():
        for (name, *_), _, value in _by_name(answer):
            if name in by_name:
                by_name[name].evidence[metric] = (value, answer.metric.unit)
    return list(by_name.values())


def _by_name(answer: Answer) -> list[tuple[tuple[str, str, str], int, float]]:
    """Names, groups, calls and value of each routine that has a value."""
    names, sums = answer.grouped(
        (timer.timer, timer.short_name, timer.groups) for timer in answer.timers
    )
    rows = zip(names, sums.calls(), sums.values("exclusive"), strict=True)
    return [row for row in rows if row[2] == row[2]]


def best(listed: Sequence[Routine]) -> float:
    """The largest value of the routines; 0 if none has one."""
    return max((routine.value for routine in listed if routine.value is not None), default=0.0)


def ranked(
    listed: Sequence[Routine], way: Way, wall_ns: float, target: float | None = None
) -> list[Candidate]:
    """The candidates, best first; routines without a value, or a needed time, are omitted.

    Args:
        way: "product": value x time. "shortfall": time saved if the value reached the target.
            "value": the value itself.
        wall_ns: time of the program.
        target: for a shortfall; None for the best value of the routines.
    """
    target = best(listed) if target is None else target
    total = sum(routine.time_ns or 0 for routine in listed)
    candidates = []
    for routine in listed:
        if routine.value is None or (way != "value" and not routine.time_ns):
            continue
        time, lost = routine.time_ns or 0, 1.0
        if way == "shortfall":
            lost = max(0.0, 1 - routine.value / target) if target > 0 else 0.0
        score = {"product": routine.value * time, "shortfall": time * lost}.get(way, routine.value)
        saved = None if routine.longest_ns is None else routine.longest_ns * lost
        if saved is not None and wall_ns > 0:
            saved = min(saved, wall_ns)
        own = time / total if routine.time_ns is not None and total > 0 else None
        candidates.append(Candidate(routine, score, own, saved, *amdahl(saved, wall_ns)))
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.routine.name))


def under_roofs(
    listed: Sequence[Routine], roof_share: Mapping[str, float], wall_ns: float
) -> list[Candidate]:
    """Rank by the time saved if each routine reached its roof.

    Args:
        roof_share: routine -> share of the roof; above 1 counts as 1.
    """
    for routine in listed:
        share = roof_share.get(routine.name, math.nan)
        routine.value = None if math.isnan(share) else share
    return ranked(listed, "shortfall", wall_ns, target=1.0)
