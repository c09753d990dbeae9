"""Compare trials of a database: query their values, match names, compute differences.

The only module that connects the database with `analysis`; commands and notebooks use it. It
returns data; `comparison_views.py` turns that into tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, get_args

from taupy.analysis.compare import Comparison, Row, compared, medians
from taupy.analysis.line_times import LineRow
from taupy.analysis.match import LEVELS, Key, Level, NameTable
from taupy.analysis.operator_match import Nested
from taupy.analysis.program_parts import is_import
from taupy.comparison import line_names, operator_calls, operators
from taupy.comparison.layer_names import layer_keys
from taupy.comparison.line_names import Looked, error_note
from taupy.comparison.matching import matched, matched_by_order, names_apart, timers_of_sides
from taupy.comparison.path_names import Paths
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import (
    VALUES,
    Over,
    Runs,
    TrialValues,
    Value,
    Where,
    lacking_note,
)
from taupy.errors import MissingMetric, UsageError
from taupy.model import answer as values
from taupy.model.metric import NOT_ROUTINES, Metric
from taupy.model.names import NO_FILE, one_name
from taupy.model.options import Asked, option, texts
from taupy.model.question import COUNTS
from taupy.model.rows import TimerRow
from taupy.pprof.selection import name_test
from taupy.profiledb import trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import WITHIN, written
from taupy.profiledb.line_values import LINE, REST, Line
from taupy.profiledb.trial_facts import EventSums
from taupy.units import no_such

By = str
"""A dimension, or another kind of row that a comparison can have."""

BYS: tuple[By, ...] = (
    "routine", "kernel", "callpath", *(name for name in WITHIN if name != "kernel"),
    operators.SIGNATURE, LINE, "step", "event", "metadata",
)  # fmt: skip

_NAMED = ("routine", "kernel", "callpath", "file", "module", "layer")
"""Kinds of rows whose names may differ though they mean the same."""

Statistic = Literal["mean", "samples", "minimum", "maximum", "sum"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)


_WHAT, _MATCHING = "what to compare", "how to match names"


@dataclass(frozen=True)
class ComparisonOptions(Asked):
    """What to compare, and how.

    Attributes:
        metric: measured or derived.
        value: which of the metric's values; for user events, a `Statistic`.
        over: how to combine a trial's threads.
        match, table: how to match names (`analysis/match.py`).
        group, filter: only timers in one of these groups, and whose names match one of these
            patterns; empty for all.
        imports: by routine, also those that are imports. They are shown in any case if groups or
            names are given.
    """

    by: By = option(
        "routine",
        ", ".join(BYS) + " (default: routine, with GPU work in a separate table)",
        choices=BYS,
        metavar="DIMENSION",
        group=_WHAT,
    )
    metric: str = option("time", "default: time", metavar="NAME", is_text=True, group=_WHAT)
    value: Value | Statistic = option(
        None,
        ", ".join(VALUES) + " (default: exclusive); for user events "
        + ", ".join(STATISTICS) + " (default: mean)",
        choices=(*VALUES, *STATISTICS),
        metavar="WHICH",
        group=_WHAT,
    )  # fmt: skip
    over: Over = option(
        "total", "how to combine a trial's threads", choices=get_args(Over), group=_WHAT
    )
    group: Sequence[str] = texts(
        "only routines in this group: PYTHON, PHASE, ...", "NAME", group=_WHAT
    )
    filter: Sequence[str] = texts(
        "only routines whose name contains TEXT, matches a pattern with * and ?, or /REGEX/",
        "PATTERN",
        group=_WHAT,
    )
    match: Level = option(
        "auto",
        "kernels: by full names, shortened only until a match is found (auto), or all shortened "
        "alike; exact: full names only, with line numbers for routines",
        choices=LEVELS,
        group=_MATCHING,
    )
    table: NameTable | None = option(
        None,
        'a TOML file with lines such as "gemm" = ["*gemm*", "/sgemm_/"] (default: '
        "[tool.taupy.match] of pyproject.toml)",
        names=("--match-table",),
        metavar="FILE",
        is_text=True,
        group=_MATCHING,
    )
    imports: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value is None:
            usual: Value | Statistic = "mean" if self.by == "event" else "exclusive"
            object.__setattr__(self, "value", usual)


class Medians(Mapping[Hashable, tuple[float | None, ...]]):
    """Each row's median on each side, computed on access, since few rows are shown; `unknown`: the
    sides that have none."""

    def __init__(
        self,
        sides: Sequence[Sequence[Mapping[Hashable, float]]],
        unknown: Collection[int] = (),
    ) -> None:
        self._sides = sides
        self._unknown = unknown

    def trials(self, side: int) -> Sequence[Mapping[Hashable, float]]:
        """What is known of a side's trials."""
        return () if side in self._unknown else self._sides[side]

    def without(self, sides: Collection[int]) -> Medians:
        """The same, not known of these sides."""
        return Medians(self._sides, sides)

    def __getitem__(self, key: Hashable) -> tuple[float | None, ...]:
        return tuple(medians(self.trials(side), (key,))[0] for side in range(len(self._sides)))

    def __bool__(self) -> bool:
        return any(map(any, self._sides))

    def __iter__(self) -> Iterator[Hashable]:
        return iter({key for side in self._sides for trial in side for key in trial})

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(slots=True, kw_only=True)
class ComparedTable:
    """One table of a comparison.

    Attributes:
        where: host threads, GPU streams, or None for both together.
        metric: with the unit of the values.
        keys: names of rows, by their keys in `comparison.rows`.
        calls: median number of calls of each row on each side; empty for user events.
        sums: whether the rows add up to the whole.
        of_timers: each side's timers -> their names here, for rows by routine or kernel.
        has_imports: no imports were left out.
        per_call: by operator: each value divided by the number of calls.
        kernels: by operator: each side's names of a row's kernels, the largest first.
        roofs: by operator: each side's shares of the roof [%], where counters tell them.
        remarks: what must be known before the rows are read.
        estimated: the values are estimates, and shown with `~`.
        notes: remarks below the rows.
    """

    by: By
    where: Where | None
    metric: Metric
    value: Value | Statistic
    comparison: Comparison[Hashable]
    keys: Mapping[Hashable, Key]
    calls: Medians = field(default_factory=lambda: Medians(()))
    sums: bool = True
    of_timers: Sequence[Mapping[TimerRow, Key]] = ()
    has_imports: bool = True
    per_call: bool = False
    kernels: Sequence[Mapping[Hashable, Sequence[TimerRow]]] = ()
    roofs: Sequence[Mapping[Hashable, float]] = ()
    remarks: Sequence[str] = ()
    estimated: bool = False
    notes: Sequence[str] = ()


