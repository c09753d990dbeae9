"""Trials of the database side by side: asks for their values, and has them matched and compared.

The one place where the database meets `analysis`: commands and notebooks ask here. What
comes out is data; `comparison_views.py` makes tables of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from taupy.analysis import match
from taupy.analysis.compare import Comparison, Row, compared
from taupy.analysis.match import Key, Level, Table
from taupy.errors import MissingMetric, UsageError
from taupy.model.names import NO_FILE, module_of
from taupy.model.profile import Metric
from taupy.pprof.selection import name_test
from taupy.profiledb import compare_query
from taupy.profiledb.compare_query import EventSums, Over, Sums, TimerFacts, Where
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import shown
from taupy.report.calls import CallsOfPaths, Medians
from taupy.report.path_names import PathsById, path_keys
from taupy.report.sides import Side
from taupy.report.trial_values import TrialValues, added

By = Literal["routine", "kernel", "callpath", "group", "file", "module", "event", "metadata"]
BYS: tuple[By, ...] = get_args(By)

FIRST_ROWS = 25
"""So many rows people see; what they need is asked for at once."""

Value = Literal[
    "exclusive", "inclusive", "calls", "subroutines", "exclusive-per-call", "inclusive-per-call"
]
VALUES: tuple[Value, ...] = get_args(Value)

Statistic = Literal["mean", "samples", "minimum", "maximum", "sum"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared, and how.

    Attributes:
        metric: measured or derived.
        value: which of its values; of a user event, a `Statistic`.
        over: threads of a trial.
        level, table: how far names are told apart (`analysis/match.py`).
        groups, names: only timers in one of these groups, with one of these patterns in
            their names; empty for all.
    """

    by: By = "routine"
    metric: str = "time"
    value: Value | Statistic = "exclusive"
    over: Over = "total"
    level: Level = "auto"
    table: Table | None = None
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Answer:
    """One table of a comparison.

    Attributes:
        where: the host's threads, the GPUs' streams, or None where both are together.
        metric: with the unit that values are in.
        keys: the names of rows, by what `comparison.rows` call them.
        calls: each row's calls on each side, as medians; empty of user events.
        sums: values of rows add up to the whole.
    """

    by: By
    where: Where | None
    metric: Metric
    value: Value | Statistic
    comparison: Comparison[Hashable]
    keys: Mapping[Hashable, Key]
    calls: Mapping[Hashable, tuple[float | None, ...]] = field(default_factory=dict)
    sums: bool = True


# --- answers -------------------------------------------------------------------


def answers(db: ProfileDB, sides: Sequence[Side], question: Question) -> list[Answer]:
    """The tables that answer a question: of routines, GPU work stands in its own.

    Raises:
        MissingMetric: a trial lacks the metric, or the rows that were asked for.
        UsageError: the value or a pattern does not go with what is compared.
    """
    _check(question)
    if question.by == "event":
        return [_events(db, sides, question)]
    asked = _Asked(db, sides, question)
    if question.by == "routine":
        found = [asked.answer(where) for where in ("host", "gpu") if asked.has(where)]
    elif question.by == "kernel":
        if not asked.has("gpu"):
            raise MissingMetric(
                f"none of these trials has '{shown(question.metric)}' of kernels: no GPU was "
                "measured; `taupy doctor` says what works here"
            )
        found = [asked.answer("gpu")]
    else:
        found = [asked.answer(None)]
    if not any(answer.comparison.rows for answer in found):
        what = "routine or kernel" if question.by == "routine" else question.by
        asked_for = " and ".join(
            text
            for text, given in (
                (f"--filter {', '.join(question.names)}", question.names),
                (f"--group {', '.join(question.groups)}", question.groups),
            )
            if given
        )
        raise UsageError(
            f"no {what} of these trials answers to {shown(asked_for)}; `taupy pprof -l` lists them"
            if asked_for
            else f"these trials have no {what} with '{shown(question.metric)}'"
        )
    return found


def _check(question: Question) -> None:
    of_events = question.value in STATISTICS
    if (question.by == "event") != of_events:
        there = STATISTICS if question.by == "event" else VALUES
        raise UsageError(
            f"'{question.value}' is no value of a {question.by} (there is: {', '.join(there)})"
        )


