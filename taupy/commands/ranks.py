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

import argparse
from dataclasses import replace

from taupy.analysis import ranks as analysis
from taupy.analysis.rank_data import Ranks
from taupy.commands import options
from taupy.commands.messages import say
from taupy.comparison import rank_answers
from taupy.comparison import rank_views as views
from taupy.comparison import ranks as comparison
from taupy.comparison.rank_causes import Causes
from taupy.comparison.rank_places import PLACES, of_places
from taupy.comparison.rank_work import work_of_ranks
from taupy.errors import UsageError
from taupy.model.job import lines_of
from taupy.pprof import terminal
from taupy.pprof.view import View
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB

_BYS = ("rank", "step", "collective", *PLACES)
_EVERY = -1
_COLLECTIVES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trial", nargs="?", default=selector.LATEST, metavar="TRIAL", help="default: latest"
    )
    options.add_by_argument(parser, _BYS, "one row for each")
    parser.add_argument(
        "--step",
        nargs="?",
        type=options.count,
        const=_EVERY,
        metavar="N",
        help="only the ranks in step N",
    )
    parser.add_argument(
        "--attempt", type=options.count, metavar="N",
        help="show this attempt of a job that was restarted after a failure (default: last)",
    )  # fmt: skip
    parser.add_argument(
        "--collective", dest="by", action=options.Renamed, nargs=0, const="collective",
        help=argparse.SUPPRESS,
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every collective")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.step == _EVERY:
        say("--step without a number is now --by step")
        args.by, args.step = "step", None
    with options.opened(args) as db:
        trial = selector.trial(db, args.trial).id
        job, attempts = comparison.read_ranks(db, trial, args.attempt)
        if not job.matched:
            reason = _nothing(trial, job)
            work = work_of_ranks(db, trial) if args.by == "rank" and args.step is None else None
            if work is None:
                raise UsageError(reason)
            view = replace(work, notes=[*work.notes, reason])
        else:
            view = _view(db, trial, job, args)
        view = replace(view, notes=[*view.notes, *_others(attempts)])
    terminal.show(view, args.form)
    return 0


def _others(attempts: comparison.Attempts) -> list[str]:
    if len(attempts.all) < 2:
        return []
    return [
        f"this is attempt {attempts.chosen}; the trial also has "
        f"{', '.join(str(n) for n in attempts.all if n != attempts.chosen)} (--attempt N)"
    ]


def _nothing(trial: int, job: Ranks) -> str:
    if any(rank.communicators for rank in job.ranks) and (job.missing or job.behind):
        reasons = [*lines_of({1: job.missing}), *job.behind] if job.missing else job.behind
        advice = "; `taupy merge` joins the databases of several hosts" if job.missing else ""
        return f"no collective of trial {trial} is on two ranks: {'; '.join(reasons)}{advice}"
    if job.failed and not job.apart:
        reasons = [*lines_of({1: job.missing}), *job.failed] if job.missing else job.failed
        return f"no collective of trial {trial} is on two ranks: {'; '.join(reasons)}"
    if len(job.ranks) > 1 and not job.apart:
        return (
            f"trial {trial} has {len(job.ranks)} ranks, and no collective of two of them: measure "
            "with taupy run --collectives; see docs/ranks.md"
        )
    if job.apart:
        return f"no collective of trial {trial} can be matched: {'; '.join(job.apart)}"
    return (
        f"trial {trial} has no collectives of several ranks: measure it under torchrun or "
        "another launcher, or with taupy run --collectives; see docs/ranks.md"
    )


def _view(db: ProfileDB, trial: int, job: Ranks, args: argparse.Namespace) -> View:
    numbers, causes = analysis.numbers_of_steps(job), Causes(db, trial, job)
    if args.step is not None and args.step not in numbers:
        raise UsageError(
            f"trial {trial} has no collective in step {args.step}; `taupy ranks {trial} --by step` "
            "lists the steps"
        )
    if args.by in PLACES:
        return of_places(db, trial, job, args.by, args.step)
    if args.by == "collective":
        most = None if args.all or args.form != "text" else _COLLECTIVES
        return views.collectives_view(
            job, causes.of_collective, args.step, most, views.remarks(job)
        )
    if args.by == "step":
        chosen = numbers if args.step is None else [args.step]
        return rank_answers.of_steps(job, chosen, causes)
    return rank_answers.of_ranks(job, causes, args.step)