# --- answers -------------------------------------------------------------------


def answers(
    db: ProfileDB, sides: Sequence[Side], question: ComparisonOptions
) -> list[ComparedTable]:
    """The tables that answer a question; by routine, GPU work has a separate table.

    Raises:
        MissingMetric: a trial lacks the metric or the requested rows.
        UsageError: the value or a pattern does not apply to these rows.
    """
    _check(question)
    if question.by == "event":
        return [_events(db, sides, question)]
    sampled = [trial for side in sides for trial in side.trials if trial.is_sampled]
    if sampled and (question.value in COUNTS or question.value.endswith("per-call")):
        raise UsageError(
            f"trial {sampled[0].id} was only looked at (taupy attach): calls are not known"
        )
    comparing = _Comparing(db, sides, question)
    if question.by == "routine":
        of_places = [comparing.answer(where) for where in ("host", "gpu") if comparing.has(where)]
    elif question.by == "kernel":
        if not comparing.has("gpu"):
            raise MissingMetric(
                f"none of these trials has '{question.metric}' for kernels: no GPU was "
                "measured; `taupy doctor` shows what works here"
            )
        of_places = [comparing.answer("gpu")]
    else:
        of_places = [comparing.answer(None)]
    if sampled:
        for answer in of_places:
            comparing.mark_sampled(answer)
    if not any(answer.comparison.rows for answer in of_places):
        what = "routine or kernel" if question.by == "routine" else question.by
        selected = " that was selected" if question.filter or question.group else ""
        raise UsageError(
            "these trials have no steps: see docs/steps.md"
            if question.by == "step"
            else f"these trials have no {what} with '{question.metric}'{selected}"
        )
    return of_places


