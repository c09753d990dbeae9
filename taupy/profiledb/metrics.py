"""Values of a metric by its name, whether it was measured or is derived from others.

    resolve(db, trial, "warps_per_inst")      what it is: unit, expression, whether it adds up
    flat_values(db, trial, "warps_per_inst")  FlatRow a timer and thread, as query.flat_profile
    tree_values(db, trial, "warps_per_inst")  TreeRow a call path and thread, as query.call_tree

A derived metric is computed from sums: of a timer, of a call path. Its values in the rows are
`Computed` (`model/formula.py`): plain floats for whoever reads them, and added up with `+`
(`sum()`) they give the value of the whole, not a sum of ratios. A row for which a metric that is
needed was not measured is left out, or NaN where it leads to one that is not. A row with a divisor
of 0 is NaN: it has no value of its own, but its sums count in those of more rows.

Where metrics cover different call paths, sums are of what they cover together. On a GPU's stream
a kernel that was not counted adds its time to no ratio. On a host thread counters may be read at
some routines only: what these did goes with the time of all that they called up to the next such.

In an expression with counters, `time` and `calls` are those of the counted launches, where a
launch of a kernel was counted and another was not; but `ratio * time` takes the whole time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taupy.catalog import cpu_events, spelling
from taupy.errors import MissingMetric, TaupyError, UsageError
from taupy.model import expression
from taupy.model.dimension import dimension, spelled
from taupy.model.expression import LENIENT, Binary, Function, Name, Node
from taupy.model.formula import Computed, Formula, Leaf, bound, degree
from taupy.model.profile import Metric
from taupy.model.rows import FlatRow, TreeRow
from taupy.profiledb import derived, query
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.derived import Definition
from taupy.profiledb.text import shown
from taupy.profiledb.tree import StoredTree, preorder, stored_trees

_METRICS = """
    SELECT id, name, unit FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name <> 'time', name, unit
"""

_THREADS = """
    SELECT id, node, context, thread, kind FROM thread
     WHERE trial_id = ? ORDER BY node, context, thread
"""

_TIMERS = """
    SELECT timer.id, timer.name, timer.short_name, timer.file, timer.line,
           (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
             WHERE timer_group.timer_id = timer.id)
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ?
"""

# The sum tells sets of call paths of equal size apart.
_COVERAGE = """
    SELECT thread_id, metric_id, count(*), sum(callpath_id & 16777215)
      FROM interval_value
     WHERE trial_id = ? AND exclusive IS NOT NULL
     GROUP BY metric_id, thread_id
"""

COUNTS = {"calls": "call", "subroutines": "call"}
"""What every row has, under these names in expressions, with their units."""

_OF_ALL_LAUNCHES = {"time": "counted_time", "calls": "counted_launches"}
_NO_COUNTERS = {"time", "cpu_time", "time_compensated", *COUNTS, *_OF_ALL_LAUNCHES.values()}

_DEEPEST = 300
_MOST = 5000
"""What an expression may be when those that it stands on are put in: levels and metrics."""

Place = tuple[int, int, int]


class Resolved(NamedTuple):
    """What a name stands for in a trial.

    Attributes:
        additive: values of parts add up to that of the whole; of a ratio they do not.
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


def resolve(db: ProfileDB, trial_id: int, name: str) -> Resolved:
    """What this name means in this trial. Letters count the same, large or small.

    Raises:
        NoSuchTrial: there is no such trial.
        MissingMetric: no metric has this name, or one that it is derived from is not there.
        UsageError: its expression is none, or mixes units.
    """
    return _Trial(db, trial_id).meaning(name)[0]


def bound_expression(
    db: ProfileDB, trial_id: int, name: str
) -> tuple[Resolved, Node, dict[str, float], float]:
    """For other evaluators: what a name is, its expression over measured metrics, what takes
    each metric and each `[unit]` of a number to base units, and base units to its own.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`.
    """
    trial = _Trial(db, trial_id)
    found, formula = trial.meaning(name)
    node = trial.tree(found.name)
    scales = {metric: dimension(unit).scale for metric, unit in trial.units.items()}
    scales |= {f"[{unit}]": dimension(unit).scale for unit in expression.units(node)}
    base, factor = spelled(bound(node, {**COUNTS, **trial.units}).dimension)
    if formula is not None and formula.unit != base:
        factor = 1 / dimension(formula.unit).scale
    elif formula is None:
        factor = 1 / scales[found.name]
    return found, node, scales, factor


