"""Which routines of a program only compute, as read from their source: they change nothing, and
their results depend on nothing but what they are given.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache

from taupy.analysis.findings import source
from taupy.analysis.findings.hot_lines import changed, name
from taupy.analysis.findings.source import Function, called

COPYING = frozenset({"set", "sorted", "Counter"})
"""Functions whose result may be changed by who has it, and so has to be made each time."""

PURE = COPYING | frozenset(
    {"frozenset", "tuple", "sum", "min", "max", "compile", "loads",
     "read_csv", "read_json", "read_parquet", "read_excel", "read_text", "inv", "pinv", "svd",
     "eigh", "eig", "cholesky", "det", "matrix_rank", "norm", "lu_factor", "cho_factor", "qr",
     "unique", "argsort", "cumsum", "corrcoef", "cov", "median", "quantile", "percentile"}
)  # fmt: skip
"""Functions whose result depends on nothing but what they are given."""

READING = PURE | {
    "len",
    "print",
    "range",
    "enumerate",
    "zip",
    "isinstance",
    "str",
    "int",
    "float",
}
"""Functions that change nothing of what they are given."""


def only_computes(function: Function, also: set[str] | None = None) -> bool:
    """Whether a routine changes nothing, and its result depends only on what it is given and on
    attributes of it.

    Args:
        also: functions that it may call.
    """
    if not isinstance(function, ast.FunctionDef) or _is_cached(function):
        return False
    for part in ast.walk(function):
        if isinstance(part, ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal | ast.With
                      | ast.Raise | ast.Delete | ast.Import | ast.ImportFrom):  # fmt: skip
            return False
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            return False
        if isinstance(part, ast.Call) and not (
            called(part) in (READING | _OF_NUMBERS | (also or set())) - {"print"}
            or (isinstance(part.func, ast.Attribute) and part.func.attr in _OF_VALUES)
        ):
            return False
    return any(isinstance(part, ast.Return) and part.value is not None
               for part in ast.walk(function))  # fmt: skip


_OF_NUMBERS = frozenset({"abs", "round", "sqrt", "exp", "log", "sin", "cos", "any", "all", "pow"})
_OF_VALUES = frozenset(
    {"items", "values", "keys", "get", "lower", "upper", "strip", "split", "join", "mean", "sum",
     "std", "max", "min", "startswith", "endswith"}
)  # fmt: skip
"""Methods that change nothing."""


def _is_cached(function: Function) -> bool:
    return any("cache" in single for decorator in function.decorator_list
               for single in source.names(decorator))  # fmt: skip


@lru_cache(maxsize=64)
def computing(module: ast.Module) -> set[str]:
    """Functions at the top of a file whose results depend on their arguments only: they compute,
    call none but each other, and read nothing of the file that changes."""
    functions = {part.name: part for part in module.body if isinstance(part, ast.FunctionDef)}
    fixed = functions.keys() - changed(module)
    varying = _varying(module)
    while True:
        computing = {
            name for name in fixed
            if only_computes(functions[name], fixed) and not _read(functions[name]) & varying
        }  # fmt: skip
        if computing == fixed:
            return computing
        fixed = computing


def _varying(module: ast.Module) -> set[str]:
    """Names that are bound more than once in a file, or may be changed in place."""
    stores = Counter(
        part.id for part in ast.walk(module)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    )  # fmt: skip
    inside = (part for part in ast.walk(module) if isinstance(part, ast.Subscript | ast.Call))
    again = {name for name, number in stores.items() if number > 1}
    return again.union(*map(changed, inside))


def _read(function: Function) -> set[str]:
    """Names of what a function reads and does not bind, and of attributes."""
    bound = changed(function) | {part.arg for part in ast.walk(function)
                                 if isinstance(part, ast.arg)}  # fmt: skip
    return {name(part) for part in ast.walk(function)
            if isinstance(part, ast.Name | ast.Attribute)} - bound - {""}  # fmt: skip