def sides_with_metric(
    db: ProfileDB, sides: Sequence[Side], question: ComparisonOptions
) -> tuple[list[Side], list[str]]:
    """The sides without trials that lack the metric, and notes that name these. A side of which
    none has it is left as it is.

    Raises:
        MissingMetric: no trial has it; of sides of one trial each, the comparison says so.
    """
    of_values = question.by not in ("event", "metadata")
    if not of_values or all(len(side.trials) == 1 for side in sides):
        return [*sides], []  # there is no metric, or no trial to omit
    ids = [trial.id for side in sides for trial in side.trials]
    of_steps = question.by == "step"
    missing = TrialValues.of(db, ids, question.metric, lenient=True, of_steps=of_steps).missing
    kept, notes = [], []
    for side in sides:
        left = tuple(trial for trial in side.trials if trial.id not in missing)
        if left and len(left) < len(side.trials):
            lacking = [trial.id for trial in side.trials if trial.id in missing]
            trials = f"{len(side.trials)} trials of {side.letter}"
            notes.append(lacking_note(lacking, trials, question.metric))
            side = replace(side, trials=left)
        kept.append(side)
    return kept, notes


def _check(question: ComparisonOptions) -> None:
    of_events = question.value in STATISTICS
    if (question.by == "event") != of_events:
        allowed = STATISTICS if question.by == "event" else VALUES
        raise UsageError(
            f"rows by {question.by} have no value '{question.value}' (only: {', '.join(allowed)})"
        )
    if question.by == operators.SIGNATURE and (
        question.group
        or question.metric != "time"
        or question.over != "total"
        or question.value not in ("exclusive", "calls", "exclusive-per-call")
        or (question.filter and question.value != "exclusive")
    ):
        raise UsageError(
            "of operators by the inputs of their calls, the GPU time and the calls are known: "
            "--by signature takes no --group, --metric or --over, and of --value exclusive, calls "
            "and exclusive-per-call; with --filter, exclusive only"
        )
    if question.by == LINE:
        line_names.check(question.metric, question.value)
    if question.by == "event" and (question.group or question.metric != "time"):
        raise UsageError("user events have no groups and no metric: select them with --filter")


Keyed = Callable[[int, values.Answer], Sequence[Hashable]]
"""The keys of an answer's rows on a side, counted from 0; None: the row does not count."""


def _of_labels(by: str, named: Sequence[Mapping[Any, Hashable]]) -> Keyed:
    """Keys by each side's labels of one dimension."""

    def keyed(side: int, answer: values.Answer) -> Sequence[Hashable]:
        keys = [named[side].get(label) for label in answer.table.labels[by]]
        return list(map(keys.__getitem__, answer.table.codes[by]))

    return keyed