def available(db: ProfileDB, trial_id: int) -> list[Resolved]:
    """The measured metrics of a trial, then the derived ones that it can give."""
    trial = _Trial(db, trial_id)
    found = [trial.meaning(name)[0] for name in trial.units]
    for name in trial.definitions:
        if name not in trial.units:
            try:
                found.append(trial.meaning(name)[0])
            except TaupyError:
                continue
    return found


def flat_values(db: ProfileDB, trial_id: int, name: str) -> list[FlatRow]:
    """Each timer on each thread that has a value: the rows of `query.flat_profile`.

    By place of the thread, then inclusive from large to small, then name.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`.
    """
    trial = _Trial(db, trial_id)
    found, formula = trial.meaning(name)
    if formula is None:
        return query.flat_profile(db, trial_id, found.name)
    return _flat_rows(trial, formula)


def tree_values(
    db: ProfileDB,
    trial_id: int,
    name: str,
    thread: Place | None = None,
    *,
    least: float | None = None,
    deepest: int | None = None,
) -> list[TreeRow]:
    """Each call path on each thread, or on one: the rows of `query.call_tree`.

    `least` is of additive metrics only. A call path without a value stays, with NaN, where
    one below it has a value.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`.
    """
    trial = _Trial(db, trial_id)
    found, formula = trial.meaning(name)
    if formula is None:
        return query.call_tree(db, trial_id, found.name, thread, least=least, deepest=deepest)
    rows = _tree_rows(trial, formula, thread)
    if deepest is not None:
        rows = [row for row in rows if row.depth <= deepest]
    if least is not None and found.additive:
        rows = [row for row in rows if row.inclusive >= least]
    return rows


# --- what a name means -------------------------------------------------------


class _Trial:
    """A trial's metrics and the definitions that go with them."""

    def __init__(self, db: ProfileDB, trial_id: int) -> None:
        db.trial(trial_id)
        self.db = db
        self.id = trial_id
        self.ids: dict[str, int] = {}
        self.units: dict[str, str] = {}
        for id, name, unit in db.rows(_METRICS, (trial_id,)):
            self.ids.setdefault(name, id)
            self.units.setdefault(name, unit)
        self._definitions: dict[str, Definition] | None = None
        self._level = self._metrics = 0

    @property
    def definitions(self) -> dict[str, Definition]:
        if self._definitions is None:
            self._definitions = derived.definitions(self.db)
        return self._definitions

    def meaning(self, name: str) -> tuple[Resolved, Formula | None]:
        """What the name stands for, and its formula where it is derived."""
        known = self._known(name)
        if known in self.units:
            return Resolved(known, self.units[known], True, "measured"), None
        definition = self.definitions[known]
        node = self.tree(known)
        formula = bound(node, {**COUNTS, **self.units}, definition.unit)
        meant = Resolved(
            known,
            formula.unit,
            formula.additive,
            definition.source,
            definition.expression,
            definition.description,
        )
        return meant, formula

    def tree(self, known: str) -> Node:
        """The expression of a metric, over measured ones alone."""
        if known in self.units:
            return Name(known)
        parsed = expression.parse(self.definitions[known].expression)
        self._level = self._metrics = 0
        expanded = self._expanded(parsed, (known,))
        bound(expanded, {**COUNTS, **self.units})  # an error is told of what the user wrote
        return self._counted(expanded)

    def _known(self, name: str) -> str:
        """The metric that this name means."""
        if name in self.units:
            return name
        if name in self.definitions:
            return name
        spellings = {other.lower(): other for other in (*self.definitions, *self.units)}
        found = spellings.get(name.lower()) or derived.of_legacy_name(name)
        if found is None:
            raise self._missing(name)
        return found

    def _missing(self, name: str) -> MissingMetric:
        there = ", ".join(map(shown, self.units)) or "none"
        from difflib import get_close_matches

        near = get_close_matches(name, [*self.units, *self.definitions], n=3, cutoff=0.6)
        more = f"; near it: {', '.join(map(shown, near))}" if near else ""
        return MissingMetric(
            f"trial {self.id} has no metric '{shown(name)}' (it has: {there}){more}; "
            "`taupy derive` lists what can be derived"
        )

    def _expanded(self, node: Node, inside: tuple[str, ...]) -> Node:
        """The expression over measured metrics alone.

        Args:
            inside: the derived metrics whose expressions lead here.
        """
        self._level += 1
        if self._level > _DEEPEST or self._metrics > _MOST:
            raise UsageError(
                f"'{shown(inside[0])}' stands on too many other derived metrics to be computed"
            )
        try:
            if isinstance(node, Name):
                return self._metric(node, inside)
            if isinstance(node, Binary):
                left = self._expanded(node.left, inside)
                return Binary(node.operator, left, self._expanded(node.right, inside))
            if isinstance(node, Function):
                if node.function in LENIENT:
                    return self._lenient(node, inside)
                parts = [self._expanded(one, inside) for one in node.arguments]
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
                f"trial {self.id} has no metric '{shown(node.name)}', from which "
                f"'{shown(inside[0])}' is derived (it has: "
                f"{', '.join(map(shown, self.units)) or 'none'}); {_how_to_measure(node.name)}"
            )
        if node.name in inside:
            circle = " -> ".join((*inside[inside.index(node.name) :], node.name))
            raise UsageError(f"derived metrics lead in a circle: {shown(circle)}")
        return self._expanded(expression.parse(definition.expression), (*inside, node.name))

    def _lenient(self, node: Function, inside: tuple[str, ...]) -> Node:
        """`sum` or `first` of those metrics that the trial has."""
        there: list[Node] = []
        problem: MissingMetric | None = None
        for argument in node.arguments:
            if not isinstance(argument, Name):
                continue
            try:
                found = self._metric(argument, inside)
            except MissingMetric as missing:
                problem = problem or missing
                continue
            if isinstance(found, Function) and found.function == node.function:
                there += found.arguments
            elif isinstance(found, Name):
                there.append(found)
            else:
                raise UsageError(
                    f"{node.function}() takes measured metrics, and '{shown(argument.name)}' is "
                    f"derived as {expression.written(found)}"
                )
        if not there and problem is not None:
            raise problem
        return Function(node.function, tuple(dict.fromkeys(there)))

    def _counted(self, node: Node) -> Node:
        """The expression with the time and calls of counted launches beside counters."""
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
    if spelling.canonical(name) or spelling.is_perfworks(name) or cpu_events.is_name(name):
        return f"measure it with: taupy run --metrics {shown(name)} SCRIPT"
    return "`taupy avail` lists what can be measured, `taupy derive` what is derived"


