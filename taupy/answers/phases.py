"""Show where the time of a training goes: data, forward, backward, optimizer, ...

    taupy phases                      the trial stored last
    taupy phases 12
    taupy phases --by rank            one table for each rank, with all its threads
    taupy phases --by layer           one table for each layer of a network
    taupy phases --by step            the phases of the first and last steps, and of outliers

Times add up to the time of the thread, or of all host threads of a rank, node or trial;
`(no phase)` is the time outside all known phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from taupy.answers import answer
from taupy.answers.answer import Nothing
from taupy.pprof import phases
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values

By = Literal["thread", "rank", "node", "trial", "phase", "layer", "layer_type", "step"]


@dataclass(frozen=True)
class Options(answer.Asked):
    by: By = answer.by(get_args(By), "one table for each")
    whole: bool = answer.whole("by step: every step")


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each label of a dimension; by phase, one; by step, one for each series."""
    series = steps_of(db, trial)
    if options.by == "step":
        if not series:
            raise Nothing(f"trial {trial} has no steps: see docs/steps.md")
        return phases.by_step(series, whole=options.whole)
    table = values(db, phases.question(trial, options.by))
    tables = phases.views(table, series, options.by)
    if not tables:
        raise Nothing(
            f"trial {trial} has no known phases: it imported nothing and trained nothing with "
            "PyTorch, or it was recorded by an older taupy; see docs/phases.md"
        )
    return answer.with_remarks(db, trial, tables)
