"""The lines that took much of the run, with the part of the syntax tree that was at work.

Times are estimates, by the watch's looks (`analysis/line_times.py`); each is of one thread, so that
it is part of the wall clock.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from taupy.analysis.findings import source
from taupy.analysis.findings.calls import place
from taupy.analysis.findings.source import Function
from taupy.analysis.findings.trial import Trial
from taupy.analysis.line_times import LineRow, estimates
from taupy.dataclass import NamedTuple
from taupy.model.rows import ThreadRow, TimerRow
from taupy.state.lines import READY
from taupy.units import duration, percent

Loop = ast.For | ast.AsyncFor | ast.While
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Hot(NamedTuple):
    """A line on the thread on which it took longest.

    Attributes:
        sure_ns: its time less twice its standard error.
        by_state: its time by what the thread did (`taupy.state.lines.STATES`).
        rows: what it is the sum of.
    """

    timer: TimerRow
    thread: ThreadRow
    line: int
    ns: int
    sure_ns: float
    by_state: Mapping[str, int]
    rows: tuple[LineRow, ...]

    @property
    def ready_ns(self) -> int:
        """In which it computed, or could."""
        return sum(self.by_state.get(state, 0) for state in READY)

    @property
    def place(self) -> str:
        return at_line(self.timer, self.line)


class Part(NamedTuple):
    """An expression that was at work in a line, and its time."""

    node: ast.expr | ast.stmt
    ns: int


def hottest(trial: Trial, timer: TimerRow | None) -> str:
    """A routine as it appears in a sentence, with its hottest line if that is known."""
    line = trial.hottest.get(timer) if timer is not None else None
    return place(timer) if timer is None or line is None else at_line(timer, line)


def at_line(timer: TimerRow, line: int) -> str:
    """A line as it appears in a sentence, such as `smooth (filter.py:8)`."""
    return f"{timer.short_name} ({timer.file}:{line})"


def share(trial: Trial, ns: float) -> str:
    """An estimate in a sentence."""
    return f"~{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run"


def bound(trial: Trial, hot: Hot, ns: float | None = None) -> float:
    """What would be saved at most if a line, or a part of it that takes `ns`, took no time: the
    estimate and two standard errors, with the program's routines that it calls; no more than their
    routine takes on this thread [ns]."""
    calls = trial.calls
    estimate = (hot.ns if ns is None else ns) + (hot.ns - hot.sure_ns)
    whole = calls.of_timer(hot.timer).get(hot.thread)
    if whole is None:
        return estimate
    parsed = tree(trial, hot.timer)
    called = set() if parsed is None else {
        source.called(part) for part in ast.walk(parsed.module)
        if isinstance(part, ast.Call) and part.lineno <= hot.line <= (part.end_lineno or 0)
    }  # fmt: skip
    stack = [child for row in whole.rows for child in calls.children(row)
             if _is_called(calls.timer[child], called)]  # fmt: skip
    below = 0.0
    while stack:
        row = stack.pop()
        if trial.is_own(calls.timer[row]):
            below += calls.inclusive[row]
        else:  # the time of libraries is in the line's
            stack += calls.children(row)
    return min(estimate + below, whole.ns, trial.wall_ns)


def _is_called(timer: TimerRow, names: set[str]) -> bool:
    """Whether a routine is one of these, or of a class of that name, or of an operator."""
    *_, last = parts = timer.short_name.split(".")
    return not names.isdisjoint(parts[-2:]) or last.startswith("__")


def hot_lines(trial: Trial, least: float) -> Iterator[Hot]:
    """Lines that surely took this share of the time outside imports, longest first; each once."""
    seen: set[tuple[TimerRow, int]] = set()
    by_place = estimates(trial.lines, lambda row: (row.thread, row.timer, row.line.line))
    for (thread, timer, line), hit in by_place.items():
        sure_ns = hit.time_ns - 2 * hit.error_ns
        if not hit.is_shown or sure_ns < least * trial.worked_ns or (timer, line) in seen:
            continue
        seen.add((timer, line))
        states = {state: ns for state, ns, _ in hit.parts(lambda row: row.line.state)}
        yield Hot(timer, thread, line, hit.time_ns, sure_ns, states, tuple(hit.rows))


class Tree:
    """A file's syntax tree.

    Attributes:
        module: empty if the text is not Python.
    """

    def __init__(self, text: str) -> None:
        self.module = source.tree(text)
        self._above: dict[ast.AST, ast.AST] = {}
        self._at: dict[tuple[int, int, int, int], ast.expr | ast.stmt] = {}
        for node in ast.walk(self.module):
            for child in ast.iter_child_nodes(node):
                self._above[child] = node
            if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Expr):
                self._at.setdefault(
                    (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0),
                    node,
                )

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node is part of, the innermost first."""
        inner: ast.AST | None = node
        while (inner := self._above.get(inner) if inner is not None else None) is not None:
            yield inner

    def function(self, node: ast.AST) -> Function | ast.Module:
        """The definition that a node is in."""
        return next(
            (above for above in self.above(node) if isinstance(above, Function)), self.module
        )

    def repeats(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop or comprehension of the same function that repeats a node."""
        below, is_condition = node, False
        for above in self.above(node):
            if isinstance(above, Function | ast.Lambda):
                return None
            if isinstance(above, Loop) and (
                below in above.body or (isinstance(above, ast.While) and below is above.test)
            ):
                return above
            if isinstance(above, ast.comprehension):
                is_condition = below in above.ifs
            elif isinstance(above, Comprehension) and (
                is_condition or below is not above.generators[0]
            ):
                return above
            below = above
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node is part of, or is."""
        return next(part for part in (node, *self.above(node)) if isinstance(part, ast.stmt))

    def at(self, row: LineRow) -> ast.expr | ast.stmt | None:
        line = row.line
        return self._at.get((line.line, line.end_line, line.column, line.end_column))


_tree = lru_cache(maxsize=64)(Tree)


def tree(trial: Trial, timer: TimerRow) -> Tree | None:
    """The syntax tree of a routine's file; None if its source is not known."""
    text = trial.source(timer)
    return None if text is None else _tree(text)


def line_of_call(trial: Trial, timer: TimerRow | None, names: set[str]) -> str:
    """Where a routine calls one of these, if that is one line: `load (a.py:12)`."""
    parsed = tree(trial, timer) if timer is not None else None
    if timer is None or parsed is None:
        return place(timer)
    lines = {
        part.lineno for part in ast.walk(parsed.module)
        if isinstance(part, ast.Call) and source.called(part) in names
        and getattr(parsed.function(part), "name", "<module>") == timer.short_name.split(".")[-1]
    }  # fmt: skip
    return at_line(timer, lines.pop()) if len(lines) == 1 else place(timer)


def parts(hot: Hot, tree: Tree) -> list[Part]:
    """What was at work in a line, the longest first: an expression, or a statement that stores."""
    sums: dict[ast.expr | ast.stmt, int] = defaultdict(int)
    for row in hot.rows:
        if (node := tree.at(row)) is not None:
            sums[node] += row.line.time_ns
    return sorted((Part(*item) for item in sums.items()), key=lambda part: -part.ns)


def name(node: ast.AST) -> str:
    """`x`, or `a.b.x`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (of := name(node.value)):
        return f"{of}.{node.attr}"
    return ""


def short(node: ast.AST) -> str:
    """Source text for a sentence."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


_CHANGING = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "popleft", "popitem", "remove",
     "discard", "clear", "sort", "reverse", "setdefault", "appendleft", "write", "fill", "put"}
)  # fmt: skip


def changed(node: ast.AST) -> set[str]:
    """Names of variables and attributes that something within may give another value."""
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store | ast.Del):
            names.add(name(part))
        elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            names.add(name(part.value))
        elif (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and (part.func.attr in _CHANGING or part.func.attr.endswith("_"))
        ):
            names.add(name(part.func.value))
    return names - {""}