# --- values ------------------------------------------------------------------


@of_a_sound_file
def _flat(db: ProfileDB, trial: _Trial, formula: Formula) -> list[FlatRow]:
    """From the flat sums that are stored, one metric after the other."""
    first: dict[tuple[int, int, int, str], FlatRow] = {}
    inclusive: dict[tuple[int, int, int, str], dict[str, float]] = {}
    exclusive: dict[tuple[int, int, int, str], dict[str, float]] = {}
    for metric in formula.metrics:
        if metric not in trial.units:
            continue
        for row in query.flat_profile(db, trial.id, metric):
            key = (row.node, row.context, row.thread, row.timer)
            if key not in first:
                first[key] = row
                inclusive[key] = {"calls": row.calls, "subroutines": row.subroutines}
                exclusive[key] = dict(inclusive[key])
            inclusive[key][metric] = row.inclusive
            exclusive[key][metric] = row.exclusive
    found = []
    for key, row in first.items():
        whole = Computed(formula, formula.parts(inclusive[key]) or ())
        own = Computed(formula, formula.parts(exclusive[key]) or ())
        if whole.parts or own.parts:
            found.append(row._replace(inclusive=whole, exclusive=own))
    return found


def _flat_rows(trial: _Trial, formula: Formula) -> list[FlatRow]:
    measured = {name for name in formula.metrics if name in trial.units}
    if not measured:
        formula_metrics = query.flat_profile(trial.db, trial.id, next(iter(trial.units), "time"))
        found = []
        for row in formula_metrics:
            counts = {"calls": row.calls, "subroutines": row.subroutines}
            value = Computed(formula, formula.parts(counts) or ())
            found.append(row._replace(inclusive=value, exclusive=value))
    elif len(measured) == 1 or _evenly_covered(trial, measured):
        found = _flat(trial.db, trial, formula)
    else:
        streams = {row[:3] for row in query.threads(trial.db, trial.id) if row.kind == "stream"}
        found = [
            row
            for row in _flattened(_tree_rows(trial, formula))
            # On a stream, host routines are only the place from where kernels were launched.
            if row.calls or row[:3] not in streams
        ]
    found.sort(
        key=lambda row: (row.node, row.context, row.thread, _descending(row.inclusive), row.timer)
    )
    return found


