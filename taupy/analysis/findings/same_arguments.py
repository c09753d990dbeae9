"""Calls of a routine with arguments that it has had before, so that it computes the same again.

Part of the rule `same_work.py`. That arguments come again is measured where the calls that were
looked at had few different ones, and where memory has no room for as many as there were calls;
otherwise it follows from a recursion whose calls branch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.computing import computing, only_computes
from taupy.analysis.findings.hot_lines import hottest, name
from taupy.analysis.findings.made_again import again
from taupy.analysis.findings.source import Function, called
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import OneOf
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

LEAST = 0.2
"""Minimum share of the time outside imports."""

LEAST_CALLS = 100
"""Minimum calls of a routine whose arguments come again."""

CACHE = "keep its results: @functools.lru_cache(maxsize=None)"

LEAST_AGAIN = 10_000
"""Minimum calls of a routine that calls itself with arguments that come again."""


def same_arguments(trial: Trial) -> Iterator[Finding]:
    yield from _subproblems(trial)
    yield from _arguments_again(trial)


def _subproblems(trial: Trial) -> Iterator[Finding]:
    """A routine that calls itself twice or more with smaller numbers or shorter sequences, in
    different ways, so that the same are reached in many ways: `ways(n - 1) + ways(n - 2)`. That
    its calls branch is measured."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.worked_ns):
        function = source.function(trial, timer) if trial.is_own(timer) else None
        if (
            function is None
            or calls.entries(timer) < LEAST_AGAIN
            or not only_computes(function, {function.name})
            or differ(trial, timer)
        ):
            continue
        inside = [part for part in ast.walk(function)
                  if isinstance(part, ast.Call) and name(part.func) == function.name]  # fmt: skip
        if (shared := _of_stored(trial, timer, function)) is not None:
            yield shared
            continue
        if len({ast.dump(part) for part in inside}) < 2 or not all(map(_counts_down, inside)):
            continue
        longest = calls.longest(OneOf((timer,)))
        if longest.ns < LEAST * trial.worked_ns or not _branches(trial, timer):
            continue
        line = inside[0].lineno
        yield again(
            trial, "the same arguments", timer,
            f"{hot_lines.at_line(timer, line)} calls itself {len(inside)} times with smaller "
            "arguments, and so with the same arguments again and again (overlapping subproblems, "
            f"no cache): {count(int(calls.entries(timer)))} calls{_seen(trial, timer)}, "
            f"{duration(longest.ns)}, {percent(100 * longest.ns / trial.wall_ns)} % of the run",
            longest.ns, CACHE, "the arguments differ each time", "medium",
        )  # fmt: skip


def differ(trial: Trial, timer: TimerRow) -> bool:
    """Whether its calls were seen to have different arguments."""
    seen = trial.arguments.get(timer)
    return seen is not None and seen.differ(trial.calls.entries(timer))


def _seen(trial: Trial, timer: TimerRow) -> str:
    seen = trial.arguments.get(timer)
    return f" ({seen.clause})" if seen is not None and seen.come_again else ""


