"""Rule: steps of a training take much longer than the others, or longer and longer."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from taupy.analysis.findings.calls import largest_part
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Abstention, Evidence, Finding
from taupy.model.profile import Steps
from taupy.model.question import Condition
from taupy.model.rows import ThreadRow
from taupy.model.step_times import per_step, step_times
from taupy.units import count, duration, percent, several

KIND = "step time"
NEEDS = ("host",)

LEAST_STEPS = 15
"""Minimum number of steps after the warm-up: five in each third."""

LEAST_DRIFT = 1.2
"""Minimum ratio of the last third's median to the first third's: clocks and caches cause smaller
changes."""

MOST_RUNNABLE = 0.05
"""Maximum share of the thread's time that it waited for a processor: beyond, steps may differ
because of other programs on the machine."""

_PARTS = 3


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    training = [pair for pair in trial.steps if pair[1].kind == "training"]
    if not training:
        return
    thread, steps = max(training, key=lambda pair: sum(pair[1].time_ns))
    runnable = trial.runnable(thread)
    if runnable is None or runnable > MOST_RUNNABLE:
        why = (
            "waits for a processor are unknown: the trial was run without the watch"
            if runnable is None
            else f"the thread waited for a processor {percent(100 * runnable)} % of its time"
        )
        yield Abstention(KIND, why)
        return
    marks = step_times(steps).marks
    settled = [at for at, mark in enumerate(marks) if mark != "warm-up"]
    if len(settled) < LEAST_STEPS:
        return
    yield from _outliers(trial, thread, steps, [at for at in settled if marks[at] == "outlier"])
    yield from _drift(trial, thread, steps, [at for at in settled if marks[at] != "outlier"])


def _outliers(
    trial: Trial, thread: ThreadRow, steps: Steps, rows: Sequence[int]
) -> Iterator[Finding]:
    if not rows:
        return
    usual = step_times(steps).median_ns
    times = per_step(steps)
    number = sum(steps.count[row] for row in rows)
    saved = sum((times[row] - usual) * steps.count[row] for row in rows)
    yield Finding(
        KIND,
        f"{count(number)} of {several(sum(steps.count), 'step')} take {duration(saved)} more than "
        f"the median of {duration(usual)}{_phase(steps, rows, 'this')}; the longest is "
        f"step {steps.number[max(rows, key=times.__getitem__)]} (taupy steps {trial.selector})",
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(_evidence(trial, thread),),
        confidence="medium",
        attempt="",
        refuted_by="these steps have more to do: longer sequences, a validation",
    )


def _drift(trial: Trial, thread: ThreadRow, steps: Steps, rows: Sequence[int]) -> Iterator[Finding]:
    times = per_step(steps)
    size = len(rows) // _PARTS
    thirds = [rows[part * size : (part + 1) * size] for part in range(_PARTS)]
    first, middle, last = (statistics.median(times[row] for row in third) for third in thirds)
    if not (first < middle < last and last >= LEAST_DRIFT * first):
        return
    saved = sum(max(0.0, times[row] - first) * steps.count[row] for row in rows)
    yield Finding(
        KIND,
        f"steps take longer and longer: {duration(first)} in the first third of the training, "
        f"{duration(last)} in the last"
        f"{_phase(steps, thirds[-1], 'the difference', thirds[0])} (taupy steps {trial.selector})",
        saved_ns=saved,
        wall_ns=trial.wall_ns,
        evidence=(_evidence(trial, thread),),
        confidence="medium",
        attempt="",
        refuted_by="later steps have more to do: longer sequences, larger batches",
    )


def _phase(steps: Steps, rows: Sequence[int], of: str, others: Sequence[int] | None = None) -> str:
    """The phase that takes most of the time by which these rows are longer than the others (by
    default all), as a clause."""
    compared = range(len(steps)) if others is None else others
    more = {
        kind: statistics.fmean(times[row] / steps.count[row] for row in rows)
        - statistics.median(times[row] / steps.count[row] for row in compared)
        for kind, times in steps.phases.items()
    }
    time = per_step(steps)
    whole = statistics.fmean(time[row] for row in rows) - statistics.median(
        time[row] for row in compared
    )
    more["(no phase)"] = whole - sum(more.values())
    most = max(more, key=more.__getitem__)
    return largest_part(most, more[most], whole, of)


def _evidence(trial: Trial, thread: ThreadRow) -> Evidence:
    place = ".".join(map(str, thread[:3]))
    return trial.evidence(("timer",), (Condition("thread", (place,)), HOST))
