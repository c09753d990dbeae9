"""Read the work of steps, for rooflines: what each step's own thread did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import step_name
from taupy.model.work import METRICS, StepWork, TrialWork
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.steps import read_steps


def with_steps(db: ProfileDB, work: TrialWork) -> TrialWork:
    """The work of a trial with that of its steps, which have no values if nothing was counted."""
    threads = threads_by_id(db, work.trial_id)
    series = [(threads[id], steps) for id, steps in read_steps(db, work.trial_id)]
    is_alone = len({thread[:3] for thread, _ in series}) == 1
    return replace(
        work, steps=tuple(step for of_thread in series for step in _steps(*of_thread, is_alone))
    )


def _steps(thread: ThreadRow, steps: Steps, is_alone: bool) -> Iterator[StepWork]:
    what = "step" if steps.kind == "training" else f"{steps.kind} step"
    where = "" if is_alone else f", {thread.node}.{thread.thread} {thread.name}".rstrip()
    counted = [(name, steps.metrics[name]) for name in METRICS if name in steps.metrics]
    for row, (number, count, time) in enumerate(
        zip(steps.number, steps.count, steps.time_ns, strict=True)
    ):
        values = {name: column[row] for name, column in counted if not math.isnan(column[row])}
        name = f"{what} {step_name('training', number, count)}{where}"
        yield StepWork(name, thread[:3], count, time, values)
