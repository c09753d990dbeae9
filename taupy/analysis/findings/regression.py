"""The program takes longer than in the experiment's earlier trials."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from taupy.analysis.findings.calls import place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.units import duration, percent, several

KIND = "regression"
NEEDS = ("host",)

LEAST_EARLIER = 5
"""Trials: with fewer their spread is not known (docs/compare.md asks for five per side)."""

MOST_EARLIER = 20
"""The last ones: older ones are of another program."""

LEAST = 0.05
"""Of the median: `taupy compare`'s smallest effect."""


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
    totals = _totals(trial, earlier)
    if trial.id not in totals or len(totals) <= LEAST_EARLIER:
        return
    now = totals.pop(trial.id)
    usual, least, most = median(totals.values()), min(totals.values()), max(totals.values())
    # Beyond all of them by as much as they differ among themselves: noise does not do that.
    if now <= most + (most - least) or now - usual < LEAST * usual:
        return
    timer, more = _grown(trial, earlier)
    yield Finding(
        KIND,
        f"the main thread takes {duration(now)}, {percent(100 * (now / usual - 1))} % more than "
        f"the median of {several(len(totals), 'earlier trial')}, {duration(usual)} (at most "
        f"{duration(most)}); {place(timer)} grew most, by {duration(more)}",
        now - usual,
        trial.wall_ns,
        (trial.evidence(("trial",), (_MAIN, HOST), ("exclusive",), trials=(*earlier, trial.id)),),
        "high",
        f"taupy compare {earlier[-1]} {trial.id}",
        "the machine was busier, or the input larger: taupy compare names what differs",
    )


_MAIN = Condition("thread", ("0.0.0",))


def _totals(trial: Trial, earlier: tuple[int, ...]) -> dict[int, float]:
    """The main thread's time in each trial."""
    table = trial.ask(Question((*earlier, trial.id), by=("trial",), where=(_MAIN, HOST)))
    times = table.column("exclusive", "time")
    return {id: ns for id, ns in zip(table.row_labels("trial"), times, strict=True) if ns}


def _grown(trial: Trial, earlier: tuple[int, ...]) -> tuple[TimerRow | None, float]:
    """The routine whose own time on the main thread grew most over its median."""
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
