"""Rule: every call processes all data kept from earlier calls, so time grows quadratically."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.call_growth import CallGrowth
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.hot_lines import hottest
from taupy.analysis.findings.source import Function
from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Finding
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import SLEEPING
from taupy.units import count, duration, percent

KIND = "growing history"
UNEXPLAINED = f"{KIND}: measured"
"""Only if no other finding is about the routine."""

NEEDS = ("host",)

LEAST = 0.1
"""Minimum share of the time outside imports in the routine that processes all of it."""

LEAST_LINE = 0.2
"""Minimum share of the time outside imports in a line that copies all of it to add to it."""

LEAST_COPY_NS = 3_000
"""Minimum CPU time of an addition to a text: to copy a few thousand characters takes less."""

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


_PART = 0.8
"""A routine that grows because it calls another one, which has this share of its time, is not
named."""

_BATCH = 100
"""Calls of a routine for each one of a routine that takes most of its time, from which on it does
in few calls what is due for many, such as to write out what it has collected: when that comes, its
calls take longer."""

_ASLEEP = 0.2
"""Maximum share of the time that it sleeps: what it waits for may have become slower."""

_UNEVEN = 2
"""So many times the mean of a thread's wait for a processor may lie in some calls, and none in the
first ones, which a thread that has just begun does at once."""


def find(trial: Trial) -> Iterator[Finding]:
    processed = dict(_processed(trial))
    yield from processed.values()
    for timer, finding in _copied(trial):
        if timer not in processed:
            processed[timer] = finding
            yield finding
    for timer in _growing(trial):
        if timer not in processed:
            yield _measured(trial, timer)


def _growing(trial: Trial) -> list[TimerRow]:
    """Routines whose calls take longer and longer, and that compute; not those that call them, nor
    coroutines and generators: many are called before the first of them has done anything."""
    calls = trial.calls
    growing = {
        timer: max(calls.of_timer(timer).items(), key=lambda pair: pair[1].ns)
        for timer in calls.lasting(LEAST * trial.worked_ns)
        if trial.is_own(timer) and (grown := trial.growth.get(timer)) and grown.grows
        and calls.entries(timer) >= LEAST_CALLS
    }  # fmt: skip
    innermost = []
    for timer, (thread, whole) in growing.items():
        below = {calls.timer[row] for top in whole.rows for row in calls.below(top)}
        states = [trial.states.get(thread, {}).get(within, {}) for within in below]
        seen = sum(ns for of_timer in states for ns in of_timer.values())
        asleep = sum(of_timer.get(SLEEPING, 0) for of_timer in states)
        is_caller = any(
            other in growing and growing[other][1].ns >= _PART * whole.ns
            for other in below - {timer}
        )
        function = source.function(trial, timer)
        if function is not None and (
            source.suspends(function)
            or _has_numbers_alone(source.tree(trial.source(timer) or ""), function)
        ):
            continue
        if (
            not is_caller
            and not _is_wait(trial, thread, trial.growth[timer])
            and asleep <= _ASLEEP * seen
            and not _in_batches(trial, whole)
        ):
            innermost.append(timer)
    return innermost


def _is_wait(trial: Trial, thread: ThreadRow, grown: CallGrowth) -> bool:
    """Whether its last calls may only have waited longer for a processor than its first ones."""
    return grown.last_ns * (1 - trial.queued(thread)) <= _UNEVEN * grown.first_ns


def _has_numbers_alone(module: ast.Module, function: Function) -> bool:
    """Whether nothing that earlier calls have left can reach it: it is given numbers, which the
    program may count upwards, and reads nothing but them, builtins and modules."""
    arguments = function.args
    given = {part.arg for part in ast.walk(arguments) if isinstance(part, ast.arg)}
    if not given or arguments.vararg or arguments.kwarg or not given <= _numbers(function):
        return False
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for part in ast.walk(module) if isinstance(part, ast.Import | ast.ImportFrom)
        for alias in part.names
    }  # fmt: skip
    names = [part for part in ast.walk(function) if isinstance(part, ast.Name)]
    own = {part.id for part in names if isinstance(part.ctx, ast.Store)}
    harmless = given | own | imported | {*dir(builtins), function.name}
    shared = any(isinstance(part, ast.Global | ast.Nonlocal) for part in ast.walk(function))
    return not shared and {part.id for part in names} <= harmless


def _numbers(function: Function) -> set[str]:
    """Names that are used as single numbers: to count to, or to decide by their order or rest."""
    used: list[ast.expr] = []
    for part in ast.walk(function):
        if isinstance(part, ast.Call) and source.called(part) == "range":
            used += part.args
        elif isinstance(part, ast.If | ast.While | ast.IfExp):
            used += _compared(part.test)
    return {part.id for part in used if isinstance(part, ast.Name)}


def _compared(test: ast.expr) -> Iterator[ast.expr]:
    """What is ordered or divided in a condition: an array there would be no condition."""
    parts: list[ast.expr] = [test]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BoolOp):
            parts += part.values
        elif isinstance(part, ast.UnaryOp):
            parts.append(part.operand)
        elif isinstance(part, ast.BinOp):
            parts += [part.left, part.right]
            if isinstance(part.op, ast.Mod):
                yield from (part.left, part.right)
        elif isinstance(part, ast.Compare):
            parts += [part.left, *part.comparators]
            if all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in part.ops):
                yield from (part.left, *part.comparators)


def _in_batches(trial: Trial, whole: Sum) -> bool:
    """Whether a few of its calls do most of the work, in a routine that they call."""
    calls, sums = trial.calls, dict[TimerRow, Sum]()
    for row in (child for top in whole.rows for child in calls.children(top)):
        timer, more = calls.timer[row], Sum(calls.inclusive[row], int(calls.calls[row]))
        sums[timer] = sums.get(timer, Sum()).plus(more)
    return any(of.ns >= whole.ns / 2 and of.calls * _BATCH <= whole.calls for of in sums.values())


def _measured(trial: Trial, timer: TimerRow) -> Finding:
    """What the clock shows, where nothing in the source says why."""
    longest = max(trial.calls.of_timer(timer).values(), key=lambda sums: sums.ns)
    return trial.finding(
        UNEXPLAINED,
        timer,
        f"{hottest(trial, timer)} takes longer the more often it has been called, for what earlier "
        "calls have left, or since later ones are given more: "
        f"{duration(longest.ns)} in {count(longest.calls)} calls, "
        f"{percent(100 * longest.ns / trial.wall_ns)} % of the run",
        longest.ns,
        "",
        "later calls are given more to do",
        "low",
        values=("inclusive", "calls"),
    )


def _processed(trial: Trial) -> Iterator[tuple[TimerRow, Finding]]:
    """Routines that go through all data of earlier calls."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.worked_ns):
        if not trial.is_own(timer) or calls.entries(timer) < LEAST_CALLS:
            continue
        thread, longest = max(calls.of_timer(timer).items(), key=lambda pair: pair[1].ns)
        if longest.calls < LEAST_CALLS:
            continue
        function = source.function(trial, timer)
        kept = _kept(trial, timer, function) if function else None
        if function is None or kept is None:
            continue
        grown = trial.growth.get(timer)
        if grown is not None and (grown.stays or _is_wait(trial, thread, grown)):
            continue
        yield (
            timer,
            trial.finding(
                KIND,
                timer,
                f"{hottest(trial, timer)} processes all of {kept}, which grows with each of "
                f"{count(longest.calls)} calls: {duration(longest.ns)}, "
                f"{percent(100 * longest.ns / trial.wall_ns)} % of the run, and the share grows "
                "(quadratic)",
                longest.ns,
                _attempt(trial, timer, function, kept),
                "what is kept stays small",
                values=("inclusive", "calls"),
            ),
        )