def _descending(value: float) -> float:
    return -float(value) if value == value else math.inf


def _evenly_covered(trial: _Trial, metrics: set[str]) -> bool:
    """Have the metrics the same call paths on each thread that has all of them?"""
    ids = {trial.ids[name] for name in metrics}
    by_thread: dict[int, dict[int, tuple[int, int]]] = {}
    for thread, metric, count, check in trial.db.rows(_COVERAGE, (trial.id,)):
        if metric in ids:
            by_thread.setdefault(thread, {})[metric] = (count, check)
    return all(len(set(covered.values())) == 1 for covered in by_thread.values())


@of_a_sound_file
def _trees(
    db: ProfileDB, trial: _Trial, formula: Formula
) -> tuple[list[tuple[int, Place, str]], dict[int, tuple[object, ...]], dict[int, StoredTree]]:
    """Threads by id, place and kind; facts of timers; the threads' trees."""
    threads = [(id, (node, context, number), kind) for id, node, context, number, kind in
               db.rows(_THREADS, (trial.id,))]  # fmt: skip
    facts = {id: tuple(more) for id, *more in db.rows(_TIMERS, (trial.id,))}
    ids = [trial.ids[name] for name in formula.metrics if name in trial.ids]
    return threads, facts, stored_trees(db, trial.id, ids)


def _tree_rows(trial: _Trial, formula: Formula, thread: Place | None = None) -> list[TreeRow]:
    threads, facts, trees = _trees(trial.db, trial, formula)
    if thread is not None and all(place != tuple(thread) for _, place, _ in threads):
        query.call_tree(trial.db, trial.id, thread=thread)  # says which threads there are
    found: list[TreeRow] = []
    for thread_id, place, kind in threads:
        if thread_id in trees and (thread is None or place == tuple(thread)):
            tree = trees[thread_id]
            found += _Values.of(tree, trial, formula, kind == "stream").rows(tree, place, facts)
    return found


@dataclass(slots=True)
class _Values:
    """The values of one thread's call paths, and each one's parent row (-1 for a root)."""

    parents: list[int]
    inclusive: list[Computed]
    exclusive: list[Computed]

    @classmethod
    def of(cls, tree: StoredTree, trial: _Trial, formula: Formula, stream: bool) -> _Values:
        parents = tree.parents()
        whole = _columns(tree, tree.inclusive, trial, formula)
        own = _columns(tree, tree.exclusive, trial, formula)
        counts = [set(leaf.metrics) <= COUNTS.keys() for leaf in formula.leaves]
        if not _covers_unevenly(own, counts):
            whole_parts, own_parts = (
                list(map(_complete, zip(*whole, strict=True))),
                list(map(_complete, zip(*own, strict=True))),
            )
        elif stream:
            own_parts = list(map(_complete, zip(*own, strict=True)))
            whole_parts = _summed(own_parts, parents, counts)
        else:
            own_parts = _with_unmeasured_callees(list(zip(*own, strict=True)), parents, counts)
            whole_parts = list(map(_complete, zip(*whole, strict=True)))
        return cls(
            parents,
            [Computed(formula, parts) for parts in whole_parts],
            [Computed(formula, parts) for parts in own_parts],
        )

    def rows(
        self, tree: StoredTree, place: Place, facts: Mapping[int, tuple[object, ...]]
    ) -> list[TreeRow]:
        """Those with a value, and those that lead to one; callers before callees."""
        names = {timer: str(facts[timer][0]) for timer in set(tree.timer)}
        order = sorted(
            range(len(tree.callpath)), key=[names[one] for one in tree.timer].__getitem__
        )
        order.sort(key=[_descending(value) for value in self.inclusive].__getitem__)
        lines = preorder(self.parents, order)
        kept = [
            bool(one.parts or two.parts)
            for one, two in zip(self.inclusive, self.exclusive, strict=True)
        ]
        for row in reversed(lines):
            if kept[row] and self.parents[row] >= 0:
                kept[self.parents[row]] = True
        depth = [0] * len(lines)
        found = []
        for row in lines:
            above = self.parents[row]
            depth[row] = depth[above] + 1 if above >= 0 else 0
            if kept[row]:
                line = (
                    *place, tree.callpath[row], tree.callpath[above] if above >= 0 else None,
                    depth[row], *facts[tree.timer[row]], tree.calls[row], tree.subroutines[row],
                    self.inclusive[row], self.exclusive[row],
                )  # fmt: skip
                found.append(TreeRow._make(line))
        return found