class _Asked:
    """A question to the sides' trials, their timers found."""

    def __init__(self, db: ProfileDB, sides: Sequence[Side], question: Question) -> None:
        self.db = db
        self.sides = sides
        self.question = question
        ids = [trial.id for side in sides for trial in side.trials]
        self.values = TrialValues(db, ids, question.metric, question.over)
        self._known: list[dict[int, TimerFacts]] | None = None

    @property
    def _facts(self) -> list[dict[int, TimerFacts]]:
        """Each side's timers, by id."""
        if self._known is None:
            self._known = [
                compare_query.timer_facts(self.db, [trial.id for trial in side.trials])
                for side in self.sides
            ]
        return self._known

    def has(self, where: Where) -> bool:
        """Was the metric measured there in any trial?"""
        return any(
            self.values.threads(trial.id, where) for side in self.sides for trial in side.trials
        )

    def answer(self, where: Where | None) -> Answer:
        by = self.question.by
        if by == "callpath" and (quick := self._same_callpaths()):
            return quick
        meant = [self._meant(side) for side in range(len(self.sides))]
        if by == "callpath":
            return self._callpaths(meant)
        if by in ("group", "file", "module"):
            return self._grouped(meant, NAMES[by])
        keys_of = match.matched(self._there(meant, where), self.question.level, self.question.table)
        keys = {key.identity: key for side in keys_of for key in side.values()}

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            known = keys_of[side]
            sums = self.values.timers(trial_id, where)
            return _folded((known[id].identity, one) for id, one in sums.items() if id in known)

        return self._answer(where, folded, keys)

    def _meant(self, side: int) -> dict[int, TimerFacts]:
        """The side's timers that the question is about."""
        facts = self._facts[side]
        wanted = {group.upper() for group in self.question.groups}
        tests = [name_test(pattern) for pattern in self.question.names]
        if not wanted and not tests:
            return facts
        return {
            id: one
            for id, one in facts.items()
            if (not wanted or wanted & set(one.groups.upper().split("|")))
            and (not tests or any(test(one.timer, one.short_name) for test in tests))
        }

    def _there(
        self, meant: Sequence[Mapping[int, TimerFacts]], where: Where | None
    ) -> list[dict[int, TimerFacts]]:
        """Of each side the timers that have values: another thread's names do not matter."""
        there = []
        for side, facts in zip(self.sides, meant, strict=True):
            ids = {id for trial in side.trials for id in self.values.timers(trial.id, where)}
            there.append({id: facts[id] for id in facts.keys() & ids})
        return there

    def _grouped(
        self,
        meant: Sequence[Mapping[int, TimerFacts]],
        names_of: Callable[[TimerFacts], tuple[str, ...]],
    ) -> Answer:
        keys: dict[Hashable, Key] = {}

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            names = {id: names_of(one) for id, one in meant[side].items()}
            sums = self.values.timers(trial_id)
            found = _folded((name, one) for id, one in sums.items() for name in names.get(id, ()))
            if self.question.value.startswith("inclusive"):
                whole = self.values.inclusive_by(trial_id, names)
                for name, one in found.items():
                    found[name] = one._replace(inclusive=whole.get(str(name), 0.0))
            for key in found:
                name = str(key)
                keys.setdefault(key, Key(key, name, name, None, None, "", "same"))
            return found

        return self._answer(None, folded, keys)

    def _callpaths(self, meant: Sequence[Mapping[int, TimerFacts]]) -> Answer:
        timers_of = match.matched(self._facts, self.question.level, self.question.table)
        paths = path_keys(self.db, self.sides, timers_of)
        limited = bool(self.question.groups or self.question.names)

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            sums = self.values.callpaths(trial_id)
            if limited:
                names, steps = meant[side], compare_query.callpath_parents(self.db, [trial_id])
                sums = {id: one for id, one in sums.items() if steps[id][0] in names}
            return paths.folded(side, sums)

        return self._answer(None, folded, paths)

    def _same_callpaths(self) -> Answer | None:
        """Where all trials have the same timers, ids say all: names only of what is shown."""
        question = self.question
        if (
            (question.value != "exclusive" and question.value != "inclusive")
            or question.table
            or question.groups
            or question.names
            or question.level not in ("auto", "exact")
        ):
            return None
        ids = [trial.id for side in self.sides for trial in side.trials]
        if len({compare_query.timer_ids(self.db, id) for id in ids}) > 1:
            return None
        values: list[list[dict[Hashable, float]]] = []
        for side in self.sides:
            values.append([])
            for trial in side.trials:
                column = self.values.callpath_column(trial.id, question.value)
                if column is None:
                    return None
                values[-1].append(dict(column.items()))
        totals = [[float(sum(trial.values())) for trial in side] for side in values]
        if question.value == "inclusive":
            totals = self._totals(None)
        rows = compared(values, totals)
        first = [row.key for row in rows.rows[:FIRST_ROWS] if isinstance(row.key, int)]
        return Answer(
            "callpath",
            None,
            self.values.metric,
            question.value,
            rows,
            PathsById(self.db, first),
            CallsOfPaths(self.db, self.sides, first),
            question.value == "exclusive",
        )

    def _answer(
        self,
        where: Where | None,
        folded: Callable[[int, int], Mapping[Hashable, Sums]],
        keys: Mapping[Hashable, Key],
    ) -> Answer:
        question = self.question
        value = VALUE_OF[question.value]  # type: ignore[index]
        values: list[list[dict[Hashable, float]]] = []
        calls: list[list[dict[Hashable, float]]] = []
        for at, side in enumerate(self.sides):
            values.append([])
            calls.append([])
            for trial in side.trials:
                sums = folded(at, trial.id)
                found = {key: value(one) for key, one in sums.items()}
                values[-1].append(
                    {key: one for key, one in found.items() if one is not None and one == one}
                )
                calls[-1].append({key: one.calls for key, one in sums.items()})
        additive = self.values.additive and not question.value.endswith("per-call")
        totals = self._totals(where) if question.value in ("exclusive", "inclusive") else None
        if question.value in ("calls", "subroutines"):
            totals = self._counts(where, value)
            additive = True
        rows = compared(values, totals, additive)
        if not additive:
            rows.totals = ()
        by_key = Medians(calls)
        # A routine in two groups counts in both.
        sums_up = additive and question.value != "inclusive" and question.by != "group"
        metric = metric_shown(self.values.metric, question.value)
        return Answer(question.by, where, metric, question.value, rows, keys, by_key, sums_up)

    def _counts(
        self, where: Where | None, value: Callable[[Sums], float | None]
    ) -> list[list[float]]:
        """Each trial's calls in all, also of what was not asked for."""
        return [
            [
                sum(value(one) or 0 for one in self.values.timers(trial.id, where).values())
                for trial in side.trials
            ]
            for side in self.sides
        ]

    def _totals(self, where: Where | None) -> list[list[float]]:
        """Each trial's whole; NaN where a trial has none."""
        found = [
            [self.values.total(trial.id, where) for trial in side.trials] for side in self.sides
        ]
        return [[math.nan if one is None else one for one in side] for side in found]


