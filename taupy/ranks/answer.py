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

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from taupy.answers.answer import Nothing
from taupy.errors import UsageError
from taupy.model import options
from taupy.model.job import lines_of
from taupy.model.options import option
from taupy.pprof.view import View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.ranks import matching, reading
from taupy.ranks import views as tables
from taupy.ranks.causes import Cause, Causes
from taupy.ranks.data import Ranks
from taupy.ranks.matching import RankTimes
from taupy.ranks.places import PLACES, of_places
from taupy.ranks.work import ranks_of, work_of_ranks
from taupy.units import duration

By = Literal["rank", "step", "collective", "layer", "layer_type", "phase"]

_COLLECTIVES = 20
_OF_MPI = "taupy.health.mpi"
_SPREAD = 0.4
"""A routine with a smaller share of a rank's excess time is not its only cause."""


@dataclass(frozen=True)
class Options(options.Asked):
    by: By = options.by(get_args(By), "one row for each")
    step: int | None = option(None, "only the ranks in step N", metavar="N")
    attempt: int | None = option(
        None,
        "show this attempt of a job that was restarted after a failure (default: last)",
        metavar="N",
    )
    limit: int | None = options.limit()
    whole: bool = options.whole("every collective")

    @property
    def alone(self) -> bool:
        return True


PAGES = (Options(), Options("step", limit=100))


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table; of ranks without collectives, what each of them did."""
    job, attempts = reading.read_ranks(db, trial, options.attempt)
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


def of_job(db: ProfileDB, trial: int) -> View | None:
    """The ranks of a job, with what is concluded about it in the notes; None if it has none."""
    job, _ = reading.read_ranks(db, trial)
    return _ranks_view(job, Causes(db, trial, job)) if job.matched else work_of_ranks(db, trial)


def _others(attempts: reading.Attempts) -> list[str]:
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
    numbers, causes = matching.numbers_of_steps(job), Causes(db, trial, job)
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
        return _steps_view(job, chosen, causes)
    return _ranks_view(job, causes, options.step)


def _ranks_view(job: Ranks, causes: Causes, step: int | None = None) -> View:
    """One row per rank, for one step or all."""
    sums = matching.times(job, step)
    noted, after = (sums, 0) if step is not None else matching.after_warm_up(job)
    notes = _why(job, noted, causes, step, after)
    if step is None and (received := reading.receives(job, causes.unknown_waits)) is not None:
        notes.append(received)
    if step is None and (measuring := causes.of_measuring()) is not None:
        notes.append(
            f"up to {duration(measuring[1])} of a rank's time is taupy's own and left out of "
            f"causes: {measuring[0]}"
        )
    return tables.view(job, sums, step, notes)


def _steps_view(job: Ranks, numbers: Sequence[int], causes: Causes) -> View:
    """One row per step: the rank that the others waited for."""
    longest = tables.slowest(job)
    steps = [
        tables.StepOfRanks(
            number,
            longest.get(number),
            worst,
            _phase(job, sums, number, causes),
            _in_step(causes, worst, number),
        )
        for number in numbers
        for sums in [matching.times(job, number)]
        for worst in [matching.straggler(sums)]
    ]
    return tables.steps_view(steps, len(job.ranks))


def _in_step(causes: Causes, worst: RankTimes | None, number: int) -> Cause | None:
    if worst is None or not causes.since_collectives:
        return None
    return next(iter(causes.of_rank(worst.rank, number)), None)


def _phase(
    job: Ranks, sums: list[RankTimes], step: int, causes: Causes
) -> tuple[str, float] | None:
    """The phase in which the rank that the others waited for took longer: that of the routines
    which did, if they are known."""
    worst = matching.straggler(sums)
    if worst is None or worst.rank in causes.unexplained:
        return None
    if causes.since_collectives:
        phases: dict[str, float] = {}
        for cause in causes.of_rank(worst.rank, step):
            phase = cause.phase or "other"
            phases[phase] = phases.get(phase, 0.0) + cause.excess_ns
        if phases:
            return max(phases.items(), key=lambda item: item[1])
    waits = {times.rank: times.wait_ns for times in sums}
    steps = {rank.number: rank.steps for rank in job.ranks if rank.steps is not None}
    return reading.longer_phase(steps, waits, worst.rank, step)


def _why(
    job: Ranks, sums: list[RankTimes], causes: Causes, step: int | None, after: int
) -> list[str]:
    """The rank that was waited for most, in a step or after one, and what took it longer."""
    worst = matching.straggler(sums)
    if worst is None:
        return []
    waited = sum(times.caused_ns for times in sums)
    begin = f"after the warm-up (step{'s 1 to' if after > 1 else ''} {after}), " if after else ""
    notes = [
        f"{begin}the others waited {duration(worst.caused_ns)} for rank {worst.rank}, "
        f"{100 * worst.caused_ns / waited:.0f} % of all waiting"
    ]
    if worst.rank in causes.unexplained:
        longest = duration(causes.unknown_waits[worst.rank])
        notes.append(
            f"rank {worst.rank} may itself have waited for others, up to {longest} in receives "
            "and other calls that are not matched: what made it late is not known"
        )
        return notes
    if worst.elsewhere_ns:
        notes.append(
            f"{duration(worst.elsewhere_ns)} of that was at collectives to which others came last, "
            f"because rank {worst.rank} had kept them waiting elsewhere"
        )
    if step is not None and (longer := _phase(job, sums, step, causes)) is not None:
        notes.append(f"in step {step} its {longer[0]} took {duration(longer[1])} longer")
    when = "over the whole run"
    if causes.since_collectives:
        when = "before the collectives to which it came last"
        when += f" in step {step}" if step is not None else ""
    longer_by = causes.of_rank(worst.rank, step, after)
    notes += [f"{when}, {_explained(cause, worst.rank)}" for cause in longer_by[:1]]
    whole = causes.within(longer_by)
    if whole is not None and whole[0] not in (longer_by[0].timer, longer_by[0].caller):
        notes.append(f"{100 * whole[1]:.0f} % of what took it longer lies within {whole[0].timer}")
    shared = reading.interruptions(causes.db, causes.trial, job, worst.rank)
    return [*notes, shared] if shared else notes


def _explained(cause: Cause, rank: int) -> str:
    caller = f", called by {cause.caller.timer}" if cause.caller is not None else ""
    spread = "; the rest is spread over other routines" if cause.share < _SPREAD else ""
    return (
        f"{cause.timer.timer} took rank {rank} {duration(cause.excess_ns)} longer than the others "
        f"({cause.phase or 'no phase'}, {cause.layer or 'no layer'}{caller}): "
        f"{100 * cause.share:.0f} % of what took it longer{spread}"
    )
