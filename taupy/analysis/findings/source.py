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
    """The definitions in a file by name and line."""
    nodes = (node for node in ast.walk(tree(text)) if isinstance(node, Function))
    return {(node.name, line): node for node in nodes for line in _lines(node)}


@lru_cache(maxsize=64)
def tree(text: str) -> ast.Module:
    """The file's syntax tree; an empty one if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def functions(trial: Trial, timer: TimerRow) -> list[Function | ast.Lambda]:
    """The definition, or all lambdas that begin in the routine's line: which of them it is, is
    not recorded."""
    if not timer.short_name.endswith("<lambda>"):
        definition = function(trial, timer)
        return [definition] if definition else []
    text = trial.source(timer)
    return _lambdas(text).get(timer.line, []) if text and timer.line else []


@lru_cache(maxsize=64)
def _lambdas(text: str) -> dict[int, list[Function | ast.Lambda]]:
    """The lambdas in a file by line."""
    lambdas: dict[int, list[Function | ast.Lambda]] = {}
    for node in ast.walk(tree(text)):
        if isinstance(node, ast.Lambda):
            lambdas.setdefault(node.lineno, []).append(node)
    return lambdas


def module(trial: Trial, timer: TimerRow) -> ast.Module | None:
    """The whole file of a module's own routine."""
    text = trial.source(timer) if timer.short_name == "<module>" else None
    return tree(text) if text is not None else None


def _lines(node: Function) -> list[int]:
    """The line of its `def`, and of its first decorator, at which its code begins."""
    return [node.lineno, *(decorator.lineno for decorator in node.decorator_list[:1])]


def called(call: ast.Call) -> str:
    """The last part of the called name: `zeros` of `np.zeros(8)`."""
    target = call.func
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def calls(function: ast.AST) -> set[str]:
    """The last parts of all names that it calls."""
    return {called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}


def enters(function: Function) -> list[ast.expr]:
    """The context managers of its `with` statements."""
    blocks = (node for node in ast.walk(function) if isinstance(node, ast.With | ast.AsyncWith))
    return [item.context_expr for block in blocks for item in block.items]


def suspends(function: Function) -> bool:
    """Whether a call of it does its work later: a coroutine or generator."""
    stack: list[ast.AST] = [*function.body]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(part, Function | ast.Lambda):
            stack += ast.iter_child_nodes(part)
    return isinstance(function, ast.AsyncFunctionDef)


def names(node: ast.AST) -> set[str]:
    """All names and attributes in an expression."""
    plain = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return plain | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def loaded(trial: Trial) -> dict[str, set[str]] | None:
    """What the program's own code reads as it runs: names, attributes and texts, by file. The
    bodies of routines that did not run are left out. None if the source of a file is not known."""
    ran: dict[str, set[tuple[str, int | None]]] = {}
    texts: dict[str, str] = {}
    for timer in trial.calls.timers:
        path = trial.paths.get(timer.timer) or timer.file
        if path is None or not trial.is_own(timer):
            continue
        text = trial.source(timer)
        if text is None:
            return None
        texts[path] = text
        ran.setdefault(path, set()).add((timer.short_name.split(".")[-1], timer.line))
    return {path: _loaded(tree(text), ran[path]) for path, text in texts.items()}


def _loaded(module: ast.Module, ran: set[tuple[str, int | None]]) -> set[str]:
    read: set[str] = set()
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, Function) and not any((node.name, at) in ran for at in _lines(node)):
            stack += [node.args, *node.decorator_list, *([node.returns] if node.returns else [])]
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            read.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            read.add(node.value)
        elif isinstance(node, ast.ImportFrom):
            read |= {alias.name for alias in node.names if alias.asname}
        stack += ast.iter_child_nodes(node)
    return read


def imported(text: str) -> dict[str, set[str]]:
    """The names that a file binds to parts of each package that it imports."""
    names: dict[str, set[str]] = {}
    for node in ast.walk(tree(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.split(".")[0]
                names.setdefault(package, set()).add(alias.asname or package)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            bound = {alias.asname or alias.name for alias in node.names}
            names.setdefault(node.module.split(".")[0], set()).update(bound)
    return names
