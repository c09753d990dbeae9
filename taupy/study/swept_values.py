"""Values of the trials of a sweep, by timer and thread, from one query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from taupy.analysis import match, program_parts
from taupy.comparison.matching import matched, timers_of_sides
from taupy.model.answer import Answer
from taupy.model.profile import Steps
from taupy.model.question import Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.model.step_times import step_times
from taupy.network import phase_sums
from taupy.pprof import selection
from taupy.profiledb import metrics
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.meaning import Meant
from taupy.profiledb.steps import steps_of
from taupy.profiledb.sweeps import SweptTrial
from taupy.profiledb.translation import metrics_of
from taupy.profiledb.values import values

Where = Literal["host", "gpu"]
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

    name: str
    groups: str
    calls: int
    exclusive: Spent
    inclusive: Spent


@dataclass(slots=True)
class Measured:
    """Totals of one trial's threads.

    Attributes:
        threads: largest inclusive value of each host thread, by `node.0.thread`.
        streams: sum of exclusive values of each GPU stream.
        whole: sum of all exclusive values; NaN if there are none.
        trimmed: imports and start-up were omitted.
    """

    swept: SweptTrial
    threads: dict[str, float] = field(default_factory=dict)
    streams: dict[str, float] = field(default_factory=dict)
    timers: dict[TimerKey, SweptTimer] = field(default_factory=dict)
    whole: float = math.nan
    total: float = 0.0
    trimmed: bool = False


PROGRAM = "program"
"""Value of `of` for the whole program, including imports and start-up."""


def measured(
    db: ProfileDB, meant: Meant, trials: Mapping[int, SweptTrial], of: str | None = None
) -> list[Measured]:
    """Values of these trials, in order; a trial in which `of` did not run is omitted.

    Args:
        of: a routine or phase, with everything it called; `PROGRAM` for everything; None for
            everything except imports and start-up.

    Raises:
        UsageError: `of` matches no routine of the trials, or several.
    """
    answer = metrics.of_meant(db, meant, ("trial", "thread", "timer"))
    timers = answer.table.labels["timer"]
    if of is not None and of != PROGRAM:
        name = selection.one_routine(timers, of)
        answer = program_parts.below(_call_paths(db, meant), lambda timer: timer.timer == name)
    trimmed = of is None and any(map(program_parts.is_import, timers))
    if trimmed:
        answer = program_parts.without_imports(_call_paths(db, meant))
    here = answer.measured()
    if not all(here):
        answer = answer.taken([row for row, keep in enumerate(here) if keep])
    measured_of = {trial: Measured(trials[trial], trimmed=trimmed) for trial in meant.trials}
    labels = answer.table.row_labels("trial")
    names = _names(db, trials, answer)
    keys: list[tuple[int, Where, str]] = [
        (trial, "gpu" if thread.context else "host", names[trial].get(timer, timer.timer))
        for trial, thread, timer in zip(labels, answer.threads, answer.timers, strict=True)
    ]
    _add_timers(measured_of, answer, keys)
    _add_threads(measured_of, answer)
    ids, wholes = answer.grouped(labels)
    for trial, value in zip(ids, wholes.values("exclusive"), strict=True):
        measured_of[trial].whole = value
    return [run for run in measured_of.values() if run.timers]


def _names(
    db: ProfileDB, trials: Mapping[int, SweptTrial], answer: Answer
) -> dict[int, dict[TimerRow, str]]:
    """Trial -> routine -> its name, the same for those that match at different values."""
    sides: dict[tuple[str, str], set[int]] = {}
    for trial in answer.table.labels["trial"]:
        sides.setdefault((trials[trial].series, trials[trial].value), set()).add(trial)
    timers = [
        {row: row for row in of_side if not match.is_kernel(row)}
        for of_side in timers_of_sides([answer], [*sides.values()])
    ]
    keys = matched(db, [*sides.values()], timers) if sides else []
    return {
        trial: {row: key.timer for row, key in of_side.items()}
        for side, of_side in zip(sides.values(), keys, strict=True)
        for trial in side
    }


def _call_paths(db: ProfileDB, meant: Meant) -> Answer:
    return metrics.of_meant(db, meant, ("trial", *metrics.CALL_TREE))


def _add_timers(
    measured_of: Mapping[int, Measured], answer: Answer, keys: Sequence[tuple[int, Where, str]]
) -> None:
    places, sums = answer.grouped(keys)
    for (trial, where, name), calls, own, whole in zip(
        places, sums.calls(), sums.values("exclusive"), sums.values("inclusive"), strict=True
    ):
        timer = SweptTimer(name, "", calls, _spent(own), _spent(whole))
        measured_of[trial].timers[where, name] = timer
    for (trial, where, name), row, thread, own, whole in zip(
        keys, answer.timers, answer.threads, answer.values("exclusive"),
        answer.values("inclusive"), strict=True,
    ):  # fmt: skip
        timer = measured_of[trial].timers[where, name]
        timer.groups = timer.groups or row.groups
        for spent, value in ((timer.exclusive, own), (timer.inclusive, whole)):
            if value == value:
                spent.threads.append((thread.node, thread.context, value))


def _spent(total: float) -> Spent:
    return Spent([], total if total == total else 0.0)


def _add_threads(measured_of: Mapping[int, Measured], answer: Answer) -> None:
    for trial, thread, own, whole in zip(
        answer.table.row_labels("trial"), answer.threads, answer.values("exclusive"),
        answer.values("inclusive"), strict=True,
    ):  # fmt: skip
        place = f"{thread.node}.{thread.context}.{thread.thread}"
        if not thread.context and whole == whole:
            threads = measured_of[trial].threads
            threads[place] = max(threads.get(place, 0), whole)
        if thread.context and own == own:
            streams = measured_of[trial].streams
            streams[place] = streams.get(place, 0.0) + own


def known_phases(db: ProfileDB, trial: int) -> dict[TimerKey, SweptTimer]:
    """The phases of `taupy phases`, such as forward and backward: their time on each host thread,
    with all that ran in them except other phases."""
    table = values(db, phase_sums.question(trial))
    kinds, begins = phase_sums.row_phases(table)
    spent: dict[str, dict[tuple[int, int, int], float]] = {}
    calls: dict[str, int] = {}
    rows = zip(
        kinds, begins, table.row_labels("thread"), table.column("exclusive", "time"),
        table.column("calls"), strict=True,
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
        timers["host", kind] = SweptTimer(kind, "PHASE", calls[kind], whole, whole)
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
