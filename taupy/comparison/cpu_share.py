"""CPU time of the measured threads, and which side its share says ran on a busier machine.

Both times are of the same span: from the first to the last event of a host thread. A machine that
others use lowers the share. A program that waits more lowers it, too: if the runs alternate, the
machine was the same for both sides, and only a side that was also interrupted more often is busier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taupy.analysis.compare import median
from taupy.comparison.sides import Side, in_turns
from taupy.model.question import Condition, Question
from taupy.model.sampled import CPU_TIME
from taupy.profiledb import trial_facts
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values

_HOST = Condition("kind", ("host",))
_CPU_TIME = Condition("event", (CPU_TIME,))
_INTERRUPTED = "Context Switches Involuntary"


class CpuShares(NamedTuple):
    """What the runs of one side used of the CPU.

    Attributes:
        cpu_ns: CPU time of the host threads, as their clocks say at their ends: it costs nothing
            per call, unlike the metric `cpu_time`.
        shares: of it in elapsed time, 0 to 1.
        interrupted: times per second; empty if unknown for any run.
    """

    cpu_ns: tuple[float, ...]
    shares: tuple[float, ...]
    interrupted: tuple[float, ...]

    @property
    def middle(self) -> float:
        return median(self.shares)


def cpu_shares(db: ProfileDB, sides: Sequence[Side]) -> list[CpuShares | None]:
    """Each side's shares; None if a run's CPU time was not measured."""
    ids = tuple(trial.id for side in sides for trial in side.trials)
    events = values(
        db,
        Question(
            ids, (), ("trial", "thread", "event"), (_HOST, _CPU_TIME), values=("event.total",)
        ),
    )
    threads = zip(events.row_labels("trial"), events.row_labels("thread"), strict=True)
    cpu_ns = {
        thread: used
        for thread, used in zip(threads, events.column("event.total"), strict=True)
        if used is not None
    }
    times = values(db, Question(ids, by=("trial", "thread"), where=(_HOST,), values=("exclusive",)))
    threads = zip(times.row_labels("trial"), times.row_labels("thread"), strict=True)
    used_ns: dict[int, float] = {}
    elapsed_ns: dict[int, float] = {}
    for thread, elapsed in zip(threads, times.column("exclusive", "time"), strict=True):
        if elapsed and thread in cpu_ns:
            used_ns[thread[0]] = used_ns.get(thread[0], 0.0) + cpu_ns[thread]
            elapsed_ns[thread[0]] = elapsed_ns.get(thread[0], 0.0) + elapsed
    switches = trial_facts.metadata_values(db, _INTERRUPTED)
    answers: list[CpuShares | None] = []
    for side in sides:
        if not all(trial.id in elapsed_ns for trial in side.trials):
            answers.append(None)
            continue
        cpu = tuple(used_ns[trial.id] for trial in side.trials)
        shares = tuple(used_ns[trial.id] / elapsed_ns[trial.id] for trial in side.trials)
        counted = [
            int(switches[trial.id]) * 1e9 / trial.duration_ns
            for trial in side.trials
            if switches.get(trial.id, "").isdigit() and trial.duration_ns > 0
        ]
        interrupted = tuple(counted) if len(counted) == len(shares) else ()
        answers.append(CpuShares(cpu, shares, interrupted))
    return answers


def slowed(
    first: Side, other: Side, shares: tuple[CpuShares | None, CpuShares | None]
) -> tuple[float, float]:
    """By which factor a busier machine may have slowed the first side and the other side; 1 if
    its share of CPU time is not below the other's by more than their spread."""
    mine, others = shares
    if mine is None or others is None or min(mine.middle, others.middle) <= 0:
        return 1.0, 1.0
    alternating = len(first.trials) > 1 and len(other.trials) > 1 and in_turns(first, other)
    if _fell(mine, others, alternating):
        return 1.0, mine.middle / others.middle
    if _fell(others, mine, alternating):
        return others.middle / mine.middle, 1.0
    return 1.0, 1.0


def _fell(high: CpuShares, low: CpuShares, alternating: bool) -> bool:
    """Whether the lower share lies apart by more than the spread of either side."""
    spread = max(max(side.shares) - min(side.shares) for side in (high, low))
    if max(low.shares) >= min(high.shares) or high.middle - low.middle <= spread:
        return False
    if not alternating:
        return True
    return bool(high.interrupted and low.interrupted) and (
        median(low.interrupted) > max(high.interrupted)
    )


def share_note(sides: Sequence[Side], shares: Sequence[CpuShares | None]) -> list[str]:
    """One note for each side whose share differs clearly from the first side's."""
    notes = []
    base = shares[0]
    for side, share in zip(sides[1:], shares[1:], strict=True):
        if base is None or share is None or not base.middle:
            continue
        if not 0.85 <= share.middle / base.middle <= 1.18:
            notes.append(
                f"CPU time / elapsed time is {base.middle:.2f} in {sides[0].letter} and "
                f"{share.middle:.2f} in {side.letter}: a busier machine, or a program that waits "
                "more or less; CPU time tells: --fail-on 'total cpu_time > +5%'"
            )
    return notes
