"""Show the steps of a training: time, phases, samples per second, and logged values.

    taupy steps                       the first and last steps, and outliers
    taupy steps 12 --all              every step
    taupy steps --csv                 every step, for other tools
    taupy steps --kind validation     validation steps only

A step is one iteration: it ends when the next batch is fetched after the optimizer's step. See
docs/steps.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from taupy.answers import answer
from taupy.answers.answer import Nothing, option
from taupy.model.profile import StepKind
from taupy.network.steps import TOKENS
from taupy.pprof import steps
from taupy.pprof.view import View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import steps_of


@dataclass(frozen=True)
class Options(answer.Asked):
    whole: bool = answer.whole("every step, not only unusual ones")
    kind: StepKind | None = option(None, "steps of this kind", choices=get_args(StepKind))


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each series of steps."""
    facts = {fact.name: str(fact.value) for fact in query.trial_metadata(db, trial)}
    tables = [
        steps.view(thread, series, whole=options.whole, tokens=facts.get(TOKENS, ""))
        for thread, series in steps_of(db, trial)
        if options.kind in (None, series.kind)
    ]
    if not tables:
        raise Nothing(
            f"trial {trial} has no steps{f' of {options.kind}' if options.kind else ''}: no "
            "optimizer of PyTorch was called, or it was measured by the plain engine or an "
            "older taupy; a program can mark its steps itself: see docs/steps.md"
        )
    return tables
