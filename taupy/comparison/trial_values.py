"""A metric's values in trials of the database, with each trial's threads combined.

    values = replace(TrialValues.of(db, trials, "ipc", "exclusive"), over="mean")
    for answer in values.answers("timer", where="host"):
        values.runs(answer, names)          # by trial: values and calls under these names

All trials are queried at once, except those in which the metric has another meaning. Comparisons
and pivots are built on this.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from taupy.model.answer import Answer
from taupy.model.metric import Metric
from taupy.model.question import COUNTS, Condition
from taupy.pprof.selection import Selection, routine_test
from taupy.profiledb import metrics, trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import ids_of, labels
from taupy.profiledb.meaning import Meant, meant_in
from taupy.units import verb

Over = Literal["total", "mean", "max"]
Where = Literal["host", "gpu"]

Value = Literal[
    "exclusive", "inclusive", "calls", "subroutines", "exclusive-per-call", "inclusive-per-call"
]
VALUES: tuple[Value, ...] = get_args(Value)

COUNTED = "first(counted_time, time)"
"""The time during which the counters of a call path were read."""


def lacking_note(lacking: Sequence[int], trials: str, metric: str) -> str:
    """Which trials lack a metric; `trials`: of how many and which, such as "24 trials of A"."""
    more = " ..." if len(lacking) > 8 else ""
    ids = ", ".join(map(str, lacking[:8]))
    return f"{len(lacking)} of {trials} {verb(len(lacking), 'have')} no {metric}: {ids}{more}"


class Runs(NamedTuple):
    """A trial's values by key.

    Attributes:
        values: without NaN.
        times: time in ns during which the metric was measured, if requested.
    """

    values: dict[Hashable, float]
    calls: dict[Hashable, float]
    times: dict[Hashable, float]


@dataclass(frozen=True, slots=True)
class TrialValues:
    """One value of a metric in some trials.

    Attributes:
        meant: meaning of the metric in the trials that have it.
        missing: trials that do not have it.
        over: how to combine a trial's threads. The mean is over the threads on which the metric
            was measured; for a ratio, it is the ratio of the sums.
        timed: also query the time during which the metric was measured.
    """

    db: ProfileDB
    meant: Sequence[Meant]
    missing: Sequence[int]
    value: Value
    over: Over = "total"
    timed: bool = False
    _threads: dict[tuple[Where | None, bool], dict[int, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        db: ProfileDB,
        trial_ids: Iterable[int],
        metric: str,
        value: Value = "exclusive",
        *,
        lenient: bool = False,
        of_steps: bool = False,
    ) -> TrialValues:
        """Find the metric in the trials.

        Args:
            lenient: accept trials without the metric.
            of_steps: the questions will be by step.

        Raises:
            MissingMetric: a trial lacks the metric, or (lenient) all trials do.
            UsageError: the metric has different units in different trials.
        """
        trial_facts.with_room(db)
        ids = list(dict.fromkeys(trial_ids))
        meant, problems = meant_in(db, ids, metric, of_steps=of_steps)
        missing = [id for id in ids if id in problems]
        if missing and not (lenient and meant):
            raise problems[missing[0]]
        return cls(db, meant, missing, value)

    @property
    def metric(self) -> Metric:
        """The metric with its unit, which is the same in all trials."""
        return self.meant[0].metric.metric

    @property
    def additive(self) -> bool:
        """Whether the values of parts add up to that of the whole; false for ratios."""
        return all(values_meant.metric.additive for values_meant in self.meant)

    @property
    def trials(self) -> list[int]:
        return [trial for values_meant in self.meant for trial in values_meant.trials]

    @property
    def stored(self) -> Literal["inclusive", "exclusive"]:
        """The values of the metric that are needed."""
        return "inclusive" if self.value.startswith("inclusive") else "exclusive"

    # --- questions ---------------------------------------------------------------

    def limits(self, groups: Sequence[str], names: Sequence[str]) -> list[Condition]:
        """The same for timers in one of these groups whose names match one of these patterns.

        Raises:
            UsageError: a group or pattern matches nothing in any of the trials.
        """
        if not groups and not names:
            return []
        of_ids = labels(self.db, "timer", ids_of(self.db, "timer", self.trials))
        timers = [timer for (timer,) in of_ids.values()]
        test = routine_test(timers, Selection(groups=tuple(groups), names=tuple(names)))
        limits = [Condition("group", tuple(groups))] if groups else []
        if names and test is not None:
            fitting = {timer.timer for timer in timers if test(timer)}
            limits.append(Condition("timer", tuple(sorted(fitting))))
        return limits

    def answers(
        self,
        *by: str,
        where: Where | None = None,
        limits: Sequence[Condition] = (),
        calls: bool = True,
    ) -> list[Answer]:
        """The rows that have the metric, by trial and these dimensions (for "max", by thread).

        Args:
            where: restrict to host threads or to GPU streams.
            calls: include numbers of calls, which takes twice as long.

        Returns:
            One answer for each group of trials in which the metric has the same meaning.
        """
        thread = ("thread",) if self.over == "max" else ()
        by = tuple(dict.fromkeys(("trial", *thread, *by)))
        conditions = [*_kind(where), *limits]
        beside = (COUNTED,) if self.timed else ()
        answers = []
        for meant in self.meant:
            needed = (
                calls or self.value in COUNTS or not {*meant.formula.metrics}.isdisjoint(COUNTS)
            )
            counted = (*COUNTS, self.stored) if needed else (self.stored,)
            answer = metrics.of_meant(self.db, meant, by, conditions, counted, beside)
            measured = answer.formula.is_measured(answer.table, self.stored)
            rows = [row for row, here in enumerate(measured) if here]
            answers.append(answer if all(measured) else answer.taken(rows))
        return answers

    # --- values ------------------------------------------------------------------

    def runs(
        self, answer: Answer, keys: Sequence[Hashable], where: Where | None = None
    ) -> dict[int, Runs]:
        """The trials' values by key.

        Args:
            keys: key of each row of the answer; None for a row that does not count.
            where: the restriction with which the answer was requested.
        """
        codes, trials = answer.table.codes, answer.table.labels["trial"]
        runs_of: dict[int, Runs] = {}
        of_trials = {*codes["trial"]}
        if "thread" in codes or len(of_trials) > 1:
            places, sums = answer.grouped(
                None if key is None else (trial, thread, key)
                for trial, thread, key in zip(
                    codes["trial"], codes.get("thread", codes["trial"]), keys, strict=True
                )
            )
            for (trial, _, key), number, calls, time in zip(
                places, *self._columns(sums), strict=True
            ):
                runs = runs_of.setdefault(trials[trial], Runs({}, {}, {}))
                runs.calls[key] = runs.calls.get(key, 0) + calls
                if time is not None:
                    runs.times[key] = runs.times.get(key, 0) + time
                if number == number:
                    runs.values[key] = self._joined(runs.values.get(key), number)
        elif len(answer):  # of one trial, perhaps a million call paths
            names, sums = answer.grouped(keys)
            numbers, counts, times = (_present(names, column) for column in self._columns(sums))
            if names:
                runs_of[trials[of_trials.pop()]] = Runs(numbers, counts, times)
        for trial_id, runs in runs_of.items():
            self._finish(runs, trial_id, where, "step" in codes)
        return runs_of

    def _columns(
        self, sums: Answer
    ) -> tuple[Sequence[float], Sequence[float], Sequence[float | None]]:
        """The numbers of these sums, their calls, and the time in which they were measured."""
        counted = any(column.value == "calls" for column in sums.table.columns)
        calls = sums.calls() if counted else [0] * len(sums)
        times = sums.table.column("exclusive", COUNTED) if self.timed else [None] * len(sums)
        return self._numbers(sums), calls, times

    def totals(self, where: Where | None = None) -> dict[int, float]:
        """The total of each trial: of calls, or else of exclusive values."""
        value = self.value if self.value in COUNTS else "exclusive"
        whole = replace(self, value=value, timed=False)
        totals: dict[int, float] = {}
        for answer in whole.answers(where=where, calls=False):
            for trial, runs in whole.runs(answer, [""] * len(answer), where).items():
                totals[trial] = runs.values.get("", math.nan)
        return totals

    def _numbers(self, sums: Answer) -> Sequence[float]:
        if self.value == "calls":
            return sums.calls()
        return sums.subroutines() if self.value == "subroutines" else sums.values(self.stored)

    def _joined(self, before: float | None, number: float) -> float:
        """Combine the values of two threads of a trial."""
        if before is None:
            return number
        return before + number if self.value in COUNTS else max(before, number)

    def _finish(self, runs: Runs, trial_id: int, where: Where | None, of_steps: bool) -> None:
        """The divisor: number of threads for a mean, or calls."""
        if not self.additive or self.value in COUNTS:
            return
        values = runs.values
        if self.over == "mean":
            threads = self._thread_counts(where, of_steps).get(trial_id) or 1
            values.update({key: value / threads for key, value in values.items()})
        if self.value.endswith("per-call"):
            for key, value in list(values.items()):
                if runs.calls[key]:
                    values[key] = value / runs.calls[key]
                else:
                    del values[key]

    def _thread_counts(self, where: Where | None, of_steps: bool) -> dict[int, int]:
        """Number of threads of each trial on which the metric was measured, or that had steps."""
        if (where, of_steps) not in self._threads:
            measured_on: dict[int, set[Hashable]] = {}
            for meant in self.meant:
                by = ("trial", "thread", *(["step"] if of_steps else []))
                counted = metrics.of_meant(self.db, meant, by, _kind(where), (*COUNTS, "exclusive"))
                measured = counted.formula.is_measured(counted.table, "exclusive")
                rows = zip(
                    *map(counted.table.row_labels, ("trial", "thread")), measured, strict=True
                )
                for trial, thread, here in rows:
                    measured_on.setdefault(trial, set()).update([thread] if here else [])
            self._threads[where, of_steps] = {
                trial: len(threads) for trial, threads in measured_on.items()
            }
        return self._threads[where, of_steps]


def _present(names: Sequence[Hashable], column: Sequence[Any]) -> dict[Hashable, float]:
    """The values by name, where there are any."""
    both = zip(names, column, strict=True)
    if isinstance(column, array):  # of integers
        return dict(both)
    return {name: value for name, value in both if value is not None and value == value}


def _kind(where: Where | None) -> list[Condition]:
    return [Condition("kind", (where,))] if where else []
