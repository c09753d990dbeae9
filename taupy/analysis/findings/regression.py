"""Rule: the program takes longer than in the experiment's earlier trials."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from taupy.analysis.findings.calls import place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import CPU_TIME, STATES
from taupy.units import duration, percent, several

KIND = "regression"
NEEDS = ("host",)

LEAST_EARLIER = 5
"""Minimum number of trials to estimate their spread (docs/compare.md asks for five per side)."""

MOST_EARLIER = 20
"""Maximum number of trials, the latest: older ones were of a different program."""

LEAST = 0.05
"""Minimum increase as a share of the median: `taupy compare`'s smallest effect."""


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    earlier = tuple(trial.earlier[-MOST_EARLIER:])
    if not earlier:
        return
    if len(earlier) < LEAST_EARLIER:
        yield Abstention(
            KIND,
            f"{several(len(earlier), 'earlier trial')} of the same program; {LEAST_EARLIER} are "
            "needed to know their spread: taupy run --repeat 5",
        )
        return
    clock, cpu = _totals(trial, earlier), _cpu_times(trial, earlier)
    waited = _for_a_processor(trial)
    if trial.id in clock:
        clock[trial.id] -= waited
    longer = _beyond(trial.id, clock) or _beyond(trial.id, cpu)
    if longer is None:
        return
    timer, more = _grown(trial, earlier)
    does = "takes" if longer.earlier is clock else "computes for"
    without = ""
    if longer.earlier is clock and waited >= LEAST * longer.now:
        without = f" (without {duration(waited)} in which it waited for a processor)"
    yield Finding(
        KIND,
        f"the main thread {does} {duration(longer.now)}{without}, "
        f"{percent(100 * (longer.now / longer.usual - 1))} % more than the median of "
        f"{several(len(longer.earlier), 'earlier trial')}, {duration(longer.usual)} (at most "
        f"{duration(longer.most)}); {place(timer)} grew most, by {duration(more)} "
        f"(taupy compare {earlier[-1]} {trial.selector})",
        saved_ns=longer.now - longer.usual,
        wall_ns=trial.wall_ns,
        evidence=(
            trial.evidence(("trial",), (_MAIN, HOST), ("exclusive",), trials=(*earlier, trial.id)),
        ),
        confidence="high",
        attempt="",
        refuted_by="the machine was busier, or the input larger: taupy compare names what differs",
    )


class _Longer(NamedTuple):
    """A trial's time, with median and maximum of the earlier ones."""

    now: float
    usual: float
    most: float
    earlier: dict[int, float]


def _beyond(id: int, times: dict[int, float]) -> _Longer | None:
    """The increase, if the trial exceeds the longest earlier one by more than the range of earlier
    trials, which noise does not; else None. Removes the trial's time from `times`."""
    now = times.pop(id, None)
    if now is None or len(times) < LEAST_EARLIER:
        return None
    usual, least, most = median(times.values()), min(times.values()), max(times.values())
    if now <= most + (most - least) or now - usual < LEAST * usual:
        return None
    return _Longer(now, usual, most, times)


_MAIN = Condition("thread", ("0.0.0",))


def _for_a_processor(trial: Trial) -> float:
    """How long the main thread waited for a processor, as the watch samples it: so much of its
    time is the machine's, however long earlier trials have waited."""
    main = next((thread for thread in trial.states if thread[:3] == (0, 0, 0)), None)
    return trial.seen_ns(main).get(STATES[1], 0.0) if main is not None else 0.0


def _totals(trial: Trial, earlier: tuple[int, ...]) -> dict[int, float]:
    """The main thread's time in each trial."""
    table = trial.ask(Question((*earlier, trial.id), by=("trial",), where=(_MAIN, HOST)))
    times = table.column("exclusive", "time")
    return {id: ns for id, ns in zip(table.row_labels("trial"), times, strict=True) if ns}


def _cpu_times(trial: Trial, earlier: tuple[int, ...]) -> dict[int, float]:
    """The main thread's CPU time in each trial that has it: a busy machine changes it little."""
    where = (_MAIN, HOST, Condition("event", (CPU_TIME,)))
    table = trial.ask(
        Question((*earlier, trial.id), (), ("trial", "event"), where, values=("event.total",))
    )
    times = table.column("event.total")
    return {id: ns for id, ns in zip(table.row_labels("trial"), times, strict=True) if ns}


def _grown(trial: Trial, earlier: tuple[int, ...]) -> tuple[TimerRow | None, float]:
    """The routine whose exclusive time on the main thread grew most above its median."""
    table = trial.ask(
        Question((*earlier, trial.id), by=("trial", "timer"), where=(_MAIN, HOST))
    )  # fmt: skip
    times: dict[TimerRow, dict[int, float]] = {}
    for id, timer, ns in zip(
        table.row_labels("trial"),
        table.row_labels("timer"),
        table.column("exclusive", "time"),
        strict=True,
    ):
        times.setdefault(timer, {})[id] = ns or 0
    growth = {
        timer: of_trial[trial.id] - median(of_trial.get(id, 0) for id in earlier)
        for timer, of_trial in times.items()
        if trial.id in of_trial
    }
    most = max(growth, key=growth.__getitem__, default=None)
    return most, growth[most] if most is not None else 0.0