class _Comparing:
    """Answers a question from the sides' trials."""

    def __init__(self, db: ProfileDB, sides: Sequence[Side], question: ComparisonOptions) -> None:
        self.db = db
        self.sides = sides
        self.question = question
        self._trials = [{trial.id for trial in side.trials} for side in sides]
        ids = [trial.id for side in sides for trial in side.trials]
        value: Value = question.value  # type: ignore[assignment]  # `_check` has seen to it
        of_steps = question.by == "step"
        values = TrialValues.of(db, ids, question.metric, value, of_steps=of_steps)
        self.values = replace(values, over=question.over)
        self._limits = self.values.limits(question.group, question.filter)

    def has(self, where: Where) -> bool:
        """Does any trial have the metric on these threads?"""
        whole = replace(self.values, value="exclusive")
        return any(len(answer) for answer in whole.answers(where=where, calls=False))

    def answer(self, where: Where | None) -> ComparedTable:
        by = self.question.by
        if by == "callpath":
            return self._callpaths()
        if by in operators.BY:
            return self._operators(by)
        if by == operators.SIGNATURE:
            return self._operator_calls() if self.question.filter else self._signatures()
        if by == LINE:
            return self._lines()
        return self._routines(where) if by in ("routine", "kernel") else self._grouped(by)

    def _routines(self, where: Where | None) -> ComparedTable:
        of_sides = self.values.answers("timer", where=where, limits=self._limits)
        timers = timers_of_sides(of_sides, self._trials)
        imports = {timer for side in timers for timer in side if is_import(timer)}
        if self.question.imports or self._limits or len(imports) == len({*chain(*timers)}):
            imports = set()
        for side in timers:
            for timer in imports & side.keys():
                del side[timer]
        keys_of = matched(self.db, self._trials, timers, self.question.match, self.question.table)
        lone = [trial for trials in self._trials if len(trials) == 1 for trial in trials]
        if (
            self.question.by == "kernel"
            and self.question.match == "auto"
            and (len(lone) == len(self._trials) == 2)
        ):
            keys_of = matched_by_order(self.db, lone, keys_of)
        keys = {key.identity: key for side in keys_of for key in side.values()}
        named = [{timer: key.identity for timer, key in side.items()} for side in keys_of]
        answer = self._answer(where, self._runs(of_sides, _of_labels("timer", named), where), keys)
        if any(key.rule == "order" for key in keys.values()):
            answer.remarks = [
                "(order): kernels of one side each, matched by the order of launches, which may err"
            ]
        answer.of_timers = keys_of
        answer.has_imports = not imports
        return answer

    def _grouped(self, by: str) -> ComparedTable:
        of_sides = self.values.answers(by, limits=self._limits)
        shown = _file_named if by == "file" else partial(written, by)
        names = {label: shown(label) for answer in of_sides for label in answer.table.labels[by]}
        of_side: Sequence[Mapping[str, Key]] = [{} for _ in self.sides]
        if by == "layer" and self.question.match != "exact":
            of_side = layer_keys(self.values, self._trials)
        keys: dict[Hashable, Key] = {
            name: Key(name, name, name, None, None, "", "same") for name in names.values()
        }
        keys |= {key.identity: key for side in of_side for key in side.values()}
        named: list[dict[Hashable, Hashable]] = [
            {label: side[name].identity if name in side else name for label, name in names.items()}
            for side in of_side
        ]
        return self._answer(None, self._runs(of_sides, _of_labels(by, named)), keys, by == "step")

    def _lines(self) -> ComparedTable:
        """Times of lines, estimated or exact; whoever has moved is found by its text."""
        of_sides = self.values.answers(LINE, limits=self._limits)
        trials = [trial.id for side in self.sides for trial in side.trials]
        exact = self.question.match == "exact"
        keys_of = line_names.line_keys(self.db, of_sides, trials, exact=exact)
        if lacking := [str(trial) for trial in trials if not keys_of[trial]]:
            raise line_names.missing(f"trials {', '.join(lacking)}")
        keys: dict[Hashable, Key] = {
            key.identity: key for of_trial in keys_of.values() for key in of_trial.values()
        }
        named: list[dict[Hashable, Hashable]] = [
            {line: key.identity for trial in side.trials for line, key in keys_of[trial.id].items()}
            for side in self.sides
        ]
        answer = self._answer("host", self._runs(of_sides, _of_labels(LINE, named)), keys)
        answer.calls = Medians(())  # nobody has counted them
        if all(line_names.are_exact(self.db, trial, keys_of[trial]) for trial in trials):
            return answer
        answer.estimated = True
        rows = [row for row in answer.comparison.rows if row.key != REST]
        if rows:
            row = max(rows, key=lambda row: abs(row.impact or 0))
            looked = {side.letter: self._line_looked(side, keys_of, row.key) for side in self.sides}
            answer.notes = [error_note(self.db, looked, LINE)]
        return answer

    @staticmethod
    def _line_looked(
        side: Side, keys_of: Mapping[int, Mapping[Line, Key]], key: Hashable
    ) -> Looked:
        trial = side.trials[0]
        line = next((line for line, of in keys_of[trial.id].items() if of.identity == key), None)
        place = None if line is None else (line.file, line.number)
        return Looked(
            trial,
            None if line is None else str(line),
            lambda row: (row.timer.file or NO_FILE, row.line.line) == place,
        )

    def mark_sampled(self, answer: ComparedTable) -> None:
        """Of a trial that was only looked at, times are estimates, and calls are not known."""
        answer.calls = answer.calls.without(
            [
                at
                for at, side in enumerate(self.sides)
                if any(trial.is_sampled for trial in side.trials)
            ]
        )
        if answer.estimated or answer.metric.unit != "ns":
            return
        answer.estimated = True
        rows = answer.comparison.rows
        if self.question.by != "routine" or self.question.value != "exclusive" or not rows:
            answer.notes = ["~: estimated from looks at programs that ran already", *answer.notes]
            return
        key = max(rows, key=lambda row: abs(row.impact or 0)).key
        looked = {
            side.letter: Looked(
                side.trials[0],
                answer.keys[key].short_name,
                partial(_is_in, {timer for timer, of in timers.items() if of.identity == key}),
            )
            for side, timers in zip(self.sides, answer.of_timers, strict=True)
        }
        answer.notes = [error_note(self.db, looked, self.question.by), *answer.notes]

    def _operators(self, by: str) -> ComparedTable:
        """GPU work by operator; host time, if a side has no GPU work. Calls are the operators'."""
        question = self.question
        where = operators.place(self.values, self._trials)
        queried = self.values
        if where == "gpu" and question.value == "calls":
            queried = replace(queried, value="exclusive")
        elif where == "gpu" and question.value.endswith("per-call"):
            queried = replace(queried, value=queried.stored)
        of_sides = queried.answers(by, "outer_operator", where=where, limits=self._limits)
        if where == "gpu":
            of_sides = [operators.of_gpu_work(answer, queried.stored) for answer in of_sides]
        everything = queried.answers(by, where=where) if self._limits else of_sides
        operators.required(everything, by, self.sides, where)
        exact = question.match == "exact"
        alike = operators.of_sides(queried, by, of_sides, self._trials, where, self._limits, exact)

        def keyed(side: int, answer: values.Answer) -> Sequence[Hashable]:
            return [alike.keys[side][pair].identity for pair in operators.nested(by, answer)]

        runs = self._runs(of_sides, keyed, where, queried)
        if where == "gpu":
            runs = [
                [self._of_operators(run, alike.calls[trial.id], names)
                 for run, trial in zip(of_side, side.trials, strict=True)]
                for of_side, side, names in zip(runs, self.sides, alike.keys, strict=True)
            ]  # fmt: skip
        keys = {key.identity: key for side in alike.keys for key in side.values()}
        answer = self._answer(where, runs, keys, alone=question.value == "calls")
        answer.kernels = alike.kernels
        if where == "gpu" and self.values.metric.name == "time":
            answer.roofs = operators.roof_shares(self.db, by, self.sides, alike.keys)
        answer.per_call = question.value in ("exclusive", "inclusive") and self.values.additive
        return self._with_remarks(answer, where)

    def _with_remarks(self, answer: ComparedTable, where: Where) -> ComparedTable:
        if answer.comparison.additive:
            rows = [(answer.keys[row.key], row.values) for row in answer.comparison.rows]
            answer.remarks = [operators.paired_note(self.sides, rows, where)]
        if where == "gpu" and (roofs := operators.roofs_note(self.db, self.sides)):
            answer.remarks = [*answer.remarks, roofs]
        return answer

    def _signatures(self) -> ComparedTable:
        """GPU time by operator and the sizes and types of its inputs."""
        question = self.question
        whole = replace(self.values, value="exclusive")
        answers = whole.answers("operator", "outer_operator", where="gpu")
        operators.required(answers, "operator", self.sides, "gpu")
        exact = question.match == "exact"
        keys_of, runs, kernels = operators.signatures(whole, answers, self.sides, exact=exact)
        if question.value != "exclusive":
            runs = [[self._counted(run) for run in side] for side in runs]
        keys: dict[Hashable, Key] = {key.identity: key for side in keys_of for key in side.values()}
        answer = self._answer("gpu", runs, keys, alone=question.value == "calls")
        answer.kernels = kernels
        answer.per_call = question.value == "exclusive"
        return self._with_remarks(answer, "gpu")

    def _operator_calls(self) -> ComparedTable:
        """GPU time of each call of some operators."""
        calls = operator_calls.paired_calls(self.db, self.sides, self.question.filter)
        answer = self._answer("gpu", calls.runs, calls.keys)
        answer.kernels, answer.remarks = calls.kernels, calls.notes
        return answer

    def _counted(self, run: Runs) -> Runs:
        """The calls in place of the time, or the time per call."""
        if self.question.value == "calls":
            return Runs(dict(run.calls), run.calls, {})
        means = {key: time / run.calls[key] for key, time in run.values.items() if key in run.calls}
        return Runs(means, run.calls, {})

    def _of_operators(
        self,
        run: Runs,
        calls: Mapping[Nested, int],
        names: Mapping[Nested, Key],
    ) -> Runs:
        """A trial's values with the calls of operators, in place of their kernels'."""
        numbers: dict[Hashable, float] = {}
        for pair, number in calls.items():
            if pair in names:
                key = names[pair].identity
                numbers[key] = numbers.get(key, 0) + number
        value = self.question.value
        if value == "calls":
            return Runs(dict(numbers), numbers, run.times)
        if value.endswith("per-call") and self.values.additive:
            means = {key: own / numbers[key] for key, own in run.values.items() if numbers.get(key)}
            return Runs(means, numbers, run.times)
        return Runs(run.values, numbers, run.times)

    def _callpaths(self) -> ComparedTable:
        of_sides = self.values.answers("callpath", limits=self._limits)
        paths = Paths(self.db, self.sides, self.question.match, self.question.table)

        def keyed(side: int, answer: values.Answer) -> Sequence[Hashable]:
            keys = paths.of_side(side, answer.table.labels["callpath"])
            codes = answer.table.codes["callpath"]
            return keys if isinstance(codes, range) else list(map(keys.__getitem__, codes))

        answer = self._answer(None, self._runs(of_sides, keyed), paths)
        paths.read_in_order(answer.comparison.rows.keys)  # type: ignore[arg-type]
        return answer

    def _runs(
        self,
        of_sides: Sequence[values.Answer],
        keyed: Keyed,
        where: Where | None = None,
        queried: TrialValues | None = None,
    ) -> list[list[Runs]]:
        """The values of each side's trials."""
        sides = []
        queried = queried or self.values
        for at, (side, ids) in enumerate(zip(self.sides, self._trials, strict=True)):
            runs: dict[int, Runs] = {}
            for answer in of_sides:
                here = [trial in ids for trial in answer.table.labels["trial"]]
                if not all(here):
                    codes = enumerate(answer.table.codes["trial"])
                    answer = answer.taken([row for row, code in codes if here[code]])
                runs |= queried.runs(answer, keyed(at, answer), where)
            sides.append([runs.get(trial.id, Runs({}, {}, {})) for trial in side.trials])
        return sides

    def _answer(
        self,
        where: Where | None,
        runs: Sequence[Sequence[Runs]],
        keys: Mapping[Hashable, Key],
        alone: bool = False,
    ) -> ComparedTable:
        """One table; `alone`: the rows are the whole, not parts of the trial."""
        question = self.question
        counts = question.value in COUNTS
        additive = counts or (self.values.additive and not question.value.endswith("per-call"))
        totals = None
        if alone:
            totals = [[sum(run.values.values()) for run in side] for side in runs]
        elif not question.value.endswith("per-call"):
            totals = self._totals(where)
        rows = compared([[run.values for run in side] for side in runs], totals, additive)
        if not additive:
            rows.totals = ()
        # A routine in two groups counts in both of them.
        sums_up = additive and question.value != "inclusive" and question.by != "group"
        return ComparedTable(
            by=question.by,
            where=where,
            metric=metric_shown(self.values.metric, question.value),
            value=question.value,
            comparison=rows,
            keys=keys,
            calls=Medians([[run.calls for run in side] for side in runs]),
            sums=sums_up,
        )

    def _totals(self, where: Where | None) -> list[list[float]]:
        """The total of each trial, including rows not requested; NaN if it has none."""
        totals = self.values.totals(where)
        return [[totals.get(trial.id, math.nan) for trial in side.trials] for side in self.sides]


