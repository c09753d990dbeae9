"""Read the work of steps, for rooflines: what each step's own thread did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from taupy.model.metric import STATED
from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import step_name
from taupy.model.work import LEVEL_OF, METRICS, PRECISION_OF, StepWork, TrialWork
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.steps import read_steps


def with_steps(db: ProfileDB, work: TrialWork) -> TrialWork:
    """The work of a trial with that of its steps, which have no values if nothing was counted."""
    threads = threads_by_id(db, work.trial_id)
    series = [(threads[id], steps) for id, steps in read_steps(db, work.trial_id)]
    is_alone = len({thread[:3] for thread, _ in series}) == 1
    chosen = _chosen(work)
    rows = (_steps(*of_thread, is_alone, chosen) for of_thread in series)
    return replace(work, steps=tuple(step for of_thread in rows for step in of_thread))


def _chosen(work: TrialWork) -> list[str]:
    """The metrics that count. Stated work does not count beside counted work of its kind, or if
    both `taupy.count` and the BLAS have stated it, because these overlap."""
    counted = {metric for routine in work.routines for metric in routine.inclusive}
    chosen = [name for name in METRICS if name in counted]
    if not work.is_stated_twice:
        for kind in (PRECISION_OF, LEVEL_OF):
            if counted.isdisjoint(kind):
                chosen += [metric.name for metric in STATED if metric.name in kind]
    return chosen


def _steps(
    thread: ThreadRow, steps: Steps, is_alone: bool, chosen: Sequence[str]
) -> Iterator[StepWork]:
    what = "step" if steps.kind == "training" else f"{steps.kind} step"
    where = "" if is_alone else f", {thread.node}.{thread.thread} {thread.name}".rstrip()
    counted = [(name, steps.metrics[name]) for name in chosen if name in steps.metrics]
    for row, (number, count, time) in enumerate(
        zip(steps.number, steps.count, steps.time_ns, strict=True)
    ):
        values = {name: column[row] for name, column in counted if not math.isnan(column[row])}
        name = f"{what} {step_name('training', number, count)}{where}"
        yield StepWork(name, thread[:3], count, time, values)