def _arguments_again(trial: Trial) -> Iterator[Finding]:
    """A routine of the program that only computes, and whose calls were seen to have few different
    arguments."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.worked_ns):
        seen = trial.arguments.get(timer)
        function = source.function(trial, timer) if trial.is_own(timer) else None
        tree = hot_lines.tree(trial, timer)
        if (
            seen is None or not seen.come_again or function is None or tree is None
            or calls.entries(timer) < LEAST_CALLS or function.name in source.calls(function)
            or function.name not in computing(tree.module)
        ):  # fmt: skip
            continue
        longest = max(calls.of_timer(timer).values(), key=lambda sums: sums.ns)
        if longest.ns < LEAST * trial.worked_ns:
            continue
        yield again(
            trial, "the same arguments", timer,
            f"{hottest(trial, timer)} computes the same again (no cache): {seen.clause}, "
            f"{count(int(calls.entries(timer)))} calls in all, {duration(longest.ns)}, "
            f"{percent(100 * longest.ns / trial.wall_ns)} % of the run",
            longest.ns * (1 - seen.different / seen.compared), CACHE,
            "what else it reads changes between the calls", "medium",
        )  # fmt: skip


LEAST_STORED_BYTES = 64
"""Of an object in a container; so memory has room for at most one in so many bytes."""

LEAST_TIMES_EACH = 3
"""Minimum calls for each object that there is room for."""


def _of_stored(trial: Trial, timer: TimerRow, function: Function) -> Finding | None:
    """A routine that calls itself for each of what is stored, `for part, n in item.parts:
    cost(part)`, more often, even for one call from outside, than memory has room for objects: the
    same come again and again."""
    calls = trial.calls
    room = max((moment.mean for moment in trial.memory), default=0.0) / LEAST_STORED_BYTES
    entries = calls.entries(timer)
    outside = sum(calls.calls[row] for row in calls.outermost(OneOf((timer,))))
    if not room or entries < room * max(LEAST_TIMES_EACH, outside):
        return None
    sites = [
        part for part in ast.walk(function)
        if isinstance(part, ast.Call) and called(part) == function.name
        and _is_for_stored(function, part)
    ]  # fmt: skip
    longest = calls.longest(OneOf((timer,)))
    if not sites or longest.ns < LEAST * trial.worked_ns:
        return None
    site = sites[0]
    return again(
        trial, "the same arguments", timer,
        f"{hot_lines.at_line(timer, site.lineno)} calls itself for what is stored, "
        f"{count(int(entries))} times, though memory has room for {count(int(room))} objects at "
        "most: the same come again and again, and their results are recomputed (overlapping "
        f"subproblems, no cache): {duration(longest.ns)}, "
        f"{percent(100 * longest.ns / trial.wall_ns)} % of the run",
        longest.ns, "keep its results: a dict by argument, or @functools.lru_cache(maxsize=None)",
        "what is stored changes between the calls",
    )  # fmt: skip


def _is_for_stored(function: Function, call: ast.Call) -> bool:
    """Whether all that a call is given are elements of what a loop goes through, and that is an
    attribute or an element of something."""
    given = [single.id for single in call.args if isinstance(single, ast.Name)]
    if not given or len(given) < len(call.args) or call.keywords:
        return False
    loops = [part for part in ast.walk(function) if isinstance(part, ast.For | ast.comprehension)]
    return all(
        any(single in source.names(loop.target) and _is_stored(loop.iter) for loop in loops)
        for single in given
    )


def _is_stored(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "items", "values")
    return isinstance(node, ast.Attribute | ast.Subscript)


BRANCHING = 10
"""Minimum calls for each call from outside and each level of the recursion."""


def _branches(trial: Trial, timer: TimerRow) -> bool:
    """Whether many more calls are made than a recursion of this depth makes one by one."""
    calls = trial.calls
    tops = calls.outermost(OneOf((timer,)))
    outside = sum(calls.calls[row] for row in tops)
    deepest = 0
    stack = [(row, 1) for row in tops]
    while stack:
        row, depth = stack.pop()
        deepest = max(deepest, depth)
        stack += [
            (child, depth + (calls.timer[child] == timer)) for child in calls.children(row)
        ]  # fmt: skip
    return calls.entries(timer) >= BRANCHING * outside * deepest


def _counts_down(call: ast.Call) -> bool:
    """Whether it is given its own parameters, or these less or more than they were, or without
    some of their first or last elements."""
    return not call.keywords and all(
        isinstance(given, ast.Name | ast.Constant) or _is_smaller(given) for given in call.args
    ) and any(map(_is_smaller, call.args))  # fmt: skip


def _is_smaller(given: ast.expr) -> bool:
    if isinstance(given, ast.BinOp):
        return isinstance(given.op, ast.Add | ast.Sub) and isinstance(given.left, ast.Name)
    if not isinstance(given, ast.Subscript) or not isinstance(given.slice, ast.Slice):
        return False
    bounds = (given.slice.lower, given.slice.upper)
    return isinstance(given.value, ast.Name) and all(
        bound is None or not any(isinstance(part, ast.Name) for part in ast.walk(bound))
        for bound in bounds
    )
