"""What a program pays its database or disk for each single row: a query, a transaction, a record
that is stored.

Part of the rule `piecemeal.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from taupy.analysis.findings import hot_lines, query_plans, source
from taupy.analysis.findings.hot_lines import Hot, Loop, Tree, changed, name, share, short
from taupy.analysis.findings.one_by_one import LEAST_TIMES, one_by_one
from taupy.analysis.findings.source import Function, called
from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count

LEAST_STORED = 0.3
"""Minimum share of the time outside imports in a line that stores."""

MOST_BETWEEN = 4
"""Routines between a loop and what it does for each row."""

MOSTLY = 0.6
"""Minimum share of a line's time in which it waits for the disk."""


def each_row(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    query = _query(trial, hot, tree, statement)
    if query is not None or hot.sure_ns < LEAST_STORED * trial.worked_ns:
        return query
    return _stored(trial, hot, tree, statement) or _stored_alone(trial, hot, tree, statement)


def _is_repeated(trial: Trial, hot: Hot, tree: Tree, node: ast.AST) -> bool:
    return tree.repeats(node) is not None or trial.calls.entries(hot.timer) >= LEAST_TIMES


_WRITING = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.I)
_SELECTING = re.compile(r"\s*SELECT\b.*\bWHERE\b", re.I | re.S)


def _executed(node: ast.AST) -> Iterator[str]:
    """The texts of statements that it executes."""
    return filter(None, map(_statement, ast.walk(node)))


