"""Trials of the database side by side: asks for their values, and has them matched and compared.

The one place where the database meets `analysis`: commands and notebooks ask here. What
comes out is data; `comparison_views.py` makes tables of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from taupy.analysis import match
from taupy.analysis.compare import Comparison, Row, compared
from taupy.analysis.match import Key, Level, Table
from taupy.errors import MissingMetric, UsageError
from taupy.model.profile import Metric
from taupy.model.rows import TrialRow
from taupy.pprof.grouping import NO_FILE, module_of
from taupy.pprof.selection import name_test
from taupy.profiledb import compare_query, metrics, query
from taupy.profiledb.compare_query import EventSums, Over, Sums, Where
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import shown
from taupy.report.path_names import path_keys
from taupy.report.sides import Side

By = Literal["routine", "kernel", "callpath", "group", "file", "module", "event", "metadata"]
BYS: tuple[By, ...] = get_args(By)

Value = Literal[
    "exclusive", "inclusive", "calls", "subroutines", "exclusive-per-call", "inclusive-per-call"
]
VALUES: tuple[Value, ...] = get_args(Value)

Statistic = Literal["mean", "samples", "minimum", "maximum", "sum"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)

CALL = Metric("calls", "call")


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
    """A question to the sides' trials, their metric found and their timers matched."""

    def __init__(self, db: ProfileDB, sides: Sequence[Side], question: Question) -> None:
        self.db = db
        self.sides = sides
        self.question = question
        self._meaning: dict[int, metrics.Resolved] = {}
        self._metric_ids: dict[int, int] = {}
        for trial in self._trials():
            self._find_metric(trial.id)
        meant = list(self._meaning.values())
        units = {one.unit for one in meant}
        if len(units) > 1:
            raise UsageError(
                f"'{shown(question.metric)}' is in {' and in '.join(sorted(units))}: values of "
                "different units cannot be compared"
            )
        self.metric = meant[0].metric
        self.additive = all(one.additive for one in meant)
        self._facts = [
            compare_query.timer_facts(db, [trial.id for trial in side.trials]) for side in sides
        ]
        self._flat: dict[int, dict[Where, dict[int, Sums]]] = {}
        self._sums: dict[tuple[int, Where | None], dict[int, Sums]] = {}

    def _trials(self) -> Iterable[TrialRow]:
        return [trial for side in self.sides for trial in side.trials]

    def _find_metric(self, trial_id: int) -> None:
        name = self.question.metric
        try:
            self._metric_ids[trial_id], metric = compare_query.metric_of(self.db, trial_id, name)
            self._meaning[trial_id] = metrics.Resolved(metric.name, metric.unit, True, "measured")
        except MissingMetric:
            self._meaning[trial_id] = metrics.resolve(self.db, trial_id, name)

    # --- which rows ---

    def has(self, where: Where) -> bool:
        return any(self._threads(trial.id, where) for trial in self._trials())

    def _threads(self, trial_id: int, where: Where | None) -> list[int]:
        metric = self._metric_ids.get(trial_id)
        if metric is None:
            places = self.db.rows("SELECT id, kind FROM thread WHERE trial_id = ?", (trial_id,))
            ids = [
                id for id, kind in places if where is None or (kind == "stream") == (where == "gpu")
            ]
            values = self._derived(trial_id)
            return ids if where is None or values[where] else []
        return compare_query.thread_ids(self.db, trial_id, metric, where)

    def _meant(self, side: int) -> dict[int, compare_query.TimerFacts]:
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

    # --- values ---

    def answer(self, where: Where | None) -> Answer:
        by = self.question.by
        meant = [self._meant(side) for side in range(len(self.sides))]
        if by == "callpath":
            return self._callpaths(meant)
        if by in ("group", "file", "module"):
            return self._grouped(meant, _NAMES[by])
        keys_of = match.matched(self._there(meant, where), self.question.level, self.question.table)
        keys = {key.identity: key for side in keys_of for key in side.values()}

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            found: dict[Hashable, Sums] = {}
            for id, sums in self._timers(trial_id, where).items():
                key = keys_of[side].get(id)
                if key is not None:
                    before = found.get(key.identity)
                    found[key.identity] = sums if before is None else _added(before, sums)
            return found

        return self._answer(where, folded, keys)

    def _there(
        self, meant: Sequence[Mapping[int, compare_query.TimerFacts]], where: Where | None
    ) -> list[dict[int, compare_query.TimerFacts]]:
        """Of each side the timers that have values: another thread's names do not matter."""
        there = []
        for side, facts in zip(self.sides, meant, strict=True):
            ids = {id for trial in side.trials for id in self._timers(trial.id, where)}
            there.append({id: facts[id] for id in facts.keys() & ids})
        return there

    def _timers(self, trial_id: int, where: Where | None) -> dict[int, Sums]:
        if (trial_id, where) not in self._sums:
            self._sums[trial_id, where] = self._timer_sums(trial_id, where)
        return self._sums[trial_id, where]

    def _timer_sums(self, trial_id: int, where: Where | None) -> dict[int, Sums]:
        metric = self._metric_ids.get(trial_id)
        if metric is None:
            found = self._derived(trial_id)
            if where is not None:
                return found[where]
            both = dict(found["host"])
            for id, sums in found["gpu"].items():
                both[id] = _added(both[id], sums) if id in both else sums
            return both
        threads = self._threads(trial_id, where)
        return compare_query.timer_sums(self.db, trial_id, metric, threads, self.question.over)

    def _derived(self, trial_id: int) -> dict[Where, dict[int, Sums]]:
        """Values of a derived metric, which come thread by thread and add up by `+`."""
        if trial_id in self._flat:
            return self._flat[trial_id]
        facts = compare_query.timer_facts(self.db, [trial_id])
        ids = {(one.timer, one.groups): id for id, one in facts.items()}
        kinds = {place[:3]: place.kind for place in query.threads(self.db, trial_id)}
        found: dict[Where, dict[int, Sums]] = {"host": {}, "gpu": {}}
        for row in metrics.flat_values(self.db, trial_id, self.question.metric):
            id = ids[row.timer, row.groups]
            where: Where = "gpu" if kinds[row.node, row.context, row.thread] == "stream" else "host"
            sums = Sums(row.calls, row.subroutines, row.inclusive, row.exclusive)
            here = found[where]
            here[id] = _added(here[id], sums, self.question.over) if id in here else sums
        if self.question.over == "mean" and self.additive:
            for where, here in found.items():
                count = sum(1 for kind in kinds.values() if (kind == "stream") == (where == "gpu"))
                found[where] = {
                    id: sums._replace(
                        inclusive=sums.inclusive / count, exclusive=sums.exclusive / count
                    )
                    for id, sums in here.items()
                }
        self._flat[trial_id] = found
        return found

    def _answer(
        self,
        where: Where | None,
        folded: Callable[[int, int], Mapping[Hashable, Sums]],
        keys: Mapping[Hashable, Key],
    ) -> Answer:
        question = self.question
        value = _VALUE_OF[question.value]  # type: ignore[index]
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
        additive = self.additive and not question.value.endswith("per-call")
        totals = self._totals(where) if question.value in ("exclusive", "inclusive") else None
        if question.value in ("calls", "subroutines"):
            totals = [[sum(trial.values()) for trial in side] for side in values]
        found_rows = compared(values, totals, additive)
        if not additive:
            found_rows.totals = ()
        by_key = {row.key: row.values for row in compared(calls).rows}
        metric = self.metric
        if question.value in ("calls", "subroutines"):
            metric = Metric(question.value, "call")
        elif question.value.endswith("per-call"):
            metric = Metric(metric.name, f"{metric.unit}/call" if metric.unit != "ns" else "ns")
        # A routine in two groups counts in both.
        sums_up = additive and question.value != "inclusive" and question.by != "group"
        return Answer(question.by, where, metric, question.value, found_rows, keys, by_key, sums_up)

    def _totals(self, where: Where | None) -> list[list[float]] | None:
        """Each trial's whole; None where a trial has none."""
        found = []
        for side in self.sides:
            here: list[float] = []
            for trial in side.trials:
                metric = self._metric_ids.get(trial.id)
                if metric is None:
                    exclusive = [
                        sums.exclusive
                        for sums in self._timers(trial.id, where).values()
                        if sums.exclusive == sums.exclusive
                    ]
                    if not exclusive:
                        return None
                    here.append(sum(exclusive))
                    continue
                total = compare_query.total(
                    self.db, trial.id, metric, self._threads(trial.id, where), self.question.over
                )
                if total is None:
                    return None
                here.append(total)
            found.append(here)
        return found

    # --- by group, file, module ---

    def _grouped(
        self,
        meant: Sequence[Mapping[int, compare_query.TimerFacts]],
        names_of: Callable[[compare_query.TimerFacts], Sequence[str]],
    ) -> Answer:
        inclusive = self.question.value.startswith("inclusive")
        if inclusive and len(self._metric_ids) < len({trial.id for trial in self._trials()}):
            raise UsageError(
                f"inclusive values by {self.question.by} are of measured metrics; "
                f"'{shown(self.question.metric)}' is derived"
            )
        keys: dict[Hashable, Key] = {}

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            found: dict[Hashable, Sums] = {}
            names = {id: names_of(one) for id, one in meant[side].items()}
            for id, sums in self._timers(trial_id, None).items():
                for name in names.get(id, ()):
                    found[name] = _added(found[name], sums) if name in found else sums
                    if name not in keys:
                        keys[name] = Key(name, name, name, None, None, "", "same")
            if inclusive:
                whole = compare_query.inclusive_by(
                    self.db,
                    trial_id,
                    self._metric_ids[trial_id],
                    self._threads(trial_id, None),
                    names,
                )
                found = {
                    name: sums._replace(inclusive=whole.get(str(name), 0.0))
                    for name, sums in found.items()
                }
            return found

        return self._answer(None, folded, keys)

    # --- call paths ---

    def _callpaths(self, meant: Sequence[Mapping[int, compare_query.TimerFacts]]) -> Answer:
        timers_of = match.matched(self._facts, self.question.level, self.question.table)
        parents = [
            compare_query.callpath_parents(self.db, [trial.id for trial in side.trials])
            for side in self.sides
        ]
        paths = path_keys(parents, timers_of)
        unlimited = not (self.question.groups or self.question.names)

        def folded(side: int, trial_id: int) -> dict[Hashable, Sums]:
            found: dict[Hashable, Sums] = {}
            for id, sums in self._path_sums(trial_id).items():
                if not unlimited and parents[side][id][0] not in meant[side]:
                    continue
                key = paths.key(side, id)
                found[key] = _added(found[key], sums) if key in found else sums
            return found

        return self._answer(None, folded, paths)

    def _path_sums(self, trial_id: int) -> dict[int, Sums]:
        metric = self._metric_ids.get(trial_id)
        if metric is None:
            found: dict[int, Sums] = {}
            for row in metrics.tree_values(self.db, trial_id, self.question.metric):
                sums = Sums(row.calls, row.subroutines, row.inclusive, row.exclusive)
                before = found.get(row.callpath_id)
                found[row.callpath_id] = sums if before is None else _added(before, sums)
            return found
        calls = compare_query.callpath_calls(self.db, trial_id)
        values = compare_query.callpath_values(self.db, trial_id, metric, over=self.question.over)
        return {
            id: Sums(*calls.get(id, (0, 0)), inclusive, exclusive)
            for id, (inclusive, exclusive) in values.items()
        }


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
    found.rows.sort(key=lambda row: -max(map(_relative, _ratios(row)), default=0.0))
    samples = {row.key: row.values for row in compared(calls).rows}
    return Answer(
        "event", None, Metric(question.value, ""), question.value, found, keys, samples, False
    )


def _ratios(row: Row[Hashable]) -> list[float]:
    found = (row.ratio(side) for side in range(1, len(row.values)))
    return [one for one in found if one is not None]


def _relative(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def _added(one: Sums, other: Sums, over: Over = "total") -> Sums:
    if over == "max":
        return Sums(
            one.calls + other.calls,
            one.subroutines + other.subroutines,
            max(one.inclusive, other.inclusive),
            max(one.exclusive, other.exclusive),
        )
    return Sums(
        one.calls + other.calls,
        one.subroutines + other.subroutines,
        one.inclusive + other.inclusive,
        one.exclusive + other.exclusive,
    )


def _per_call(value: float, calls: int) -> float | None:
    return value / calls if calls else None


_VALUE_OF: dict[Value, Callable[[Sums], float | None]] = {
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

_NAMES: dict[str, Callable[[compare_query.TimerFacts], Sequence[str]]] = {
    "group": lambda timer: timer.groups.split("|"),
    "file": lambda timer: (timer.file or NO_FILE,),
    "module": lambda timer: (module_of(timer.file),),
}
