"""Values of the trials of a sweep, by timer and thread, from one query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from taupy.analysis import match, program_parts
from taupy.comparison import operators as named
from taupy.comparison.matching import matched, timers_of_sides
from taupy.comparison.trial_values import TrialValues, Where
from taupy.model.answer import Answer
from taupy.model.profile import Steps
from taupy.model.question import Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.model.step_times import step_times
from taupy.network import phase_sums
from taupy.network.operators import GROUP, NOT_OPERATORS
from taupy.pprof import selection
from taupy.profiledb import metrics
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.meaning import Meant
from taupy.profiledb.steps import steps_of
from taupy.profiledb.sweeps import SweptTrials
from taupy.profiledb.translation import metrics_of
from taupy.profiledb.values import values

TimerKey = tuple[Where, str]


class Spent(NamedTuple):
    """A value of a timer over threads.

    Attributes:
        threads: node, context and value of each thread that has a value.
        total: over all threads, 0 if there are none; for a ratio, the ratio of the sums.
    """

    threads: list[tuple[int, int, float]]
    total: float

    def joined(self, across: Literal["max", "mean", "total"]) -> float:
        """Combine the values of all threads."""
        if not self.threads:
            return 0.0
        if across == "max":
            return float(max(value for _, _, value in self.threads))
        return self.total / (len(self.threads) if across == "mean" else 1)


@dataclass(slots=True)
class SweptTimer:
    """One timer on the host, or on the GPUs, of one trial."""

    groups: str
    calls: int
    exclusive: Spent
    inclusive: Spent


@dataclass(slots=True)
class Run:
    """A trial's values.

    Attributes:
        series: empty if there is one only.
        value: of the parameter.
        threads: largest inclusive value of each host thread, by `node.0.thread`.
        streams: sum of exclusive values of each GPU stream.
        whole: sum of all exclusive values; NaN if there are none.
        trimmed: imports and start-up were omitted.
    """

    trial: int
    series: str
    value: str
    trimmed: bool
    threads: dict[str, float] = field(default_factory=dict)
    streams: dict[str, float] = field(default_factory=dict)
    timers: dict[TimerKey, SweptTimer] = field(default_factory=dict)
    whole: float = math.nan
    total: float = 0.0

    def add(self, key: TimerKey, groups: str, thread: ThreadRow, own: float, whole: float) -> None:
        """Add the values of a timer on a thread; NaN for none."""
        timer = self.timers[key]
        timer.groups = timer.groups or groups
        for spent, value in ((timer.exclusive, own), (timer.inclusive, whole)):
            if value == value:
                spent.threads.append((thread.node, thread.context, value))
        place = f"{thread.node}.{thread.context}.{thread.thread}"
        if not thread.context and whole == whole:
            self.threads[place] = max(self.threads.get(place, 0), whole)
        if thread.context and own == own:
            self.streams[place] = self.streams.get(place, 0.0) + own


PROGRAM = "program"
"""Value of `of` for the whole program, including imports and start-up."""


def measured(db: ProfileDB, meant: Meant, swept: SweptTrials, of: str | None = None) -> list[Run]:
    """Values of these trials; a trial in which `of` did not run is omitted.

    Args:
        of: a routine or phase, with everything it called; `PROGRAM` for everything; None for
            everything except imports and start-up.

    Raises:
        UsageError: `of` matches no routine of the trials, or several.
    """
    answer = metrics.of_meant(db, meant, ("trial", "thread", "timer"))
    timers = answer.table.labels["timer"]
    trimmed = of is None and any(map(program_parts.is_import, timers))
    if trimmed:
        answer = program_parts.without_imports(_call_paths(db, meant))
    elif of is not None and of != PROGRAM:
        name = selection.one_routine(timers, of)
        answer = program_parts.below(_call_paths(db, meant), lambda timer: timer.timer == name)
    answer = answer.taken([row for row, here in enumerate(answer.measured()) if here])
    trials, own, whole = (
        answer.table.row_labels("trial"), answer.values("exclusive"), answer.values("inclusive")
    )  # fmt: skip
    names = _names(db, swept, answer)
    keys: list[tuple[int, TimerKey]] = [
        (trial, ("gpu" if thread.context else "host", names[trial].get(timer, timer.timer)))
        for trial, thread, timer in zip(trials, answer.threads, answer.timers, strict=True)
    ]
    runs = {
        trial.trial.id: Run(trial.trial.id, trial.series, trial.value, trimmed)
        for trial in swept.trials
        if trial.trial.id in meant.trials
    }
    places, sums = answer.grouped(keys)
    columns = sums.calls(), sums.values("exclusive"), sums.values("inclusive")
    for (trial, key), calls, *both in zip(places, *columns, strict=True):
        spent = (Spent([], value if value == value else 0.0) for value in both)
        runs[trial].timers[key] = SweptTimer("", calls, *spent)
    rows = zip(keys, answer.timers, answer.threads, own, whole, strict=True)
    for (trial, key), timer, thread, *values_here in rows:
        runs[trial].add(key, timer.groups, thread, *values_here)
    ids, wholes = answer.grouped(trials)
    for trial, value in zip(ids, wholes.values("exclusive"), strict=True):
        runs[trial].whole = value
    return [run for run in runs.values() if run.timers]


def _names(db: ProfileDB, swept: SweptTrials, answer: Answer) -> dict[int, dict[TimerRow, str]]:
    """Trial -> routine -> its name, the same for those that match at different values."""
    having = set(answer.table.labels["trial"])
    sides: dict[tuple[str, str], list[int]] = {}
    for trial in swept.trials:
        ids = sides.setdefault((trial.value, trial.series), [])
        ids += [trial.trial.id] if trial.trial.id in having else []
    timers = [
        {row: row for row in of_side if not match.is_kernel(row)}
        for of_side in timers_of_sides([answer], [*sides.values()])
    ]
    keys = matched(db, [*sides.values()], timers)
    named = [{row: key.timer for row, key in of_side.items()} for of_side in keys]
    return {
        trial: of_side
        for side, of_side in zip(sides.values(), named, strict=True)
        for trial in side
    }


def _call_paths(db: ProfileDB, meant: Meant) -> Answer:
    return metrics.of_meant(db, meant, ("trial", *metrics.CALL_TREE))


def known_phases(db: ProfileDB, trial: int) -> dict[TimerKey, SweptTimer]:
    """The phases of `taupy phases`, such as forward and backward: their time on each host thread,
    with all that ran in them except other phases."""
    table = values(db, phase_sums.question(trial))
    spent: dict[str, dict[tuple[int, int, int], float]] = {}
    calls: dict[str, int] = {}
    rows = zip(
        *phase_sums.row_phases(table), table.row_labels("thread"),
        table.column("exclusive", "time"), table.column("calls"), strict=True,
    )  # fmt: skip
    for kind, begun, thread, time, called in rows:
        if kind != phase_sums.NO_PHASE:
            of_kind = spent.setdefault(kind, {})
            of_kind[thread[:3]] = of_kind.get(thread[:3], 0.0) + (time or 0.0)
            calls[kind] = calls.get(kind, 0) + (int(called or 0) if begun else 0)
    timers: dict[TimerKey, SweptTimer] = {}
    for kind, of_kind in spent.items():
        threads = [(node, context, value) for (node, context, _), value in of_kind.items()]
        whole = Spent(threads, sum(of_kind.values()))
        timers["host", kind] = SweptTimer("PHASE", calls[kind], whole, whole)
    return timers


def operators(
    metric_values: TrialValues, sides: Sequence[Sequence[int]]
) -> dict[int, dict[TimerKey, SweptTimer]]:
    """GPU work of the trials by operator (host time, if a side has none), named as `taupy compare
    --by operator` does.

    Args:
        sides: the trials with each value.
    """
    where = named.place(metric_values, sides)
    answers = metric_values.answers("operator", "outer_operator", "thread", where=where)
    if where == "gpu":
        answers = [named.of_gpu_work(answer, "exclusive") for answer in answers]
    of_sides = named.of_sides(metric_values, "operator", answers, sides, where, (), exact=False)
    keys = {trial: keys for side, keys in zip(sides, of_sides.keys, strict=True) for trial in side}
    if all(key.timer in NOT_OPERATORS for of_trial in keys.values() for key in of_trial.values()):
        return {trial: {} for trial in keys}
    timers: dict[int, dict[TimerKey, SweptTimer]] = {trial: {} for trial in keys}
    for answer in answers:
        names = [
            (trial, keys[trial][pair].timer)
            for trial, pair in zip(
                answer.table.row_labels("trial"), named.nested("operator", answer), strict=True
            )
        ]
        places, sums = answer.grouped(names)
        for (trial, name), calls, total in zip(
            places, sums.calls(), sums.values("exclusive"), strict=True
        ):
            spent = Spent([], total)
            number = calls if where == "host" else 0
            timers[trial][where, name] = SweptTimer(GROUP, number, spent, spent)
        spread, sums = answer.grouped(zip(names, answer.threads, strict=True))
        for ((trial, name), thread), value in zip(spread, sums.values("exclusive"), strict=True):
            timers[trial][where, name].exclusive.threads.append((*thread[:2], value))
    for trial, calls_of in of_sides.calls.items():
        for pair, number in calls_of.items():
            if pair in keys[trial]:
                timers[trial][where, keys[trial][pair].timer].calls += number
    return timers


def stepped(db: ProfileDB, trial: int) -> tuple[float | None, ...]:
    """Of a training: its steps, the time of one [ns], samples and tokens per second, the largest
    memory and GPU memory [bytes]; () without steps."""
    longest: dict[int, Steps] = {}
    for thread, steps in steps_of(db, trial):
        if steps.kind == "training":
            longest.setdefault(thread.node, steps)
    times = [step_times(steps) for steps in longest.values()]
    if not times:
        return ()

    def rate(of_ranks: Iterable[float | None]) -> float | None:
        rates = [value for value in of_ranks if value is not None]
        return sum(rates) if len(rates) == len(times) else None

    def most(name: str) -> float | None:
        held = (steps.values.get(name, ()) for steps in longest.values())
        return max((value for of_rank in held for value in of_rank if value == value), default=None)

    return (
        max(sum(steps.count) for steps in longest.values()),
        max(time.median_ns for time in times),
        rate(time.samples_per_second for time in times),
        rate(time.tokens_per_second for time in times),
        most(RESIDENT),
        most(CUDA_ALLOCATED),
    )


def totals(db: ProfileDB, trials: Sequence[int]) -> dict[tuple[str, str], dict[int, float]]:
    """(name, unit) of each measured metric -> sum of exclusive values of each trial."""
    having: dict[tuple[str, str], list[int]] = {}
    for trial, of_trial in metrics_of(db, trials).items():
        for name, (_, unit) in of_trial.items():
            having.setdefault((name, unit), []).append(trial)
    sums_of: dict[tuple[str, str], dict[int, float]] = {}
    for (name, unit), ids in sorted(having.items()):
        table = values(db, Question(tuple(ids), (name,), ("trial",)))
        sums = zip(table.row_labels("trial"), table.column("exclusive", name), strict=True)
        sums_of[name, unit] = {trial: total for trial, total in sums if total is not None}
    return sums_of
