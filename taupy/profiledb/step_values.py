"""Answer questions by `step`: only the time of a step is recorded, in total and by phase.

    Question((7,), by=("thread", "step"))        the time of each step
    Question((7, 8), by=("trial", "step", "phase"))

Steps are not call paths: no routine, layer, kernel or launch is recorded step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from taupy.errors import UsageError
from taupy.model.metric import TIME
from taupy.model.question import COUNTS, VALUES, Question
from taupy.model.step_spans import step_name
from taupy.model.table import Amount, Column, Table, merged
from taupy.network.phases import KINDS
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import dimension, ids_where, labels, listed
from taupy.profiledb.steps import STRETCH, only_time

STEP, PHASE = "step", "phase"

_READ = f"""
    SELECT step.trial_id, step.thread_id, step.kind, step.number, step.count, step.time_ns,
           {", ".join(f"step.{kind}_ns" for kind in KINDS)}
      FROM step
     WHERE step.kind <> '{STRETCH}' AND step.trial_id IN ({{trials}})
     ORDER BY step.trial_id, step.thread_id, step.kind, step.number"""

_Row = tuple[int, int, str, str | None, int, int]
"""Ids of trial and thread, step, phase, number of steps, time [ns]."""


def step_values(db: ProfileDB, question: Question) -> Table:
    """The sums of a question that groups by steps or selects some.

    `exclusive` and `inclusive` are the time of the steps, or of their phases; `calls` their number.

    Raises:
        UsageError: it asks for something that is not recorded step by step.
    """
    columns = [_column(value, metric) for value, metric in _asked(question)]
    rows = list(_rows(db, question))
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
        column: [_number(column, count, time) for *_, count, time in rows] for column in columns
    }
    return merged(Table(codes, names, cells, len(rows)))


def _asked(question: Question) -> Iterator[tuple[str, str]]:
    """The value and metric of each column.

    Raises:
        UsageError: one of them, or a dimension, is not recorded for steps.
    """
    for name in dict.fromkeys(
        (*question.by, *(condition.dimension for condition in question.where))
    ):
        if name not in (STEP, PHASE) and dimension(name).of not in ("trial", "thread"):
            what = "routine" if name == "timer" else name
            raise UsageError(
                f"steps cannot be divided by {what}: of a step its time is recorded, as a whole and"
                " by phase; `taupy run --steps A:B` records all details of some steps"
            )
    for value in VALUES:
        if value in question.values and value in COUNTS:
            yield value, ""
    if not {*question.values} <= {*VALUES}:
        raise UsageError("launches and user events are not recorded step by step")
    for metric in question.metrics:
        if metric not in COUNTS:
            only_time(metric)
        yield from ((value, metric) for value in question.values if value not in COUNTS)


def _column(value: str, metric: str) -> Column:
    unit = "call" if value in COUNTS or metric in COUNTS else TIME.unit
    return Column(value, metric, unit)


def _number(column: Column, count: int, time: int) -> Amount:
    if "subroutines" in (column.value, column.metric):
        return None
    return count if "calls" in (column.value, column.metric) else time


def _rows(db: ProfileDB, question: Question) -> Iterator[_Row]:
    where = question.where
    trials = ids_where(db, "trial", question.trials, where)
    chosen = question.trials if trials is None else trials
    threads = ids_where(db, "thread", chosen, where)
    kept = None if threads is None else {*threads}
    steps, phases = ([limit.labels for limit in where if limit.dimension == name]
                     for name in (STEP, PHASE))  # fmt: skip
    divided = PHASE in question.dimensions
    for trial, thread, kind, number, count, time, *of_kinds in db.rows(
        _READ.replace("{trials}", listed(chosen))
    ):
        name = step_name(kind, number, count)
        if (kept is not None and thread not in kept) or any(name not in names for names in steps):
            continue
        parts = _phases(time, of_kinds) if divided else [(None, time)]
        for phase, amount in parts:
            if all(phase in names for names in phases):
                yield trial, thread, name, phase, count, amount


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
