"""Answer questions by `step`: its time, in total and by phase, and what its thread used in it.

    Question((7,), by=("thread", "step"))        the time of each step
    Question((7, 8), by=("trial", "step", "phase"))
    Question((7,), ("cpu_time", "flop_fp64"), by=("step",))

Steps are not call paths: no routine, layer, kernel or launch is recorded step by step. CPU time,
run delay and counters are known of a whole step, not of its phases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from taupy.errors import UsageError
from taupy.model.formula import Sum
from taupy.model.metric import OF_STEPS, STATED, TIME
from taupy.model.question import COUNTS, VALUES, Question
from taupy.model.step_spans import step_name
from taupy.model.table import Amount, Column, Table, merged
from taupy.network.phases import KINDS
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import dimension, ids_where, labels, listed
from taupy.profiledb.steps import METRICS_OF, STRETCH, metrics_of_steps, not_of_steps
from taupy.profiledb.translation import metrics_of, sums_of, units_agree

STEP, PHASE = "step", "phase"

_READ = f"""
    SELECT step.trial_id, step.thread_id, step.kind, step.number, step.count, step.time_ns,
           {", ".join(f"step.{kind}_ns" for kind in KINDS)}
      FROM step
     WHERE step.kind <> '{STRETCH}' AND step.trial_id IN ({{trials}})
     ORDER BY step.trial_id, step.thread_id, step.kind, step.number"""

_METRICS = f"""
    SELECT trial_id, thread_id, kind, number, name, value
      FROM step_value
     WHERE kind IN ('training{METRICS_OF}', 'validation{METRICS_OF}')
       AND trial_id IN ({{trials}}) AND name IN ({{names}})"""

_ANY = f"SELECT 1 FROM step WHERE kind <> '{STRETCH}' AND trial_id IN ({{trials}}) LIMIT 1"

_Used = Mapping[str, Amount]
"""Metric -> what a step used."""

_Row = tuple[int, int, str, str | None, int, _Used]
"""Ids of trial and thread, step, phase, number of steps, metrics with the time [ns]."""


def step_values(db: ProfileDB, question: Question) -> Table:
    """The sums of a question that groups by steps or selects some.

    `exclusive` and `inclusive` are what the steps took, or, for the time, their phases; `calls` is
    their number.

    Raises:
        UsageError: it asks for something that is not recorded step by step.
    """
    columns, sums = _columns(db, question)
    rows: list[_Row] = []
    for trial, thread, name, phase, count, taken in _rows(db, question, _metrics_of(sums.values())):
        used = {text: _sum(term, taken) for text, term in sums.items()}
        is_known = [number is not None for number in used.values()]
        if not is_known or (all(is_known) if question.together else any(is_known)):
            rows.append((trial, thread, name, phase, count, used))
    ids: dict[str, Sequence[Any]] = {
        name: [row[at] for row in rows] for at, name in enumerate(("trial", "thread", STEP, PHASE))
    }
    codes, names = {}, {}
    for name in question.by:
        of_id = _labels(db, name, ids)
        numbers: dict[Any, int] = {}
        codes[name] = [numbers.setdefault(label, len(numbers)) for label in of_id]
        names[name] = list(numbers)
    cells: dict[Column, Sequence[Amount]] = {
        column: [_number(column, count, used) for *_, count, used in rows] for column in columns
    }
    return merged(Table(codes, names, cells, len(rows)))


def _columns(db: ProfileDB, question: Question) -> tuple[list[Column], dict[str, Sum]]:
    """The columns of the answer, and what each metric of the question stands for.

    Raises:
        UsageError: something, or a dimension, is not recorded for steps.
    """
    for name in dict.fromkeys(
        (*question.by, *(condition.dimension for condition in question.where))
    ):
        if name not in (STEP, PHASE) and dimension(name).of not in ("trial", "thread"):
            what = "routine" if name == "timer" else name
            raise UsageError(
                f"steps cannot be divided by {what}: of a step its time is recorded, as a whole and"
                " by phase, and what its thread used; `taupy run --steps A:B` records all details"
                " of some steps"
            )
    if not {*question.values} <= {*VALUES}:
        raise UsageError("launches and user events are not recorded step by step")
    measured_in = metrics_of(db, question.trials)
    units = {metric.name: metric.unit for metric in (*OF_STEPS, *STATED)}
    units |= {
        name: unit for of_trial in measured_in.values() for name, (_, unit) in of_trial.items()
    }
    metrics_asked = [metric for metric in question.metrics if metric not in COUNTS]
    sums = dict(zip(metrics_asked, sums_of(metrics_asked, units), strict=True))
    units_agree(measured_in, _metrics_of(sums.values()))
    _known(db, question, sums.values())
    columns = [
        Column(value, "", "call") for value in VALUES if value in question.values if value in COUNTS
    ]
    for metric in question.metrics:
        unit = "call" if metric in COUNTS else units.get(sums[metric].metrics[0], "")
        columns += [Column(value, metric, unit) for value in question.values if value not in COUNTS]
    return columns, sums


def _metrics_of(sums: Iterable[Sum]) -> set[str]:
    return {name for term in sums for name in term.metrics}


def _known(db: ProfileDB, question: Question, sums: Iterable[Sum]) -> None:
    """Check that each metric is known of some step, if there are steps.

    Raises:
        UsageError: one is not, or is asked for by phase.
    """
    others = [term for term in sums if TIME.name not in term.metrics]
    if not others:
        return
    if PHASE in question.dimensions:
        raise UsageError(
            f"'{others[0].text}' is known of whole steps only: of a phase in a step, only "
            f"{TIME.name} is"
        )
    trials = listed(question.trials)
    of_trials = metrics_of_steps(db, question.trials).values()
    measured = sorted({name for of_trial in of_trials for name in of_trial})
    for term in others:
        if {*measured}.isdisjoint(term.metrics) and any(db.rows(_ANY.replace("{trials}", trials))):
            raise not_of_steps(term.text, measured)


def _sum(term: Sum, used: _Used) -> Amount:
    """The first known metric of a term, or the sum of those that are known."""
    numbers = [number for name in term.metrics if (number := used.get(name)) is not None]
    return None if not numbers else sum(numbers) if term.function == "sum" else numbers[0]


def _number(column: Column, count: int, used: _Used) -> Amount:
    if "subroutines" in (column.value, column.metric):
        return None
    return count if "calls" in (column.value, column.metric) else used.get(column.metric)


def _used(db: ProfileDB, trials: str, metrics: Collection[str]) -> Mapping[tuple[Any, ...], _Used]:
    """What each step used; the keys are trial, thread, kind and number."""
    used: dict[tuple[Any, ...], dict[str, Amount]] = {}
    names = [name for name in metrics if name != TIME.name]
    marks = ", ".join("?" * len(names))
    statement = _METRICS.replace("{trials}", trials).replace("{names}", marks)
    for trial, thread, kind, number, name, value in db.rows(statement, names) if names else ():
        whole = int(value) if value.is_integer() else value
        used.setdefault((trial, thread, kind.removesuffix(METRICS_OF), number), {})[name] = whole
    return used


def _rows(db: ProfileDB, question: Question, metrics: Collection[str]) -> Iterator[_Row]:
    where = question.where
    trials = ids_where(db, "trial", question.trials, where)
    chosen = question.trials if trials is None else trials
    threads = ids_where(db, "thread", chosen, where)
    kept = None if threads is None else {*threads}
    steps, phases = ([limit.labels for limit in where if limit.dimension == name]
                     for name in (STEP, PHASE))  # fmt: skip
    divided = PHASE in question.dimensions
    used = _used(db, listed(chosen), metrics)
    for trial, thread, kind, number, count, time, *of_kinds in db.rows(
        _READ.replace("{trials}", listed(chosen))
    ):
        name = step_name(kind, number, count)
        if (kept is not None and thread not in kept) or any(name not in names for names in steps):
            continue
        more = used.get((trial, thread, kind, number), {})
        parts = _phases(time, of_kinds) if divided else [(None, time)]
        for phase, amount in parts:
            if all(phase in names for names in phases):
                yield trial, thread, name, phase, count, {TIME.name: amount, **more}


def _phases(time: int, of_kinds: Sequence[int | None]) -> Iterator[tuple[str | None, int]]:
    """Each phase of a step with its time, and None with the rest of the step's time."""
    parts = [(kind, part) for kind, part in zip(KINDS, of_kinds, strict=True) if part]
    yield from parts
    if rest := max(0, time - sum(part for _, part in parts)):
        yield None, rest


def _labels(db: ProfileDB, name: str, ids: dict[str, Sequence[Any]]) -> Sequence[Any]:
    """The label of each row in a dimension."""
    if name in (STEP, PHASE):
        return ids[name]
    source = ids[dimension(name).of]
    of_id = labels(db, name, [*dict.fromkeys(source)])
    return [of_id[id][0] for id in source]
