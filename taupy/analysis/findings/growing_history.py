"""Rule: every call processes all data kept from earlier calls, so time grows quadratically."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import source
from taupy.analysis.findings.hot_lines import hottest
from taupy.analysis.findings.source import Function
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "growing history"
NEEDS = ("host",)

LEAST = 0.1
"""Minimum share of elapsed time in the routine that processes all of it."""

LEAST_CALLS = 100
"""Minimum calls of that routine and of the one that adds: fewer calls keep little data."""

_JOINING = frozenset({"vstack", "hstack", "concatenate", "append", "concat", "cat", "stack", "r_"})
"""Functions of NumPy, PyTorch and pandas that copy all of their arguments."""

_ADDING = frozenset({"append", "insert", "extend"})
_REMOVING = frozenset({"pop", "popleft", "clear", "remove"})
_WHOLE = frozenset(
    {"sum", "min", "max", "sorted", "list", "tuple", "set", "enumerate", "reversed", "map", "zip",
     "array", "asarray", "mean", "median", "std", "var", "quantile", "percentile", "fmean", "sort",
     "stdev", "join", "DataFrame", "Series"}
) | (_JOINING - {"append"})  # fmt: skip
"""Functions that go through all elements of their argument."""

_RUNNING = frozenset({"sum", "min", "max", "mean", "fmean", "any", "all"})
"""Those whose result can be kept up to date with each element."""


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer in calls.timers:
        if not trial.is_own(timer) or calls.entries(timer) < LEAST_CALLS:
            continue
        longest = max(calls.by_thread(calls.rows_of(timer)).values(), key=lambda sums: sums.ns)
        if longest.ns < LEAST * trial.wall_ns or longest.calls < LEAST_CALLS:
            continue
        function = source.function(trial, timer)
        kept = _kept(trial, timer, function) if function else None
        if function is None or kept is None:
            continue
        yield Finding(
            KIND,
            f"{hottest(trial, timer)} processes all of {kept}, which grows with each of "
            f"{count(longest.calls)} calls: {duration(longest.ns)}, "
            f"{percent(100 * longest.ns / trial.wall_ns)} % of the run, and the share grows "
            "(quadratic)",
            saved_ns=longest.ns,
            wall_ns=trial.wall_ns,
            evidence=(
                trial.evidence(
                    ("thread", "timer"),
                    (Condition("timer", (timer.timer,)), HOST),
                    ("inclusive", "calls"),
                ),
            ),
            confidence="medium",
            attempt=_attempt(trial, timer, function, kept),
            refuted_by="what is kept stays small",
        )  # fmt: skip


def _attempt(trial: Trial, timer: TimerRow, function: Function, kept: str) -> str:
    """What was tried where data are used as here: joined, but not needed before the end, or
    reduced to a number that can be kept up to date."""
    if _joined_to_itself(function) == kept:
        readers = [function, *_beside(trial, timer)] if kept.startswith("self.") else [function]
        needed = sum(
            _uses(reader, kept) for reader in {id(reader): reader for reader in readers}.values()
        )
        return "" if needed > 1 else "collect the pieces in a list and join them once"
    reduced = [part for part in ast.walk(function)
               if isinstance(part, ast.Call) and source.called(part) in _RUNNING
               and _uses(part, kept)]  # fmt: skip
    elsewhere = _uses(function, kept) - sum(_uses(part, kept) for part in reduced)
    adding = sum(_name(part.func.value) == kept for part in ast.walk(function)
                 if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
                 and part.func.attr in _ADDING)  # fmt: skip
    return "keep a running result instead" if reduced and elsewhere <= adding else ""


def _uses(node: ast.AST, name: str) -> int:
    """How often it reads this variable or attribute, other than for its length."""
    lengths = {
        id(part.args[0])
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and source.called(part) == "len" and part.args
    }
    return sum(
        isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)
        and id(part) not in lengths and _name(part) == name
        for part in ast.walk(node)
    )  # fmt: skip


def _kept(trial: Trial, timer: TimerRow, function: Function) -> str | None:
    """The name of the growing data that the routine processes as a whole; None if none is found."""
    if (joined := _joined_to_itself(function)) is not None:
        return joined
    for name in _gone_through(function):
        adders = [function] if not name.startswith("self.") else _beside(trial, timer)
        if any(_calls_of(adder, name) & _ADDING for adder in adders) and not _is_bounded(
            trial.source(timer) or "", name
        ):
            return name
    return None


def _joined_to_itself(function: Function) -> str | None:
    """`x` of `x = np.vstack([x, y])`."""
    for part in ast.walk(function):
        if not (isinstance(part, ast.Assign) and isinstance(part.value, ast.Call)):
            continue
        targets = {name for target in part.targets if (name := _name(target))}
        if source.called(part.value) in _JOINING and part.value.args:
            first = part.value.args[0]
            elements = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            for element in elements:
                if (name := _name(element)) in targets and name:
                    return name
    return None


def _gone_through(function: Function) -> Iterator[str]:
    """Arguments and attributes that the function processes as a whole."""
    arguments = {argument.arg for argument in function.args.args}
    for part in ast.walk(function):
        whole: list[ast.expr] = []
        if isinstance(part, ast.For | ast.comprehension):
            whole = [part.iter]
        elif isinstance(part, ast.Call) and source.called(part) in _WHOLE:
            whole = part.args
        for used in whole:
            name = _name(used)
            if name and (name in arguments or name.startswith("self.")):
                yield name


def _beside(trial: Trial, timer: TimerRow) -> Iterator[Function]:
    """The routine, and routines of the same file and caller that are called often, too."""
    calls = trial.calls
    above = {calls.parent[row] for row in calls.rows_of(timer)} - {-1}
    siblings = {
        calls.timer[child]
        for row in above
        for child in calls.children(row)
        if calls.calls[child] >= LEAST_CALLS and calls.timer[child].file == timer.file
    }
    for sibling in siblings | {timer}:
        function = source.function(trial, sibling)
        if function is not None:
            yield function


def _calls_of(function: Function, name: str) -> set[str]:
    """The methods of this object that the function calls."""
    return {
        part.func.attr
        for part in ast.walk(function)
        if isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and _name(part.func.value) == name
    }


def _is_bounded(text: str, name: str) -> bool:
    """Whether elements of it are removed anywhere in the file, it is assigned outside a
    constructor, or it has a maximum size."""
    for part in ast.walk(ast.parse(text)):
        if isinstance(part, ast.Delete) and any(
            isinstance(target, ast.Subscript) and _name(target.value) == name
            for target in part.targets
        ):
            return True
        if not isinstance(part, Function):
            continue
        if _calls_of(part, name) & _REMOVING:
            return True
        if any(_sets(node, name) and (part.name != "__init__" or "maxlen" in ast.dump(node))
               for node in ast.walk(part)):  # fmt: skip
            return True
    return False


def _sets(node: ast.AST, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return any(
        _name(target.value if isinstance(target, ast.Subscript) else target) == name
        for target in targets
    )


def _name(node: ast.expr) -> str:
    """`x`, or `self.x`; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and _name(node.value) == "self":
        return f"self.{node.attr}"
    return ""
