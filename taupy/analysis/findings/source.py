"""The source of a routine, if it still exists and has not changed since the trial ran."""

from __future__ import annotations

import ast
from functools import lru_cache

from taupy.analysis.findings.trial import Trial
from taupy.model.rows import TimerRow

Function = ast.FunctionDef | ast.AsyncFunctionDef


def function(trial: Trial, timer: TimerRow) -> Function | None:
    """The routine's definition; None if the file is gone, has changed, or is not Python."""
    text = trial.source(timer)
    if text is None or timer.line is None:
        return None
    return _functions(text).get((timer.short_name.split(".")[-1], timer.line))


@lru_cache(maxsize=64)
def _functions(text: str) -> dict[tuple[str, int], Function]:
    """The definitions in a file by name and first line."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    nodes = (node for node in ast.walk(tree) if isinstance(node, Function))
    return {(node.name, _first_line(node)): node for node in nodes}


def _first_line(node: Function) -> int:
    """The first line of its code object: that of the first decorator, if any."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def called(call: ast.Call) -> str:
    """The last part of the called name: `zeros` of `np.zeros(8)`."""
    target = call.func
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def calls(function: Function) -> set[str]:
    """The last parts of all names that it calls."""
    return {called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}


def enters(function: Function) -> list[ast.expr]:
    """The context managers of its `with` statements."""
    blocks = (node for node in ast.walk(function) if isinstance(node, ast.With | ast.AsyncWith))
    return [item.context_expr for block in blocks for item in block.items]


def names(node: ast.AST) -> set[str]:
    """All names and attributes in an expression."""
    plain = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return plain | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
