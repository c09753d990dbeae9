"""Values of a metric by its name, measured or derived.

    resolve(db, trial, "warps_per_inst")      unit, expression, whether it is additive
    answer(db, trial, "warps_per_inst", ("thread", "timer"))     sums and formula
    flat_profile(db, trial, "warps_per_inst")  one row per timer and thread
    call_tree(db, trial, "warps_per_inst")  one row per call path and thread

A derived metric is computed from the sums of a timer or call path. A row on which a required metric
was not measured is omitted, or is NaN if rows below it have a value. A row with a divisor of 0 is
NaN, but its sums count in those of larger groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from taupy.errors import NoSuchTrial, TaupyError
from taupy.model import callpaths, expression
from taupy.model.answer import Answer, in_order, tree_rows
from taupy.model.dimension import dimension, spelled
from taupy.model.expression import Node
from taupy.model.formula import bound
from taupy.model.question import VALUES, Condition, Question, Value
from taupy.model.rows import TreeRow
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import ids_of, labels, rows_of_ids
from taupy.profiledb.meaning import COUNTS, Meant, Resolved, TrialMetrics, units_in
from taupy.profiledb.values import values

Place = tuple[int, int, int]

CALL_TREE = ("thread", "callpath", "parent", "timer")
"""The dimensions of a call tree."""

_PATHS = """
    SELECT callpath.id, callpath.parent_id, callpath.depth, callpath.timer_id
      FROM callpath WHERE callpath.id IN ({ids})"""


def resolve(db: ProfileDB, trial_id: int, name: str, *, of_steps: bool = False) -> Resolved:
    """The meaning of a name in a trial, case-insensitive; `of_steps`: of a value of its steps.

    Raises:
        NoSuchTrial: there is no such trial.
        MissingMetric: no metric has this name, or a metric it is derived from is missing.
        UsageError: its expression is invalid or mixes units.
    """
    return _metrics(db, trial_id, of_steps).meaning(name)[0]


def _metrics(db: ProfileDB, trial_id: int, of_steps: bool) -> TrialMetrics:
    db.trial(trial_id)
    return TrialMetrics(db, trial_id, units_in(db, [trial_id], of_steps=of_steps)[trial_id])


def bound_expression(
    db: ProfileDB, trial_id: int, name: str
) -> tuple[Resolved, Node, dict[str, float], float]:
    """For other evaluators: the meaning of a name, its expression over measured metrics, the
    factors from each metric's and number's unit to base units, and from base units to its unit.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`.
    """
    trial = TrialMetrics(db, trial_id)
    resolved, formula = trial.meaning(name)
    node = trial.tree(resolved.name)
    scales = {metric: dimension(unit).scale for metric, unit in trial.units.items()}
    scales |= {f"[{unit}]": dimension(unit).scale for unit in expression.units(node)}
    base, factor = spelled(bound(node, {**COUNTS, **trial.units}).dimension)
    if formula.unit != base:
        factor = 1 / dimension(formula.unit).scale
    return resolved, node, scales, factor


def available(db: ProfileDB, trial_id: int) -> list[Resolved]:
    """The measured metrics of a trial, then the derived ones available."""
    trial = TrialMetrics(db, trial_id)
    metrics_here = [trial.meaning(name)[0] for name in trial.units]
    for name in trial.definitions:
        if name not in trial.units:
            try:
                metrics_here.append(trial.meaning(name)[0])
            except TaupyError:
                continue
    return metrics_here


def answer(
    db: ProfileDB,
    trial_id: int,
    name: str = "time",
    by: Sequence[str] = (),
    where: Sequence[Condition] = (),
    ids: Sequence[str] = (),
) -> Answer:
    """The sums that the metric needs, and the formula that computes its values.

    Args:
        ids: dimensions of which the ids are the labels.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`, or an unknown dimension.
    """
    trial = _metrics(db, trial_id, "step" in by)
    metric, formula = trial.meaning(name)
    meant = Meant((trial_id,), metric, formula, trial.sums(formula))
    return of_meant(db, meant, by, where, ids=ids)


def of_meant(
    db: ProfileDB,
    meant: Meant,
    by: Sequence[str] = (),
    where: Sequence[Condition] = (),
    counted: Sequence[Value] = VALUES,
    beside: Sequence[str] = (),
    ids: Sequence[str] = (),
) -> Answer:
    """As `answer`, for several trials in which the name has the same meaning.

    Args:
        counted: the values needed.
        beside: further sums, over call paths on which the whole metric was measured.
        ids: dimensions of which the ids are the labels.

    Raises:
        UsageError: an unknown dimension.
    """
    sums = (*meant.sums, *beside)
    question = Question(
        meant.trials, sums, tuple(by), tuple(where), values=tuple(counted), together=len(sums) > 1,
        ids=tuple(ids),
    )  # fmt: skip
    return Answer(meant.metric.metric, meant.formula, values(db, question))


def flat_profile(
    db: ProfileDB,
    trial_id: int,
    name: str = "time",
    threads: Sequence[Place] | None = None,
    ids: Sequence[str] = (),
) -> Answer:
    """Each timer with a value on each (selected) thread, in no particular order.

    Args:
        ids: dimensions of which the ids are the labels.

    Raises:
        NoSuchTrial: there is no such trial, or it has no such thread.
        MissingMetric, UsageError: as `resolve`.
    """
    where = [] if threads is None else [_threads(db, trial_id, threads)]
    profile = answer(db, trial_id, name, ("thread", "timer"), where, ids)
    measured = profile.measured()
    if all(measured):
        return profile
    return profile.taken([row for row, here in enumerate(measured) if here])


def call_tree(
    db: ProfileDB,
    trial_id: int,
    name: str = "time",
    threads: Sequence[Place] | None = None,
    *,
    least: float | None = None,
    deepest: int | None = None,
) -> Answer:
    """The call paths of all threads or some, callers before callees.

    A call path without a value is kept if one below it has a value. A million call paths take
    seconds: use `least` and `deepest` to get only the important ones.

    Args:
        least: for additive metrics, omit call paths with a smaller inclusive value.
        deepest: omit call paths at a greater depth; the root has depth 0.

    Raises:
        NoSuchTrial: there is no such trial, or it has no such thread.
        MissingMetric, UsageError: as `resolve`.
    """
    is_measured = resolve(db, trial_id, name).source == "measured"
    where = [] if threads is None else [_threads(db, trial_id, threads)]
    if is_measured and least is not None:
        where.append(Condition("inclusive", (least,), "at least"))
    if is_measured and deepest is not None:
        where.append(Condition("depth", (deepest,), "at most"))
    tree = in_order(answer(db, trial_id, name, CALL_TREE, where))
    return tree if is_measured else _shown(tree, least if tree.additive else None, deepest)


@of_a_sound_file
def largest_callpaths(
    db: ProfileDB, trial_id: int, name: str = "time", count: int = 20
) -> list[TreeRow]:
    """The call paths with the largest exclusive values on a thread, largest first.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as `resolve`.
    """
    metric = resolve(db, trial_id, name)
    if metric.source != "measured":
        rows = tree_rows(call_tree(db, trial_id, name))
        every = [row for row in rows if row.exclusive == row.exclusive]
        return sorted(every, key=lambda row: -row.exclusive)[:count]
    by = ("thread", "callpath")
    table = values(db, Question((trial_id,), (metric.name,), by, values=VALUES, largest=count))
    paths = table.row_labels("callpath")
    facts = {id: rest for id, *rest in rows_of_ids(db, _PATHS, [*dict.fromkeys(paths)])}
    timers = labels(db, "timer", [*dict.fromkeys(timer for *_, timer in facts.values())])
    numbers = [table.column(value) for value in ("calls", "subroutines")]
    numbers += [table.column(value, metric.name) for value in ("inclusive", "exclusive")]
    return [
        TreeRow._make((*thread[:3], path, *facts[path][:2], *timers[facts[path][2]][0], *row))
        for thread, path, *row in zip(table.row_labels("thread"), paths, *numbers, strict=True)
    ]


def _shown(tree: Answer, least: float | None, deepest: int | None) -> Answer:
    """The requested call paths that have a value or lead to one."""
    parent = callpaths.parents(tree.table)
    depth = callpaths.depths(parent)
    inclusive = tree.values("inclusive")
    kept = tree.measured()
    for row in range(len(kept) - 1, -1, -1):
        if kept[row] and parent[row] >= 0:
            kept[parent[row]] = True
    return tree.taken(
        [
            row
            for row, is_kept in enumerate(kept)
            if is_kept
            and (deepest is None or depth[row] <= deepest)
            and (least is None or inclusive[row] >= least)
        ]
    )


def _threads(db: ProfileDB, trial_id: int, places: Sequence[Place]) -> Condition:
    """The condition that selects these threads.

    Raises:
        NoSuchTrial: the trial lacks one of them; the message lists its threads.
    """
    db.trial(trial_id)
    named = labels(db, "thread", ids_of(db, "thread", [trial_id])).values()
    texts = [".".join(map(str, label[:3])) for (label,) in named]
    place_labels = [".".join(map(str, place)) for place in places]
    for text in place_labels:
        if text not in texts:
            raise NoSuchTrial(
                f"trial {trial_id} has no thread {text} (it has: {', '.join(sorted(texts))})"
            )
    return Condition("thread", tuple(place_labels))
