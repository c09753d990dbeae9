"""Show what the ranks of a job did, which one the others waited for, and why it was late.

    taupy ranks                        the trial stored last, one row per rank
    taupy ranks 12 --by step           one row per step, with the rank waited for
    taupy ranks 12 --step 17           the ranks in one step
    taupy ranks 12 --by collective     the collectives with the largest skew
    taupy ranks 12 --by layer          the layers, or phases, that asked for collectives

The time in a collective is split into waiting, until the last rank arrives, and transfer. See
docs/ranks.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, get_args

from taupy.analysis import ranks as analysis
from taupy.analysis.rank_data import Ranks
from taupy.answers import answer
from taupy.answers.answer import Nothing, option
from taupy.comparison import rank_answers
from taupy.comparison import rank_views as tables
from taupy.comparison import ranks as comparison
from taupy.comparison.rank_causes import Causes
from taupy.comparison.rank_places import PLACES, of_places
from taupy.comparison.rank_work import ranks_of, work_of_ranks
from taupy.errors import UsageError
from taupy.model.job import lines_of
from taupy.pprof.view import View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB

By = Literal["rank", "step", "collective", "layer", "layer_type", "phase"]

_COLLECTIVES = 20
_OF_MPI = "taupy.health.mpi"


@dataclass(frozen=True)
class Options(answer.Asked):
    by: By = answer.by(get_args(By), "one row for each")
    step: int | None = option(None, "only the ranks in step N", metavar="N")
    attempt: int | None = option(
        None,
        "show this attempt of a job that was restarted after a failure (default: last)",
        metavar="N",
    )
    limit: int | None = answer.limit()
    whole: bool = answer.whole("every collective")

    @property
    def alone(self) -> bool:
        return True


PAGES = (Options(), Options("step", limit=100))


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table; of ranks without collectives, what each of them did."""
    job, attempts = comparison.read_ranks(db, trial, options.attempt)
    if job.matched:
        view = _view(db, trial, job, options)
    else:
        facts = query.trial_metadata(db, trial)
        doubts = dict.fromkeys(value for _, name, value in facts if name == _OF_MPI)
        reason = _nothing(trial, job, len(ranks_of(query.node_facts(db, trial))), doubts)
        alone = options.by == "rank" and options.step is None
        work = work_of_ranks(db, trial) if alone else None
        if work is None:
            raise Nothing(reason)
        view = replace(work, notes=[*work.notes, reason])
    return [replace(view, notes=[*view.notes, *_others(attempts)]).first(options.limit)]


def _others(attempts: comparison.Attempts) -> list[str]:
    if len(attempts.all) < 2:
        return []
    return [
        f"this is attempt {attempts.chosen}; the trial also has "
        f"{', '.join(str(n) for n in attempts.all if n != attempts.chosen)} (--attempt N)"
    ]


def _nothing(trial: int, job: Ranks, count: int, doubts: Collection[str]) -> str:
    missing = lines_of({1: job.missing}) if job.missing else []
    if any(rank.communicators for rank in job.ranks) and (job.missing or job.behind):
        reasons = [*missing, *job.behind]
        advice = "; `taupy merge` joins the databases of several hosts" if job.missing else ""
        return f"no collective of trial {trial} is on two ranks: {'; '.join(reasons)}{advice}"
    if job.failed and not job.apart:
        reasons = [*missing, *job.failed]
        return f"no collective of trial {trial} is on two ranks: {'; '.join(reasons)}"
    if doubts and not job.apart:
        return f"no collective of trial {trial} is on two ranks: {'; '.join(doubts)}"
    if len(job.ranks) > 1 and not job.apart:
        return (
            f"trial {trial} has {len(job.ranks)} ranks, and no collective of two of them: measure "
            "with taupy run --collectives; see docs/ranks.md"
        )
    if job.apart:
        return f"no collective of trial {trial} can be matched: {'; '.join(job.apart)}"
    if count > 1:
        return (
            f"trial {trial} has {count} ranks and no collectives: those of PyTorch's process "
            "groups, of NCCL and of MPI through mpi4py are recorded, those of other libraries are "
            "not; see docs/ranks.md"
        )
    return (
        f"trial {trial} has no collectives of several ranks: measure it under torchrun or "
        "another launcher, or with taupy run --collectives; see docs/ranks.md"
    )


def _view(db: ProfileDB, trial: int, job: Ranks, options: Options) -> View:
    numbers, causes = analysis.numbers_of_steps(job), Causes(db, trial, job)
    if options.step is not None and options.step not in numbers:
        raise UsageError(
            f"trial {trial} has no collective in step {options.step}; `taupy ranks {trial} "
            "--by step` lists the steps"
        )
    if options.by in PLACES:
        return of_places(db, trial, job, options.by, options.step)
    if options.by == "collective":
        most = None if options.whole else _COLLECTIVES
        remarks = tables.remarks(job)
        return tables.collectives_view(job, causes.of_collective, options.step, most, remarks)
    if options.by == "step":
        chosen = numbers if options.step is None else [options.step]
        return rank_answers.of_steps(job, chosen, causes)
    return rank_answers.of_ranks(job, causes, options.step)