def _copied(trial: Trial) -> Iterator[tuple[TimerRow, Finding]]:
    """Lines that make a longer copy of something in each iteration, or in each call."""
    for hot in hot_lines.hot_lines(trial, LEAST_LINE):
        tree = hot_lines.tree(trial, hot.timer)
        if tree is None:
            continue
        sums: dict[ast.stmt, int] = {}
        parts = hot_lines.parts(hot, tree)
        for part in parts:
            statement = tree.statement(part.node)
            sums[statement] = sums.get(statement, 0) + part.ns
        if not sums:
            continue
        added = next((part for part in parts if _added_up(part.node)), None)
        if added is not None and added.ns * hot.sure_ns / hot.ns >= LEAST_LINE * trial.worked_ns:
            yield hot.timer, _of_sum(trial, hot, added)
            continue
        statement = max(sums, key=lambda statement: sums[statement])
        kept = _copied_in(trial, hot, tree, statement, sums[statement])
        if kept is None:
            continue
        if sums[statement] * hot.sure_ns / hot.ns < LEAST_LINE * trial.worked_ns:
            continue
        text = kept.startswith("self.")
        yield (
            hot.timer,
            trial.finding(
                KIND,
                hot.timer,
                f"{hot.place} copies all of {kept} each time that it adds to it, and each copy is "
                "longer than the one before (quadratic): "
                f"{hot_lines.share(trial, sums[statement])}",
                hot_lines.bound(trial, hot, sums[statement]),
                "collect the pieces in a list, and join them once"
                if text or _is_joined(statement)
                else f"add to it in place: {kept}.append(...), or {kept}.extend(...)",
                "what is kept stays small",
            ),
        )


