"""What `taupy ranks` and the page of a trial show about ranks: tables, and why others waited."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.analysis import ranks as analysis
from taupy.analysis.rank_data import Ranks
from taupy.analysis.ranks import RankTimes
from taupy.comparison.rank_causes import Cause, Causes
from taupy.comparison.rank_views import StepOfRanks, slowest, steps_view, view
from taupy.comparison.ranks import interruptions, longer_phase, receives
from taupy.pprof.view import View
from taupy.units import duration

_SPREAD = 0.4
"""A routine with a smaller share of a rank's excess time is not its only cause."""


def of_ranks(job: Ranks, causes: Causes, step: int | None = None) -> View:
    """One row per rank, for one step or all."""
    sums = analysis.times(job, step)
    noted, after = (sums, 0) if step is not None else analysis.after_warm_up(job)
    notes = _why(job, noted, causes, step, after)
    if step is None and (received := receives(job, causes.unknown_waits)) is not None:
        notes.append(received)
    if step is None and (measuring := causes.of_measuring()) is not None:
        notes.append(
            f"up to {duration(measuring[1])} of a rank's time is taupy's own and left out of "
            f"causes: {measuring[0]}"
        )
    return view(job, sums, step, notes)


def of_steps(job: Ranks, numbers: Sequence[int], causes: Causes) -> View:
    """One row per step: the rank that the others waited for."""
    longest = slowest(job)
    steps = [
        StepOfRanks(
            number,
            longest.get(number),
            worst,
            _phase(job, sums, number, causes),
            _in_step(causes, worst, number),
        )
        for number in numbers
        for sums in [analysis.times(job, number)]
        for worst in [analysis.straggler(sums)]
    ]
    return steps_view(steps, len(job.ranks))


def _in_step(causes: Causes, worst: RankTimes | None, number: int) -> Cause | None:
    if worst is None or not causes.since_collectives:
        return None
    return next(iter(causes.of_rank(worst.rank, number)), None)


def _phase(
    job: Ranks, sums: list[RankTimes], step: int, causes: Causes
) -> tuple[str, float] | None:
    """The phase in which the rank that the others waited for took longer: that of the routines
    which did, if they are known."""
    worst = analysis.straggler(sums)
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
    return longer_phase(steps, waits, worst.rank, step)


def _why(
    job: Ranks, sums: list[RankTimes], causes: Causes, step: int | None, after: int
) -> list[str]:
    """The rank that was waited for most, in a step or after one, and what took it longer."""
    worst = analysis.straggler(sums)
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
    shared = interruptions(causes.db, causes.trial, job, worst.rank)
    return [*notes, shared] if shared else notes


def _explained(cause: Cause, rank: int) -> str:
    caller = f", called by {cause.caller.timer}" if cause.caller is not None else ""
    spread = "; the rest is spread over other routines" if cause.share < _SPREAD else ""
    return (
        f"{cause.timer.timer} took rank {rank} {duration(cause.excess_ns)} longer than the others "
        f"({cause.phase or 'no phase'}, {cause.layer or 'no layer'}{caller}): "
        f"{100 * cause.share:.0f} % of what took it longer{spread}"
    )
