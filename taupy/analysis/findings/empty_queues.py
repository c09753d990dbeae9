"""Rule: a thread looks again and again into a queue that is empty, and so keeps a core and the GIL.

That a loop does so is read from the source; how long it computed, or waited for the GIL, in the
lines that find nothing was seen by the watch. A loop that only sleeps or spins: `polling.py`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from taupy.analysis.findings import hot_lines, polling, source
from taupy.analysis.findings.hot_lines import name, share
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Finding
from taupy.model.rows import ThreadRow, TimerRow
from taupy.state.lines import READY

KIND = polling.KIND
NEEDS = ("host",)

LEAST = 0.1
"""Minimum share of the time outside imports in which a thread finds nothing."""

_TAKING = frozenset({"popleft", "pop", "get_nowait"})
_GIVING = frozenset({"append", "appendleft", "extend", "put", "put_nowait", "insert"})
_EMPTY = frozenset({"IndexError", "Empty"})
_SPINNING = (*READY, "gil")


class _Look(NamedTuple):
    """A place of a loop that looks into a queue.

    Attributes:
        lines: that run when it is empty.
        queue: as text.
        line: that looks.
    """

    lines: frozenset[int]
    queue: str
    line: int


def find(trial: Trial) -> Iterator[Finding]:
    for timer in dict.fromkeys(row.timer for row in trial.lines):
        function = source.function(trial, timer) if trial.is_own(timer) else None
        for look in _looks(function) if function else ():
            spent = _spent(trial, timer, look)
            ns = min(max(spent.values(), default=0), trial.wall_ns)
            if ns < LEAST * trial.worked_ns:
                continue
            others = f", in {len(spent)} threads" if len(spent) > 1 else ""
            yield trial.finding(
                KIND, timer,
                f"{hot_lines.at_line(timer, look.line)} looks into `{look.queue}` again and again "
                f"while it is empty (busy polling, which keeps a core and the GIL){others}: "
                f"{share(trial, ns)}",
                ns,
                "let it wait until there is something: a queue.Queue, whose get() waits, or a "
                "threading.Condition",
                "it is hardly ever empty",
            )  # fmt: skip


def _spent(trial: Trial, timer: TimerRow, look: _Look) -> dict[ThreadRow, int]:
    """How long each thread computed, or waited for the GIL, in these lines."""
    spent: dict[ThreadRow, int] = defaultdict(int)
    for row in trial.lines:
        if row.timer == timer and row.line.line in look.lines and row.line.state in _SPINNING:
            spent[row.thread] += row.line.time_ns
    return spent


def _looks(function: source.Function) -> Iterator[_Look]:
    given = _containers([function], _GIVING)
    for loop in ast.walk(function):
        if not isinstance(loop, ast.While):
            continue
        for part in loop.body:
            look = None
            if isinstance(part, ast.If):
                look = _asked_first(loop, part)
            elif isinstance(part, ast.Try):
                look = _tried(part)
            if look is not None and look.queue not in given:
                yield look


def _containers(parts: Sequence[ast.AST], methods: frozenset[str]) -> set[str]:
    """What such methods of are called."""
    return {
        name(call.func.value) for part in parts for call in ast.walk(part)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        and call.func.attr in methods
    } - {""}  # fmt: skip


def _asked_first(loop: ast.While, part: ast.If) -> _Look | None:
    """`if not queue: continue`, or `if queue: queue.popleft()` and nothing else."""
    queue, is_empty = _question(part.test)
    if not queue:
        return None
    nothing = part.body if is_empty else part.orelse
    something = [*part.orelse, *loop.body] if is_empty else part.body
    if not all(map(_does_nothing, nothing)) or queue not in _containers(something, _TAKING):
        return None
    if is_empty and not part.orelse and not isinstance(nothing[-1], ast.Continue):
        return None
    others = [other for other in loop.body if other is not part]
    if not is_empty and not all(map(_does_nothing, others)):
        return None
    beside = [] if is_empty else others
    return _Look(_lines(part.test, *nothing, *beside), queue, part.lineno)


def _question(test: ast.expr) -> tuple[str, bool]:
    """The queue that a condition is about, and whether it holds if that is empty."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        queue, is_empty = _question(test.operand)
        return queue, not is_empty
    if isinstance(test, ast.Compare) and len(test.comparators) == 1:
        limit = test.comparators[0]
        if isinstance(limit, ast.Constant) and limit.value == 0:
            return _question(test.left)[0], isinstance(test.ops[0], ast.Eq)
        return "", False
    if isinstance(test, ast.Call):
        if source.called(test) == "len" and len(test.args) == 1:
            return name(test.args[0]), False
        if isinstance(test.func, ast.Attribute) and test.func.attr in ("empty", "qsize"):
            return name(test.func.value), test.func.attr == "empty"
        return "", False
    return name(test), False


def _tried(part: ast.Try) -> _Look | None:
    """`try: queue.popleft()`, and nothing if it is empty."""
    for handler in part.handlers:
        types = source.names(handler.type) if handler.type is not None else set()
        if not types & _EMPTY or not all(map(_does_nothing, handler.body)):
            continue
        for statement in part.body:
            queues = _containers([statement], _TAKING)
            if len(queues) == 1:
                return _Look(_lines(statement, handler), queues.pop(), statement.lineno)
    return None


def _does_nothing(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Pass | ast.Continue)
        or polling.sleep(statement) is not None
        or polling.is_end(statement)
    )


def _lines(*parts: ast.expr | ast.stmt | ast.ExceptHandler) -> frozenset[int]:
    return frozenset(
        line for part in parts for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    )