def _is_in(timers: Collection[TimerRow], row: LineRow) -> bool:
    """Whether a look found a thread in one of these routines."""
    return (row.callee or row.timer) in timers


def _file_named(label: Hashable) -> str:
    return one_name(str(label))


def warnings(sides: Sequence[Side], of_places: Sequence[ComparedTable]) -> list[str]:
    """Where the names of two sides hardly match, so that most rows are on one side only."""
    texts: list[str] = []
    for answer in of_places:
        rows = answer.comparison.rows
        if answer.by not in _NAMED or not answer.comparison.additive or rows.is_complete:
            continue
        columns = [rows.values(at) for at in range(len(sides))]
        wholes = _wholes(answer.keys, rows.keys)
        values_of: dict[str, dict[Hashable, float]] = {
            side.letter: {
                key: value
                for key, value in zip(rows.keys, column, strict=True)
                if value is not None and key not in wholes
            }
            for side, column in zip(sides, columns, strict=True)
        }
        texts += names_apart(values_of, answer.metric.name)
    return list(dict.fromkeys(texts))


def _wholes(names: Mapping[Hashable, Key], keys: Sequence[Hashable]) -> Collection[Hashable]:
    """The rows of the whole program."""
    if isinstance(names, Paths):
        return names.roots(NOT_ROUTINES)
    return {key for key in keys if names[key].timer in NOT_ROUTINES}


