"""The meaning of a metric's name in a trial: measured, or an expression over measured metrics.

Derived metrics in an expression are replaced by their expressions until all are measured. If only
some launches of a kernel were counted, `time` and `calls` in an expression with counters refer to
the counted launches, except that `ratio * time` uses the total time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from taupy.errors import MissingMetric, UsageError
from taupy.model import expression
from taupy.model.expression import LENIENT, Binary, Function, Name, Node
from taupy.model.formula import Formula, bound, degree
from taupy.model.metric import OF_STEPS, STATED, Metric
from taupy.profiledb import derived
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.derived import Definition
from taupy.profiledb.steps import metrics_of_steps
from taupy.profiledb.translation import metrics_of
from taupy.units import nearest

COUNTS = {"calls": "call", "subroutines": "call"}
"""Quantities that every row has, by their names in expressions, with units."""

_OF_ALL_LAUNCHES = {"time": "counted_time", "calls": "counted_launches"}
_NO_COUNTERS = {"time", "cpu_time", "time_compensated", *COUNTS, *_OF_ALL_LAUNCHES.values()}

_DEEPEST = 300
_MOST = 5000
"""Limits of an expression after substitution: depth, and number of metrics."""


class Resolved(NamedTuple):
    """The meaning of a name in a trial.

    Attributes:
        additive: whether the values of parts add up to the value of the whole; false for ratios.
        expression: None for a measured metric.
    """

    name: str
    unit: str
    additive: bool
    source: Literal["measured", "database", "project", "predefined"]
    expression: str | None = None
    description: str = ""

    @property
    def metric(self) -> Metric:
        return Metric(self.name, self.unit)


class Meant(NamedTuple):
    """The common meaning of a name in several trials.

    Attributes:
        sums: metrics to query; for a metric computed from calls alone, `time` or the first
            metric, so that rows without values are left out.
    """

    trials: tuple[int, ...]
    metric: Resolved
    formula: Formula
    sums: tuple[str, ...]


def units_in(
    db: ProfileDB, trials: Sequence[int], *, of_steps: bool = False
) -> dict[int, dict[str, str]]:
    """The metrics of each trial with their units; `of_steps`: also those of its steps alone."""
    units = {
        trial: {name: unit for name, (_, unit) in metrics_here.items()}
        for trial, metrics_here in metrics_of(db, trials).items()
    }
    for trial, names in metrics_of_steps(db, trials).items() if of_steps else ():
        more = {metric.name: metric.unit for metric in (*OF_STEPS, *STATED)}
        for name in names:
            units[trial].setdefault(name, more.get(name, ""))
    return units


def meant_in(
    db: ProfileDB, trial_ids: Iterable[int], name: str, *, of_steps: bool = False
) -> tuple[list[Meant], dict[int, MissingMetric]]:
    """The meaning of the name in the trials, and the problem of each trial that lacks it.

    `of_steps`: of a value of steps.

    Trials that measured the same metrics are handled together; the problem names the first.

    Raises:
        UsageError: its expression is invalid or mixes units, or its unit differs between
            trials.
    """
    trials = list(dict.fromkeys(trial_ids))
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for trial, units_here in units_in(db, trials, of_steps=of_steps).items():
        alike.setdefault(tuple(units_here.items()), []).append(trial)
    meant: dict[object, Meant] = {}
    missing: dict[int, MissingMetric] = {}
    for units, ids in alike.items():
        metrics = TrialMetrics(db, ids[0], dict(units))
        try:
            metric, formula = metrics.meaning(name)
        except MissingMetric as problem:
            missing |= dict.fromkeys(ids, problem)
            continue
        key = metric, formula.sums, tuple(metrics.units.get(name) for name in formula.metrics)
        before = meant.get(key, Meant((), metric, formula, metrics.sums(formula)))
        meant[key] = before._replace(trials=(*before.trials, *ids))
    different = sorted({value.metric.unit for value in meant.values()})
    if len(different) > 1:
        raise UsageError(
            f"'{name}' has the units {' and '.join(different)}: values in different units "
            "cannot be compared"
        )
    return list(meant.values()), missing


class TrialMetrics:
    """A trial's metrics with the definitions of derived metrics."""

    def __init__(
        self, db: ProfileDB, trial_id: int, units: Mapping[str, str] | None = None
    ) -> None:
        """`units`: of the trial's measured metrics, if known."""
        if units is None:
            db.trial(trial_id)
            units = units_in(db, [trial_id])[trial_id]
        self.db = db
        self.id = trial_id
        self.units = dict(units)
        self._definitions: dict[str, Definition] | None = None
        self._level = self._metrics = 0

    @property
    def definitions(self) -> dict[str, Definition]:
        if self._definitions is None:
            self._definitions = derived.definitions(self.db)
        return self._definitions

    @property
    def counts(self) -> set[str]:
        """Names of `COUNTS` that mean calls and are not metrics of the trial."""
        return COUNTS.keys() - self.units.keys()

    def sums(self, formula: Formula) -> tuple[str, ...]:
        """The metrics that a question must query for the formula."""
        texts = [term.text for term in formula.sums if not set(term.metrics) <= self.counts]
        return tuple(texts or [*self.units][:1])

    def meaning(self, name: str) -> tuple[Resolved, Formula]:
        """The meaning of the name, and its formula."""
        metric = self._spelled(name)
        if metric in self.units:
            unit = self.units[metric]
            return Resolved(metric, unit, True, "measured"), Formula.measured(metric, unit)
        definition = self.definitions[metric]
        node = self.tree(metric)
        formula = bound(node, {**COUNTS, **self.units}, definition.unit)
        resolved = Resolved(
            metric,
            formula.unit,
            formula.additive,
            source=definition.source,
            expression=definition.expression,
            description=definition.description,
        )
        return resolved, formula

    def tree(self, metric: str) -> Node:
        """The expression of a metric, over measured metrics only."""
        if metric in self.units:
            return Name(metric)
        parsed = expression.parse(self.definitions[metric].expression)
        self._level = self._metrics = 0
        expanded = self._expanded(parsed, (metric,))
        bound(expanded, {**COUNTS, **self.units})  # errors refer to the user's own expression
        return self._counted(expanded)

    def _spelled(self, name: str) -> str:
        """The metric that this name means."""
        if name in self.units:
            return name
        if name in self.definitions:
            return name
        spellings = {other.lower(): other for other in (*self.definitions, *self.units)}
        spelled = spellings.get(name.lower()) or derived.of_legacy_name(name)
        if spelled is None:
            raise self._missing(name)
        return spelled

    def _missing(self, name: str) -> MissingMetric:
        names = ", ".join(self.units) or "none"
        near = nearest(name, [*self.units, *self.definitions])
        more = f"; near it: {', '.join(near)}" if near else ""
        return MissingMetric(
            f"trial {self.id} has no metric '{name}' (it has: {names}){more}; "
            "`taupy derive` lists what can be derived"
        )

    def _expanded(self, node: Node, inside: tuple[str, ...]) -> Node:
        """The expression over measured metrics only.

        Args:
            inside: the derived metrics whose expressions lead here.
        """
        self._level += 1
        if self._level > _DEEPEST or self._metrics > _MOST:
            raise UsageError(f"'{inside[0]}' depends on too many other derived metrics")
        try:
            if isinstance(node, Name):
                return self._metric(node, inside)
            if isinstance(node, Binary):
                left = self._expanded(node.left, inside)
                return Binary(node.operator, left, self._expanded(node.right, inside))
            if isinstance(node, Function):
                if node.function in LENIENT:
                    return self._lenient(node, inside)
                parts = [self._expanded(argument, inside) for argument in node.arguments]
                return Function(node.function, tuple(parts))
            return node
        finally:
            self._level -= 1

    def _metric(self, node: Name, inside: tuple[str, ...]) -> Node:
        self._metrics += 1
        if node.name in self.units or node.name in COUNTS:
            return node
        definition = self.definitions.get(node.name)
        if definition is None:
            raise MissingMetric(
                f"trial {self.id} has no metric '{node.name}', from which "
                f"'{inside[0]}' is derived (it has: "
                f"{', '.join(self.units) or 'none'}); {_how_to_measure(node.name)}"
            )
        if node.name in inside:
            circle = " -> ".join((*inside[inside.index(node.name) :], node.name))
            raise UsageError(f"derived metrics depend on each other in a circle: {circle}")
        return self._expanded(expression.parse(definition.expression), (*inside, node.name))

    def _lenient(self, node: Function, inside: tuple[str, ...]) -> Node:
        """`sum` or `first` of the metrics that the trial has."""
        arguments: list[Node] = []
        problem: MissingMetric | None = None
        for argument in node.arguments:
            if not isinstance(argument, Name):
                continue
            try:
                meaning = self._metric(argument, inside)
            except MissingMetric as missing:
                problem = problem or missing
                continue
            if isinstance(meaning, Function) and meaning.function == node.function:
                arguments += meaning.arguments
            elif isinstance(meaning, Name):
                arguments.append(meaning)
            else:
                raise UsageError(
                    f"{node.function}() takes measured metrics, and '{argument.name}' is "
                    f"derived as {expression.written(meaning)}"
                )
        if not arguments and problem is not None:
            raise problem
        return Function(node.function, tuple(dict.fromkeys(arguments)))

    def _counted(self, node: Node) -> Node:
        """The expression; if it uses counters, with time and calls of the counted launches only."""
        if set(expression.names(node)) <= _NO_COUNTERS:
            return node
        return self._swapped(node)

    def _swapped(self, node: Node) -> Node:
        if isinstance(node, Name):
            counted = _OF_ALL_LAUNCHES.get(node.name)
            if counted in self.units:
                return Function("first", (Name(counted), node))
            return node
        if isinstance(node, Binary):
            pair = [node.left, node.right]
            for at, other in ((0, 1), (1, 0)):
                ratio = degree(pair[other]) == 0 and any(expression.names(pair[other]))
                if node.operator == "*" and ratio and isinstance(pair[at], Name):
                    pair[other] = self._swapped(pair[other])
                    return Binary("*", pair[0], pair[1])
            return Binary(node.operator, self._swapped(node.left), self._swapped(node.right))
        if isinstance(node, Function) and node.function not in LENIENT:
            return Function(node.function, tuple(map(self._swapped, node.arguments)))
        return node


def _how_to_measure(name: str) -> str:
    from taupy.catalog import cpu_events, spelling

    if spelling.canonical(name) or spelling.is_perfworks(name) or cpu_events.is_name(name):
        return f"measure it with: taupy run --metrics {name} SCRIPT"
    return "`taupy avail` lists what can be measured, `taupy derive` what is derived"
