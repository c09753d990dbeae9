"""Rule: coroutines wait for a lock that another holds while it is itself suspended.

How long coroutines were suspended at each line, and how long the loop had nothing to do, is exact;
which lines are within the lock is read from the source. Locks that threads hold: `one_busy.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from taupy.analysis.event_loops import gives_lock_back, is_lock, is_of_pool
from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.event_loop import LEAST, has_order
from taupy.analysis.findings.trial import Trial, Wait
from taupy.analysis.known_routines import is_select
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "event loop"
NEEDS = ("host",)

LEAST_QUEUE = 1.0
"""Minimum number of coroutines that wait for the lock, on average over the loop's waiting."""

LEAST_HELD = 0.5
"""Minimum share of the loop's waiting in which the lock is held by one that is suspended."""


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    loop = max(calls.by_thread(calls.outermost(is_select)).values(), default=Sum()).ns
    if loop < LEAST * trial.worked_ns:
        return
    for timer, waits in trial.waits.items():
        function = source.function(trial, timer)
        below = [calls.timer[row] for top in calls.rows_of(timer) for row in calls.below(top)]
        if function is None or not any(map(is_lock, below)):
            continue
        for taken in ast.walk(function):
            if not isinstance(taken, ast.AsyncWith):
                continue
            queued = waits.get(taken.lineno, Wait(0, 0.0))
            if queued.ns < LEAST_QUEUE * loop:
                continue
            within = _within(trial, timer, taken)
            if any(map(gives_lock_back, within)):
                continue
            if has_order(within) and not any(map(is_of_pool, within)):
                continue  # one at a time on one connection
            held, longest = _held(trial, timer, taken, within)
            if held < LEAST_HELD * loop:
                continue
            ns = loop * queued.ns / (queued.ns + held)
            yield trial.finding(
                f"{KIND}: lock held", timer,
                f"{hot_lines.at_line(timer, taken.lineno)} holds a lock while it awaits"
                f"{longest}: others wait for it {count(queued.times)} times, "
                f"{queued.ns / loop:.1f} at a time, while the event loop has nothing to do for "
                f"{duration(loop)}, {percent(100 * loop / trial.wall_ns)} % of the run",
                ns,
                "await outside of the lock: look and store under it, load without it; or take a "
                "lock for each key, or a Semaphore",
                "what is awaited may not run twice at a time",
            )  # fmt: skip


def _held(
    trial: Trial, timer: TimerRow, taken: ast.AsyncWith, within: Sequence[TimerRow]
) -> tuple[float, str]:
    """How long coroutines were suspended within a block, and the place of the longest."""
    lines = range(taken.body[0].lineno, (taken.end_lineno or taken.lineno) + 1)
    places = [
        (wait.ns, hot_lines.at_line(timer, line))
        for line, wait in trial.waits.get(timer, {}).items() if line in lines
    ]  # fmt: skip
    for called in {*within} - {timer}:
        waits = trial.waits.get(called, {})
        places += [(wait.ns, hot_lines.at_line(called, line)) for line, wait in waits.items()]
    longest = max(places, default=(0.0, ""))[1]
    return sum(ns for ns, _ in places), f" in {longest}" if longest else ""


def _within(trial: Trial, timer: TimerRow, taken: ast.AsyncWith) -> list[TimerRow]:
    """The routines that a block calls, and those below them."""
    calls = trial.calls
    names = {
        source.called(part) for statement in taken.body for part in ast.walk(statement)
        if isinstance(part, ast.Call)
    }  # fmt: skip
    tops = [
        child for row in calls.rows_of(timer) for child in calls.children(row)
        if calls.timer[child].short_name.split(".")[-1] in names
    ]  # fmt: skip
    return [calls.timer[row] for top in tops for row in calls.below(top)]