def metric_shown(metric: Metric, value: str) -> Metric:
    """The metric whose values are compared."""
    if value in COUNTS:
        return Metric(value, "call")
    if value.endswith("per-call") and metric.unit != "ns":
        return Metric(metric.name, f"{metric.unit}/call")
    return metric


# --- user events ---------------------------------------------------------------


def _events(db: ProfileDB, sides: Sequence[Side], question: ComparisonOptions) -> ComparedTable:
    statistic = _STATISTIC_OF[question.value]  # type: ignore[index]
    tests = {pattern: name_test(pattern) for pattern in question.filter}
    keys: dict[Hashable, Key] = {}
    values: list[list[dict[Hashable, float]]] = []
    calls: list[list[dict[Hashable, float]]] = []
    sums_of = trial_facts.event_sums(db, [trial.id for side in sides for trial in side.trials])
    names = {name for events in sums_of.values() for name, _ in events}
    for pattern, test in tests.items():
        if not any(test(name, name) for name in names):
            raise UsageError(no_such("user event", pattern, names))
    for side in sides:
        values.append([])
        calls.append([])
        for trial in side.trials:
            meant = {
                key: event
                for key, event in sums_of[trial.id].items()
                if not tests or any(test(key[0], key[0]) for test in tests.values())
            }
            numbers = {key: statistic(event) for key, event in meant.items()}
            values[-1].append({key: number for key, number in numbers.items() if number == number})
            calls[-1].append({key: event.samples for key, event in meant.items()})
            for key in meant:
                keys.setdefault(key, Key(key, key[0], key[0], None, None, key[1], "same"))
    comparison = compared(values, None, additive=False)
    if not comparison.rows:
        raise UsageError("these trials have no user events")
    # Events have different units, so only relative changes are comparable.
    comparison.rows = comparison.rows.by(
        lambda row: -max(map(_relative, _ratios(row)), default=0.0)
    )
    return ComparedTable(
        by="event",
        where=None,
        metric=Metric(question.value, ""),
        value=question.value,
        comparison=comparison,
        keys=keys,
        calls=Medians(calls),
        sums=False,
    )


def _ratios(row: Row[Hashable]) -> list[float]:
    ratios = (row.ratio(side) for side in range(1, len(row.values)))
    return [ratio for ratio in ratios if ratio is not None]


def _relative(ratio: float) -> float:
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


_STATISTIC_OF: dict[Statistic, Callable[[EventSums], float]] = {
    "mean": lambda event: event.mean,
    "samples": lambda event: event.samples,
    "minimum": lambda event: event.minimum,
    "maximum": lambda event: event.maximum,
    "sum": lambda event: event.mean * event.samples,
}