def _of_sum(trial: Trial, hot: hot_lines.Hot, added: hot_lines.Part) -> Finding:
    return trial.finding(
        KIND,
        hot.timer,
        f"{hot.place} adds up lists (`{hot_lines.short(added.node)}`), which copies all that was "
        f"added before with each of them (quadratic): {hot_lines.share(trial, added.ns)}",
        hot_lines.bound(trial, hot, added.ns),
        "chain them: list(itertools.chain.from_iterable(lists)), or extend one list",
        "there are few lists",
        "high",
    )


def _added_up(node: ast.AST) -> bool:
    """Whether it is `sum(lists, [])`."""
    return (
        isinstance(node, ast.Call)
        and source.called(node) == "sum"
        and len(node.args) == 2
        and isinstance(node.args[1], ast.List)
    )


def _copied_in(
    trial: Trial, hot: hot_lines.Hot, tree: hot_lines.Tree, statement: ast.stmt, ns: int
) -> str | None:
    """What a statement of a hot line copies to add to it; None if it does not, or if what is added
    may be removed again."""
    function = tree.function(statement)
    repeats = tree.repeats(statement)
    entries = trial.calls.entries(hot.timer)
    targets: list[ast.expr]
    value: ast.expr | None
    if isinstance(statement, ast.AugAssign):
        targets, value = [statement.target], None
    elif isinstance(statement, ast.Assign):
        targets, value = list(statement.targets), statement.value
    else:
        return None
    kept = _name(targets[0])
    if kept.startswith("self."):
        added = value is None and isinstance(statement, ast.AugAssign) and isinstance(
            statement.op, ast.Add
        )  # fmt: skip
        cpu_ns = ns * (1 - (trial.runnable(hot.thread) or 0.0))
        if (
            (repeats is None and entries < LEAST_CALLS)
            or not (added or (value is not None and _leftmost(value) == kept))
            or not _is_text(tree.module, kept, statement)
            or (repeats is None and cpu_ns < LEAST_COPY_NS * entries)
        ):
            return None
        return kept
    if not kept or repeats is None or value is None:
        return None
    others = [
        part for part in ast.walk(repeats)
        if isinstance(part, ast.Name) and part.id == kept and not isinstance(part.ctx, ast.Load)
        and tree.statement(part) is not statement
    ]  # fmt: skip
    if others:
        return None
    if _is_joined(statement):
        return kept
    starts = [part.value for part in ast.walk(function)
              if isinstance(part, ast.Assign) and part is not statement
              and any(_name(target) == kept for target in part.targets)]  # fmt: skip
    is_list = bool(starts) and all(
        isinstance(start, ast.List | ast.ListComp)
        or (isinstance(start, ast.Call) and source.called(start) == "list")
        for start in starts
    )
    adds = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
    return kept if is_list and adds and _leftmost(value) == kept else None


def _is_joined(statement: ast.stmt) -> bool:
    """Whether it is `x = np.append(x, y)`, or the like."""
    return isinstance(statement, ast.Assign) and _joined(statement) is not None


def _leftmost(value: ast.expr) -> str:
    """`x` of `x + y + z`."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        value = value.left
    return _name(value)


def _is_text(module: ast.Module, kept: str, statement: ast.stmt) -> bool:
    """Whether an attribute begins as a text, in a constructor, and only this statement sets it."""
    is_text = False
    for function in ast.walk(module):
        if not isinstance(function, Function):
            continue
        for part in ast.walk(function):
            if part is statement or not isinstance(
                part, ast.Assign | ast.AnnAssign | ast.AugAssign
            ):
                continue
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            if not any(_name(target) == kept for target in targets):
                continue
            if function.name != "__init__" or not (
                isinstance(part.value, ast.Constant) and isinstance(part.value.value, str | bytes)
            ):
                return False
            is_text = True
    return is_text


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
        if isinstance(part, ast.Assign) and (joined := _joined(part)) is not None:
            return joined
    return None


def _joined(part: ast.Assign) -> str | None:
    if not isinstance(part.value, ast.Call):
        return None
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
            while isinstance(used, ast.Call) and source.called(used) in _WHOLE and used.args:
                used = used.args[0]
            name = _name(used)
            if name and (name in arguments or name.startswith("self.")):
                yield name


def _beside(trial: Trial, timer: TimerRow) -> Iterator[Function]:
    """The routine, its callers, and routines of the same caller, of the same file and called often,
    too."""
    calls = trial.calls
    above = {calls.parent[row] for row in calls.rows_of(timer)} - {-1}
    siblings = {
        calls.timer[child]
        for row in above
        for child in (row, *calls.children(row))
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