def _statement(node: ast.AST) -> str:
    """The text of the statement that a call executes, if it stands there."""
    is_call = isinstance(node, ast.Call) and called(node) in ("execute", "executemany")
    first = node.args[0] if is_call and isinstance(node, ast.Call) and node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _query(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    """A query for each row of another query."""
    queries = [text for text in _executed(statement) if _SELECTING.match(text)]
    if not queries or isinstance(statement, ast.For):
        return None
    loop = _loop_over_rows(tree, statement)
    often = ""
    if loop is None:
        callers = _called_for_rows(trial, hot)
        if not callers or trial.calls.entries(hot.timer) < LEAST_TIMES:
            return None
        often = f", {count(int(trial.calls.entries(hot.timer)))} times"
        loop = tree.function(statement)
    if any(_WRITING.match(text) for text in _executed(loop)):
        return None  # the next may need what was written
    makers = query_plans.statements(trial)
    if makers and any(query_plans.scan(makers, text) for text in queries):
        return None  # an index is what is missing, as `whole_searches.py` says
    return one_by_one(
        trial, "a query per row", hot.timer,
        f"{hot.place} asks the database again for each row of another query (N+1 queries)"
        f"{often}: {share(trial, hot.ns)}", hot_lines.bound(trial, hot),
        "ask once for all rows: a JOIN, or one query into a dict",
        "few rows are looked for",
    )  # fmt: skip


def _loop_over_rows(tree: Tree, node: ast.AST) -> ast.AST | None:
    """The loop around that goes through the rows of a query."""
    function = tree.function(node)
    repeats = tree.repeats(node)
    while repeats is not None:
        iterated = (
            [repeats.iter] if isinstance(repeats, ast.For)
            else [part.iter for part in getattr(repeats, "generators", [])]
        )  # fmt: skip
        if any(_is_rows(function, iterable) for iterable in iterated):
            return repeats
        repeats = tree.repeats(repeats)
    return None


def _is_rows(function: ast.AST, iterated: ast.expr) -> bool:
    values = [iterated]
    if isinstance(iterated, ast.Name):
        values = [
            part.value for part in ast.walk(function)
            if isinstance(part, ast.Assign)
            and any(name(target) == iterated.id for target in part.targets)
        ]  # fmt: skip
    return any(
        isinstance(part, ast.Call) and called(part) in ("execute", "fetchall")
        for value in values for part in ast.walk(value)
    )  # fmt: skip


def _called_for_rows(trial: Trial, hot: Hot) -> bool:
    """Whether a routine of the program calls it for each row of a query."""
    last = hot.timer.short_name.split(".")[-1]
    calls = trial.calls
    for caller in {calls.timer[calls.parent[row]] for row in calls.rows_of(hot.timer)
                   if calls.parent[row] >= 0}:  # fmt: skip
        tree = hot_lines.tree(trial, caller) if trial.is_own(caller) else None
        function = source.function(trial, caller) if tree is not None else None
        for part in ast.walk(function or ast.Module([], [])):
            if (
                tree is not None
                and isinstance(part, ast.Call)
                and called(part) == last
                and (loop := _loop_over_rows(tree, part)) is not None
                and not any(_WRITING.match(text) for text in _executed(loop))
            ):
                return True
    return False


def _stored_alone(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    """A row that is a transaction of its own, so that the statement waits for the disk."""
    waited = sum(hot.by_state.get(state, 0) for state in ("disk", "wait"))
    if (
        (waited < MOSTLY * hot.ns and not _commits_itself(tree))
        or not _is_repeated(trial, hot, tree, statement)
        or not any(_WRITING.match(text) for text in _executed(statement))
        or any(called(part) == "executemany" for part in ast.walk(statement)
               if isinstance(part, ast.Call))
    ):  # fmt: skip
        return None
    return one_by_one(
        trial, "stored one by one", hot.timer,
        f"{hot.place} waits for the disk with each row, a transaction of its own (autocommit): "
        f"{share(trial, hot.ns)}", hot_lines.bound(trial, hot),
        "commit many rows at a time: one transaction around the loop",
        "each record has to be safe before the next one is made",
    )  # fmt: skip


def _commits_itself(tree: Tree) -> bool:
    """Whether the program's databases are files that commit each statement."""
    texts = [part.value for part in ast.walk(tree.module)
             if isinstance(part, ast.Constant) and isinstance(part.value, str)]  # fmt: skip
    return not any(text == ":memory:" or "BEGIN" in text.upper() for text in texts) and any(
        isinstance(part, ast.keyword) and isinstance(part.value, ast.Constant)
        and (part.arg, part.value.value) in (("isolation_level", None), ("autocommit", True))
        for part in ast.walk(tree.module)
    )  # fmt: skip


def _stored(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    """A record of a file, or a row of a database, that the disk has to store before the next."""
    call = next(
        (part for part in ast.walk(statement)
         if isinstance(part, ast.Call) and called(part) in ("fsync", "fdatasync", "commit")),
        None,
    )  # fmt: skip
    if call is None:
        return None
    if called(call) == "commit":
        return _committed(trial, hot, tree, call)
    repeats = tree.repeats(statement)
    if not isinstance(repeats, ast.For) or _is_chosen(tree, statement, repeats):
        return None
    if any(isinstance(part, ast.For) and part is not repeats for part in ast.walk(repeats)):
        return None  # there is a batch for each
    return one_by_one(
        trial, "stored one by one", hot.timer,
        f"{hot.place} waits for the disk after each record, by {short(call.func)}() in each "
        f"iteration: {share(trial, hot.ns)}", hot_lines.bound(trial, hot),
        "write many records, and then call it once", _SAFE,
    )  # fmt: skip


_SAFE = "each record has to be safe before the next one is made"


def _is_chosen(tree: Tree, node: ast.AST, repeats: ast.AST) -> bool:
    """Whether it is done in some iterations or calls only: under a condition that depends on what
    changes from one to the next."""
    inside = set(ast.walk(repeats))
    return any(
        isinstance(part, ast.If) and part in inside and _varies(tree, part.test, repeats)
        for part in tree.above(node)
    )


def _varies(tree: Tree, value: ast.expr, where: ast.AST, most: int = MOST_BETWEEN) -> bool:
    """Whether an expression may have another value in the next iteration of a loop, or in the next
    call of a routine: `len(batch)` may, a flag may not.

    Args:
        most: callers whose arguments are looked at.
    """
    parts = [*ast.walk(value)]
    if any(isinstance(part, ast.Call | ast.NamedExpr | ast.Await | ast.Yield) for part in parts):
        return True
    read = {name(part) for part in parts}
    kept = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    parameters: set[str] = set()
    if isinstance(where, ast.FunctionDef):
        parameters = {part.arg for part in ast.walk(where.args) if isinstance(part, ast.arg)}
    if read & changed(where) or (read - parameters | kept) & _changed_by_others(tree):
        return True
    if not isinstance(where, ast.FunctionDef) or not (varied := read & parameters - {"self"}):
        return False
    sites = [part for part in ast.walk(tree.module)
             if isinstance(part, ast.Call) and called(part) == where.name]  # fmt: skip
    if len(sites) != 1 or not most:
        return True
    around = tree.repeats(sites[0]) or tree.function(sites[0])
    arguments = (part for parameter in varied for part in _given(sites[0], where, parameter))
    return any(_varies(tree, part, around, most - 1) for part in arguments)


def _given(call: ast.Call, function: ast.FunctionDef, parameter: str) -> list[ast.expr]:
    """What a call may give for a parameter; nothing if that has its default value."""
    names = [part.arg for part in (*function.args.posonlyargs, *function.args.args)]
    if names[:1] == ["self"] and isinstance(call.func, ast.Attribute):
        del names[0]
    at = names.index(parameter) if parameter in names else len(call.args)
    return [
        *(part for place, part in enumerate(call.args)
          if place == at or (isinstance(part, ast.Starred) and place < at)),
        *(word.value for word in call.keywords if word.arg in (parameter, None)),
    ]  # fmt: skip


def _changed_by_others(tree: Tree) -> set[str]:
    """Attributes that methods give another value, and such variables of a whole file."""
    names: set[str] = set()
    for part in ast.walk(tree.module):
        if isinstance(part, Function) and part.name != "__init__":
            shared = (inner.names for inner in ast.walk(part)
                      if isinstance(inner, ast.Global | ast.Nonlocal))  # fmt: skip
            names.update(*shared)
            names |= {single.rpartition(".")[2] for single in changed(part) if "." in single}
        elif isinstance(part, Loop) and isinstance(tree.function(part), ast.Module):
            names |= changed(part)
    return names


def _committed(trial: Trial, hot: Hot, tree: Tree, call: ast.Call) -> Finding | None:
    """A transaction for each row: in each iteration of a loop, or in each call of a routine that
    another one calls in a loop, as the numbers of calls show."""
    repeats = tree.repeats(call)
    where = repeats or tree.function(call)
    if (
        not isinstance(where, ast.For | ast.FunctionDef)
        or _is_chosen(tree, call, where)
        or not _writes_a_row(tree, where)
    ):
        return None
    often = "in each iteration"
    if repeats is None:
        loop = _called_in_loop(trial, hot.timer)
        if loop is None:
            return None
        often = f"{count(int(trial.calls.entries(hot.timer)))} times, by the loop of {loop}"
    return one_by_one(
        trial, "stored one by one", hot.timer,
        f"{hot.place} waits for the disk after each row, by {short(call.func)}() {often}: "
        f"{share(trial, hot.ns)}", hot_lines.bound(trial, hot),
        "commit many rows at a time: one transaction around the loop", _SAFE,
    )  # fmt: skip


def _writes_a_row(tree: Tree, where: ast.AST) -> bool:
    """Whether it writes single rows: not many with one statement, and not many in a loop."""
    called_there = {called(part) for part in ast.walk(where) if isinstance(part, ast.Call)}
    if "executemany" in called_there:
        return False
    functions = [part for part in ast.walk(tree.module)
                 if isinstance(part, ast.FunctionDef) and part.name in called_there]  # fmt: skip
    within = where if isinstance(where, ast.For) else None
    return any(
        tree.repeats(part) is (within if function is where else None)
        for function in (where, *functions)
        for part in ast.walk(function)
        if _WRITING.match(_statement(part))
    )


def _called_in_loop(trial: Trial, timer: TimerRow) -> str | None:
    """The routine that has the loop which calls it, itself or by others that call it once each."""
    calls = trial.calls
    entries = calls.entries(timer)
    for _ in range(MOST_BETWEEN):
        rows = calls.rows_of(timer)
        callers = {calls.timer[calls.parent[row]] for row in rows if calls.parent[row] >= 0}
        caller = callers.pop() if len(callers) == 1 else None
        tree = hot_lines.tree(trial, caller) if caller and trial.is_own(caller) else None
        function = caller and (source.function(trial, caller) or source.module(trial, caller))
        if caller is None or tree is None or function is None:
            return None
        last = timer.short_name.split(".")[-1]
        sites = [part for part in ast.walk(function)
                 if isinstance(part, ast.Call) and called(part) == last]  # fmt: skip
        if len(sites) != 1:
            return None
        repeats = tree.repeats(sites[0])
        if repeats is not None:
            is_often = entries >= LEAST_TIMES * calls.entries(caller)
            if isinstance(repeats, ast.For) and is_often:
                return hot_lines.at_line(caller, repeats.lineno)
            return None
        timer = caller
    return None