def _covers_unevenly(own: Sequence[Sequence[float]], counts: Sequence[bool]) -> bool:
    """Has some row one of the sums and lacks another?"""
    measured = [column for column, count in zip(own, counts, strict=True) if not count]
    if len(measured) < 2:
        return False
    there = [[value == value for value in column] for column in measured]
    return any(column != there[0] for column in there)


def _columns(
    tree: StoredTree, stored: Mapping[int, Sequence[float]], trial: _Trial, formula: Formula
) -> list[list[float]]:
    """One column for each sum that the formula needs; NaN where it was not measured."""
    nothing = [math.nan] * len(tree.callpath)
    there: dict[str, Sequence[float]] = {"calls": tree.calls, "subroutines": tree.subroutines}
    there = {name: there[name] for name in there if name not in trial.ids}
    for name in formula.metrics:
        if name in trial.ids:
            there[name] = stored.get(trial.ids[name], nothing)
    return [_column(leaf, there) for leaf in formula.leaves]


def _column(leaf: Leaf, there: Mapping[str, Sequence[float]]) -> list[float]:
    if len(leaf.metrics) == 1:
        factor = leaf.factors[0]
        column = there[leaf.metrics[0]]
        return list(column) if factor == 1 else [value * factor for value in column]
    columns = [there[name] for name in leaf.metrics]
    found = []
    for values in zip(*columns, strict=True):
        value = leaf.value(dict(zip(leaf.metrics, values, strict=True)))
        found.append(math.nan if value is None else value)
    return found


def _complete(parts: tuple[float, ...]) -> tuple[float, ...]:
    """The sums of a row; nothing where one of them was not measured."""
    return parts if all(part == part for part in parts) else ()


def _summed(
    own: Sequence[tuple[float, ...]], parents: Sequence[int], counts: Sequence[bool]
) -> list[tuple[float, ...]]:
    """Each row's sums with those below it; of what counts calls, only its own."""
    found = list(own)
    for row in reversed(preorder(parents, range(len(parents)))):
        above = parents[row]
        if above < 0 or not found[row]:
            continue
        if not found[above]:
            found[above] = tuple(
                0 if count else part for part, count in zip(found[row], counts, strict=True)
            )
        else:
            found[above] = tuple(
                one if count else one + two
                for one, two, count in zip(found[above], found[row], counts, strict=True)
            )
    return found


def _with_unmeasured_callees(
    own: list[tuple[float, ...]], parents: Sequence[int], counts: Sequence[bool]
) -> list[tuple[float, ...]]:
    """Each complete row's own sums with those of incomplete rows below, up to the next complete."""
    found = [_complete(parts) for parts in own]
    carried = [tuple(0 if part != part else part for part in parts) for parts in own]
    for row in reversed(preorder(parents, range(len(parents)))):
        above = parents[row]
        if found[row]:
            found[row] = carried[row]
        elif above >= 0:
            carried[above] = tuple(
                one if count else one + two
                for one, two, count in zip(carried[above], carried[row], counts, strict=True)
            )
    return found


def _flattened(rows: Sequence[TreeRow]) -> list[FlatRow]:
    """The flat profile of call paths; a recursive routine's inclusive counts once."""
    found: dict[tuple[int, int, int, str], FlatRow] = {}
    above: list[str] = []  # the timers on the way to the row
    active: dict[str, int] = {}
    for row in rows:  # a thread's first row is a root, at depth 0
        while len(above) > row.depth:
            active[above.pop()] -= 1
        nested = active.get(row.timer, 0) > 0
        above.append(row.timer)
        active[row.timer] = active.get(row.timer, 0) + 1
        key = (row.node, row.context, row.thread, row.timer)
        before = found.get(key)
        if before is None:
            found[key] = FlatRow._make((*row[:3], *row[6:]))
        else:
            found[key] = before._replace(
                calls=before.calls + row.calls,
                subroutines=before.subroutines + row.subroutines,
                inclusive=before.inclusive if nested else before.inclusive + row.inclusive,
                exclusive=before.exclusive + row.exclusive,
            )
    return [row for row in found.values() if _has_sums(row.inclusive) or _has_sums(row.exclusive)]


def _has_sums(value: float) -> bool:
    return isinstance(value, Computed) and bool(value.parts)