def _folded(rows: Iterable[tuple[Hashable, Sums]]) -> dict[Hashable, Sums]:
    """Rows of one key are one row."""
    found: dict[Hashable, Sums] = {}
    for key, sums in rows:
        found[key] = added(found[key], sums) if key in found else sums
    return found


def metric_shown(metric: Metric, value: str) -> Metric:
    """What the numbers are, where a value of a metric was asked for."""
    if value in ("calls", "subroutines"):
        return Metric(value, "call")
    if value.endswith("per-call") and metric.unit != "ns":
        return Metric(metric.name, f"{metric.unit}/call")
    return metric


# --- user events ---------------------------------------------------------------


def _events(db: ProfileDB, sides: Sequence[Side], question: Question) -> Answer:
    statistic = _STATISTIC_OF[question.value]  # type: ignore[index]
    tests = [name_test(pattern) for pattern in question.names]
    keys: dict[Hashable, Key] = {}
    values: list[list[dict[Hashable, float]]] = []
    calls: list[list[dict[Hashable, float]]] = []
    for side in sides:
        values.append([])
        calls.append([])
        for trial in side.trials:
            there = compare_query.event_sums(db, trial.id)
            meant = {
                key: one
                for key, one in there.items()
                if not tests or any(test(key[0], key[0]) for test in tests)
            }
            numbers = {key: statistic(one) for key, one in meant.items()}
            values[-1].append({key: one for key, one in numbers.items() if one == one})
            calls[-1].append({key: one.samples for key, one in meant.items()})
            for key in meant:
                keys.setdefault(key, Key(key, key[0], key[0], None, None, key[1], "same"))
    found = compared(values, None, additive=False)
    if not found.rows:
        raise UsageError("these trials have no such user events")
    # Events have units of their own, so a relative change is what makes them comparable.
    found.rows = sorted(found.rows, key=lambda row: -max(map(_relative, _ratios(row)), default=0.0))
    samples = Medians(calls)
    return Answer(
        "event", None, Metric(question.value, ""), question.value, found, keys, samples, False
    )


def _ratios(row: Row[Hashable]) -> list[float]:
    found = (row.ratio(side) for side in range(1, len(row.values)))
    return [one for one in found if one is not None]


def _relative(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def _per_call(value: float, calls: int) -> float | None:
    return value / calls if calls else None


VALUE_OF: dict[Value, Callable[[Sums], float | None]] = {
    "exclusive": lambda sums: sums.exclusive,
    "inclusive": lambda sums: sums.inclusive,
    "calls": lambda sums: sums.calls,
    "subroutines": lambda sums: sums.subroutines,
    "exclusive-per-call": lambda sums: _per_call(sums.exclusive, sums.calls),
    "inclusive-per-call": lambda sums: _per_call(sums.inclusive, sums.calls),
}

_STATISTIC_OF: dict[Statistic, Callable[[EventSums], float]] = {
    "mean": lambda event: event.mean,
    "samples": lambda event: event.samples,
    "minimum": lambda event: event.minimum,
    "maximum": lambda event: event.maximum,
    "sum": lambda event: event.mean * event.samples,
}

NAMES: dict[str, Callable[[TimerFacts], tuple[str, ...]]] = {
    "group": lambda timer: tuple(timer.groups.split("|")),
    "file": lambda timer: (timer.file or NO_FILE,),
    "module": lambda timer: (module_of(timer.file),),
}
