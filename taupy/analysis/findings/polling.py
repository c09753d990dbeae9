"""Rule: a loop sleeps until something has become true, instead of waiting for it.

That the loop does nothing else is read from the source; how often and how long it slept is
measured. What it costs is at most the rest of the last sleep of each wait: a loop that is entered
once and sleeps for a second may be a service that waits for its end, and costs a second. Without a
pause (`asyncio.sleep(0)`), it costs all turns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.event_loops import is_sleep, is_turn, library
from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.hot_lines import at_line, share, short
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration

KIND = "polling"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time."""

LEAST_SLEEPS = 20

_CLOCKS = frozenset(
    {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "now",
     "utcnow", "today"}
)  # fmt: skip
_FILES = frozenset(
    {"exists", "isfile", "isdir", "is_file", "is_dir", "stat", "getsize", "getmtime", "listdir",
     "scandir", "glob", "iterdir", "access"}
)  # fmt: skip
"""What it waits for there is the time, or another program: nobody tells it."""


_ASKING = frozenset(
    {"is_set", "empty", "full", "qsize", "done", "ready", "is_alive", "locked", "running"}
)
"""Methods that tell what another thread has done, and do nothing."""


class _Poll(NamedTuple):
    """A loop that sleeps until something is true.

    Attributes:
        line: of the sleep.
        until: what it waits for, as text.
        seconds: of a sleep; None: not written as a number.
        is_async: whether it awaits the sleep.
        repeated: whether the loop is in another one.
        spins: whether it does not even sleep.
    """

    line: int
    until: str
    seconds: float | None
    is_async: bool
    repeated: bool
    spins: bool = False


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    hot = {(line.timer, line.line): line for line in hot_lines.hot_lines(trial, 0.0)}
    above = (calls.parent[row] for row in calls.rows(is_sleep))
    sleeping = (calls.timer[row] for row in above if row >= 0)
    for timer in dict.fromkeys((*(timer for timer, _ in hot), *sleeping)):
        if timer not in calls or not trial.is_own(timer):
            continue
        function = source.function(trial, timer)
        tree = hot_lines.tree(trial, timer)
        clocks = _reading_clocks(tree.module) if tree else _CLOCKS
        for poll in _polls(function, clocks) if function else ():
            rows = calls.rows_of(timer)
            line = hot.get((timer, poll.line))
            sleeps = Sum()
            if poll.is_async:
                below = [child for row in rows for child in calls.children(row)]
                slept = [row for row in below if is_sleep(calls.timer[row])]
                sleeps = max(calls.by_thread(slept).values(), default=Sum())
                if sleeps.calls < LEAST_SLEEPS:
                    continue
            elif line is None:
                continue
            entered = max(calls.by_thread(rows).values()).calls
            ns = line.ns if poll.spins and line else _lost(trial, poll, entered, sleeps, line)
            if ns < LEAST * trial.wall_ns:
                continue
            yield _finding(trial, timer, poll, entered, sleeps, ns, line)


def _lost(
    trial: Trial, poll: _Poll, entered: int, sleeps: Sum, line: hot_lines.Hot | None
) -> float:
    """The time that the program may have lost, at most [ns]."""
    if poll.is_async and poll.seconds == 0:
        # Each turn of the event loop runs it in vain.
        calls = trial.calls
        thread = calls.thread[sleeps.rows[0]]
        rows = [row for row in calls.rows(is_turn) if calls.thread[row] == thread]
        turns = sum(calls.exclusive[row] for row in rows)
        return turns + (line.ns if line else 0)
    waited = line.ns if line else (poll.seconds or 0) * 1e9 * sleeps.calls
    if poll.seconds is None or poll.repeated:
        return 0 if poll.is_async or line is None else line.sure_ns
    return min(waited, poll.seconds * 1e9 * entered, trial.wall_ns)


