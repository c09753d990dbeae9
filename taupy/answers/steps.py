"""Show the steps of a training: time, phases, samples per second, and logged values.

    taupy steps                       the first and last steps, and outliers
    taupy steps 12 --all              every step
    taupy steps --csv                 every step, for other tools
    taupy steps --kind validation     validation steps only
    taupy steps --metric cpu_time     what every step used of another metric

A step is one iteration: it ends when the next batch is fetched after the optimizer's step. See
docs/steps.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from taupy.answers import answer
from taupy.answers.answer import Nothing, option
from taupy.model.profile import TIME, Metric, StepKind, Steps
from taupy.model.rows import ThreadRow
from taupy.network.steps import TOKENS
from taupy.pprof import steps
from taupy.pprof.view import View
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import not_of_steps, steps_of


@dataclass(frozen=True)
class Options(answer.Asked):
    whole: bool = answer.whole("every step, not only unusual ones")
    kind: StepKind | None = option(None, "steps of this kind", choices=get_args(StepKind))
    metric: str | None = option(
        None, "what each step used of this metric (default: time)", metavar="NAME", is_text=True
    )


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each series of steps.

    Raises:
        TaupyError: no step has the metric.
    """
    metric = TIME
    if options.metric is not None:
        metric = metrics.resolve(db, trial, options.metric, of_steps=True).metric
    chosen = [of for of in steps_of(db, trial) if options.kind in (None, of[1].kind)]
    if not chosen:
        raise Nothing(
            f"trial {trial} has no steps{f' of {options.kind}' if options.kind else ''}: no "
            "optimizer of PyTorch was called, or it was measured by the plain engine or an "
            "older taupy; a program can mark its steps itself: see docs/steps.md"
        )
    if metric != TIME:
        return _of_metric(metric, chosen)
    facts = {fact.name: str(fact.value) for fact in query.trial_metadata(db, trial)}
    return [
        steps.view(*of_thread, whole=options.whole, tokens=facts.get(TOKENS, ""))
        for of_thread in chosen
    ]


def _of_metric(metric: Metric, chosen: list[tuple[ThreadRow, Steps]]) -> list[View]:
    measured = dict.fromkeys(name for _, series in chosen for name in series.metrics)
    if metric.name not in measured:
        raise not_of_steps(metric.name, measured)
    having = [of for of in chosen if metric.name in of[1].metrics]
    return [steps.of_metric(*of_thread, metric) for of_thread in having]
