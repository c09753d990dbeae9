"""Rule: a coroutine awaits several things one after another that need nothing of each other.

How long coroutines were suspended at each line, and how long the loop had nothing to do, is exact;
that the awaits need nothing of each other is read from the source. Awaits in a loop:
`event_loop.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from taupy.analysis.event_loops import library
from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.event_loop import LEAST, LEAST_AWAITS, has_order
from taupy.analysis.findings.trial import Trial, Wait
from taupy.analysis.known_routines import is_select
from taupy.dataclass import NamedTuple
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "event loop"
NEEDS = ("host",)

LEAST_PART = 0.2
"""Minimum time of an await, as a share of the longest one beside it."""

_IN_ORDER = frozenset({"sleep", "wait_for", "acquire", "wait", "get", "join", "drain", "connect"})


class _Await(NamedTuple):
    """`x = await callee(...)`."""

    line: int
    callee: str
    targets: set[str]
    given: set[str]


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    loop = max(calls.by_thread(calls.outermost(is_select)).values(), default=Sum()).ns
    if loop < LEAST * trial.worked_ns:
        return
    for timer in calls.timers:
        function = source.function(trial, timer) if trial.is_own(timer) else None
        entries = calls.entries(timer)
        if not isinstance(function, ast.AsyncFunctionDef) or entries < LEAST_AWAITS:
            continue
        for block in _blocks(function):
            awaited = [(_waited(trial, timer, part), part) for part in block]
            longest = max(ns for ns, _ in awaited)
            kept = [(ns, part) for ns, part in awaited if longest and ns >= LEAST_PART * longest]
            whole = sum(ns for ns, _ in kept)
            ns = (whole - longest) / max(1.0, whole / loop)
            if len(kept) < 2 or ns < LEAST * trial.worked_ns:
                continue
            first, last = kept[0][1], kept[-1][1]
            names = ", ".join(part.callee for _, part in kept)
            yield trial.finding(
                f"{KIND}: one after another", timer,
                f"{hot_lines.at_line(timer, first.line)} and up to line {last.line} awaits {names} "
                f"one after another, {count(int(entries))} times, though none needs what another "
                f"returns, while the event loop has nothing to do for {duration(loop)}, "
                f"{percent(100 * loop / trial.wall_ns)} % of the run",
                ns, f"await them together: {library(trial.source(timer)).both}",
                "they share a connection, or one does something that the next one needs",
            )  # fmt: skip


def _blocks(function: ast.AsyncFunctionDef) -> Iterator[list[_Await]]:
    """Awaits in adjacent statements of which none needs the result of another."""
    for part in ast.walk(function):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(part, field, None)
            if not isinstance(statements, list):
                continue
            block: list[_Await] = []
            for statement in statements:
                awaited = _await(statement)
                bound = {name for before in block for name in before.targets}
                if awaited is not None and not awaited.given & bound:
                    block.append(awaited)
                    continue
                if len(block) > 1:
                    yield block
                block = [awaited] if awaited is not None else []
            if len(block) > 1:
                yield block


def _await(statement: ast.AST) -> _Await | None:
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return None
    value = statement.value
    if not isinstance(value, ast.Await) or not isinstance(value.value, ast.Call):
        return None
    call = value.value
    if not source.called(call) or source.called(call) in _IN_ORDER:
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    bound = {name for target in targets for name in source.names(target)}
    return _Await(value.lineno, source.called(call), bound, source.names(call))


def _waited(trial: Trial, timer: TimerRow, part: _Await) -> float:
    """How long coroutines were suspended in an await, with what it calls; 0 if that has an order,
    or changes something that outlives it."""
    calls = trial.calls
    tops = [
        child for row in calls.rows_of(timer) for child in calls.children(row)
        if calls.timer[child].short_name.split(".")[-1] == part.callee
    ]  # fmt: skip
    below = {calls.timer[row] for top in tops for row in calls.below(top)} - {timer}
    if has_order([*below]) or _changes(trial, [*below]):
        return 0.0
    inside = sum(wait.ns for inner in below for wait in trial.waits.get(inner, {}).values())
    return inside + trial.waits.get(timer, {}).get(part.line, Wait(0, 0.0)).ns


def _changes(trial: Trial, timers: Sequence[TimerRow]) -> bool:
    """Whether one of these routines of the program changes an attribute, or what it was given."""
    for timer in timers:
        function = source.function(trial, timer) if trial.is_own(timer) else None
        if function is None:
            continue
        created = {
            part.id for part in ast.walk(function)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }  # fmt: skip
        if {name.split(".")[0] for name in hot_lines.changed(function)} - created:
            return True
    return False