def _finding(
    trial: Trial, timer: TimerRow, poll: _Poll, entered: int, sleeps: Sum, ns: float,
    line: hot_lines.Hot | None,
) -> Finding:  # fmt: skip
    pause = "0" if poll.seconds == 0 else duration((poll.seconds or 0) * 1e9)
    if poll.spins:
        how = "does nothing else (a busy wait, which keeps a core and the GIL)"
    else:
        how = f"sleeps {pause}" if poll.seconds is not None else "sleeps"
    often = f", {count(sleeps.calls)} times" if sleeps.calls else ""
    waits = "" if line is None else f": {share(trial, line.ns)}"
    times = "once" if entered == 1 else f"{count(entered)} times"
    return trial.finding(
        KIND,
        timer,
        f"{at_line(timer, poll.line)} waits {times} for `{poll.until}` in a loop that {how}"
        f"{often}{waits}",
        ns,
        f"let it wait until it is told: {library(trial.source(timer)).signals}"
        if poll.is_async
        else "let it wait until it is told: a queue.Queue, threading.Event or Condition",
        "nobody can tell it, such as another machine or a device",
        "high",
    )


def _reading_clocks(module: ast.Module) -> frozenset[str]:
    """Functions whose result is true after a time: clocks, and those of the file that read one."""
    return _CLOCKS | {
        part.name for part in ast.walk(module)
        if isinstance(part, source.Function) and source.calls(part) & _CLOCKS
    }  # fmt: skip


def _told(test: ast.expr, clocks: frozenset[str]) -> ast.expr | None:
    """The part of a condition that another party could report, without timeouts; or None."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    for part in parts:
        inside = {
            source.called(single) for single in ast.walk(part) if isinstance(single, ast.Call)
        }
        if not inside & (clocks | _FILES) and any(
            isinstance(single, ast.Attribute | ast.Call | ast.Name) for single in ast.walk(part)
        ):
            return test if len(parts) == 1 else part
    return None


def _polls(function: source.Function, clocks: frozenset[str] = _CLOCKS) -> Iterator[_Poll]:
    loops = [part for part in ast.walk(function) if isinstance(part, hot_lines.Loop)]
    for loop in loops:
        if not isinstance(loop, ast.While) or loop.orelse:
            continue
        sleeps = [hit for statement in loop.body if (hit := sleep(statement))]
        others = [statement for statement in loop.body if not sleep(statement)]
        ends = [statement for statement in others if is_end(statement)]
        if all(map(_is_empty, loop.body)):
            if (until := _told(loop.test, clocks)) is not None and _others_set(loop.test):
                yield _Poll(loop.lineno, short(until), None, False, True, spins=True)
            continue
        if len(sleeps) != 1 or len(others) != len(ends):
            continue
        constant = isinstance(loop.test, ast.Constant)
        if constant == (not ends):
            continue
        tests = [end.test for end in ends if isinstance(end, ast.If)]
        hint = [
            part for test in (tests if constant else [loop.test]) if (part := _told(test, clocks))
        ]
        if not hint:
            continue
        until = hint[0]
        call, is_async = sleeps[0]
        value = call.args[0] if call.args else None
        number = value.value if isinstance(value, ast.Constant) else None
        yield _Poll(
            call.lineno,
            short(until.operand if isinstance(until, ast.UnaryOp)
                  and isinstance(until.op, ast.Not) else until),
            float(number) if isinstance(number, int | float) else None,
            is_async,
            any(loop is not other and loop in ast.walk(other) for other in loops),
        )  # fmt: skip


def _is_empty(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue)


def _others_set(test: ast.expr) -> bool:
    """Whether a condition changes nothing itself, so that it waits for another thread."""
    return not any(isinstance(part, ast.NamedExpr | ast.Await) for part in ast.walk(test)) and all(
        isinstance(part.func, ast.Attribute) and part.func.attr in _ASKING
        for part in ast.walk(test) if isinstance(part, ast.Call)
    )  # fmt: skip


def sleep(statement: ast.stmt) -> tuple[ast.Call, bool] | None:
    if not isinstance(statement, ast.Expr):
        return None
    value, is_async = statement.value, False
    if isinstance(value, ast.Await):
        value, is_async = value.value, True
    if isinstance(value, ast.Call) and source.called(value) == "sleep":
        return value, is_async
    return None


def is_end(statement: ast.stmt) -> bool:
    """`if ready: break`, or `return`."""
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and all(isinstance(inner, ast.Break | ast.Return) for inner in statement.body)
    )
