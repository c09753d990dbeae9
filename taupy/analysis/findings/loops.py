"""Find loops over elements in a routine's source.

A loop counts if a single vectorized call could replace it: it only does arithmetic on elements, and
no iteration depends on the previous one, except through sums, products and counts. That its
elements are numbers, and not whole columns, must follow from what is done with them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from taupy.analysis.findings.source import Function, called
from taupy.dataclass import NamedTuple

_OF_ELEMENTS = frozenset(
    {"abs", "min", "max", "int", "float", "bool", "round", "pow", "divmod",
     "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan",
     "atan2", "hypot", "floor", "ceil", "erf", "isnan", "fabs", "arctan", "arctan2", "sign"}
)  # fmt: skip
"""Functions of numbers that have a vectorized form."""

_AROUND = frozenset(
    {"len", "range", "enumerate", "zip", "zeros", "ones", "empty", "full", "zeros_like",
     "ones_like", "empty_like", "full_like", "copy", "print", "isinstance", "int", "float"}
)  # fmt: skip
"""Functions that a routine may call outside its loop and still spend its time in the loop."""

_ITERATED = frozenset({"range", "enumerate", "zip", "len", "reversed"})

_STATEMENTS = (ast.Assign, ast.AugAssign, ast.If, ast.For, ast.Expr, ast.Continue, ast.Break,
               ast.Pass)  # fmt: skip


class Loop(NamedTuple):
    """A loop over elements.

    Attributes:
        calls: names of the program's own functions that it calls for each element.
        of_numbers: whether its source shows that its elements are numbers. Otherwise they may be
            whole columns.
    """

    line: int
    calls: frozenset[str]
    of_numbers: bool


def element_loop(function: Function) -> Loop | None:
    """The loop in which this routine spends its time, if a vectorized call could replace it.

    Also None if the routine calls something outside the loop that may take the time instead.
    """
    outer = [node for node in _own(function.body) if isinstance(node, ast.For)]
    if not outer:
        return None
    inside = {id(part) for loop in outer for part in ast.walk(loop)}
    around = {called(node) for node in ast.walk(function)
              if isinstance(node, ast.Call) and id(node) not in inside}  # fmt: skip
    if not around <= _AROUND:
        return None
    flat = _flat_arrays(function)
    judged = [_judged(loop, flat) for loop in outer]
    if any(loop is None for loop in judged):
        return None
    loops = [loop for loop in judged if loop]
    return Loop(
        outer[0].lineno,
        frozenset().union(*(loop.calls for loop in loops)),
        all(loop.of_numbers for loop in loops),
    )


REDUCTIONS = frozenset(
    {"sum", "mean", "prod", "max", "min", "std", "var", "argmax", "argmin", "any", "all", "norm"}
)
"""Functions of NumPy that reduce a row to a number, or all rows of an array at once."""

_WITH_ORDER = (ast.For, ast.While, ast.With, ast.Try, ast.Yield, ast.YieldFrom, ast.Await,
               ast.JoinedStr, ast.Slice, ast.In, ast.NotIn, ast.Is, ast.IsNot,
               ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)  # fmt: skip


def is_of_numbers(function: Function | ast.Lambda, more: frozenset[str] = frozenset()) -> bool:
    """Whether it computes with numbers, or with single fields of a row, and does nothing else.

    Args:
        more: functions that it may call besides functions of numbers.
    """
    return operations(function, more) > 0


def operations(function: Function | ast.Lambda, more: frozenset[str] = frozenset()) -> int:
    """The number of operations with numbers in its source; 0 if it does something else, too."""
    parts = list(ast.walk(function))
    called_names = [called(part) for part in parts if isinstance(part, ast.Call)]
    texts = any(
        isinstance(part, ast.BinOp) and (_is_text(part.left) or _is_text(part.right))
        for part in parts
    )
    if (
        texts
        or any(isinstance(part, _WITH_ORDER) for part in parts)
        or not {*called_names} <= _OF_ELEMENTS | more
    ):
        return 0
    operators = sum(isinstance(part, ast.BinOp | ast.Compare) for part in parts)
    return operators + len(called_names) if operators or {*called_names} & more else 0


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _own(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements, including those within `if` and `with`, but not those within loops."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _own([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.With):
            yield from _own(statement.body)


def _judged(loop: ast.For, flat: set[str]) -> Loop | None:
    parts = list(ast.walk(loop))
    if not all(isinstance(part, _STATEMENTS) for part in parts if isinstance(part, ast.stmt)):
        return None
    if any(isinstance(part, ast.Slice) for part in parts):
        return None  # it works on parts of arrays as a whole
    indices = _targets(loop)
    arithmetic = [part for part in parts if isinstance(part, ast.BinOp)]
    arithmetic_on_text = any(isinstance(part, ast.Constant) and isinstance(part.value, str | bytes)
                             for part in parts)  # fmt: skip
    touched = any(
        isinstance(part, ast.Subscript) and indices & _names(part.slice) for part in parts
    ) or any(indices & _names(part) for part in arithmetic)
    if arithmetic_on_text or not touched or _carries(loop, parts):
        return None
    names = {called(part) for part in parts if isinstance(part, ast.Call)} - _ITERATED
    own = {called(part) for part in parts
           if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}  # fmt: skip
    strange = frozenset(names - _OF_ELEMENTS)
    computes = arithmetic or strange  # in the loop, or in a function that it calls
    if not computes or not strange <= own:
        return None
    return Loop(loop.lineno, strange, _is_of_numbers(loop, parts, flat))


def _is_of_numbers(loop: ast.For, parts: Sequence[ast.AST], flat: set[str]) -> bool:
    """Whether something is done that arrays do not allow, or that needs all indices of an array."""
    counted = {
        name for part in parts if isinstance(part, ast.For) and _is_counted(part.iter)
        for name in _names(part.target)
    }  # fmt: skip
    elements = (_targets(loop) | _assigned(loop)) - counted

    def is_element(node: ast.AST) -> bool:
        return bool(_names(node) & elements) or any(
            isinstance(part, ast.Subscript) and _names(part.slice) & counted
            for part in ast.walk(node)
        )

    for part in parts:
        if isinstance(part, ast.If | ast.IfExp) and is_element(part.test):
            return True
        if isinstance(part, ast.Call) and any(map(is_element, part.args)):
            of_math = isinstance(part.func, ast.Attribute) and _names(part.func) == {"math"}
            if of_math or called(part) in ("int", "float") or (
                called(part) in ("min", "max") and len(part.args) > 1
            ):  # fmt: skip
                return True
        if isinstance(part, ast.Subscript):
            if _names(part.slice) & elements or len(_indices(part) & counted) > 1:
                return True
            stored = isinstance(part.ctx, ast.Store) and isinstance(part.value, ast.Name)
            if stored and _names(part.value) & flat and _names(part.slice) & counted:
                return True
    return False


def _is_counted(iterated: ast.expr) -> bool:
    return isinstance(iterated, ast.Call) and called(iterated) == "range"


def _indices(subscript: ast.Subscript) -> set[str]:
    """Names in the indices of `a[i, j]` or `a[i][j]`, one of each index."""
    names = set()
    node: ast.expr = subscript
    while isinstance(node, ast.Subscript):
        names |= _names(node.slice)
        node = node.value
    return names


def _flat_arrays(function: Function) -> set[str]:
    """Variables that are made as arrays of one dimension."""
    flat = set()
    for part in ast.walk(function):
        if not (isinstance(part, ast.Assign) and isinstance(part.value, ast.Call)):
            continue
        maker, shape = called(part.value), part.value.args[:1]
        if maker in ("zeros", "ones", "empty", "full") and shape and not isinstance(
            shape[0], ast.Tuple | ast.List | ast.Attribute | ast.Starred
        ):  # fmt: skip
            flat |= {target.id for target in part.targets if isinstance(target, ast.Name)}
    return flat


def _targets(loop: ast.For) -> set[str]:
    """The loop variables of the loop and of loops nested in it."""
    return {
        name for part in ast.walk(loop) if isinstance(part, ast.For) for name in _names(part.target)
    }


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _carries(loop: ast.For, parts: Sequence[ast.AST]) -> bool:
    """Whether the loop has a loop-carried dependence: an iteration that needs an earlier result.

    A variable carries a dependence if an iteration reads it before assigning it, unless it
    accumulates a sum or a product. An array does if it is written at one index and read at another.
    """
    return _carries_variable(loop) or _carries_array(parts)


def _assigned(loop: ast.For) -> set[str]:
    """The variables that the loop assigns."""
    return {
        target.id
        for part in ast.walk(loop)
        if isinstance(part, ast.Assign | ast.AugAssign)
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        if isinstance(target, ast.Name)
    }


def _carries_variable(loop: ast.For) -> bool:
    assigned = _assigned(loop)
    ready: set[str] = set()
    return any(_reads_old(statement, assigned, ready) for statement in loop.body)


def _reads_old(statement: ast.stmt, assigned: set[str], ready: set[str]) -> bool:
    """Whether it reads a variable's value of the previous iteration. Adds to `ready` the variables
    that it assigns."""
    if isinstance(statement, ast.AugAssign):
        target = statement.target
        adds = isinstance(target, ast.Name) and isinstance(
            statement.op, ast.Add | ast.Sub | ast.Mult
        )
        old = (_names(statement.value) & assigned) - ready
        if isinstance(target, ast.Name) and not adds:
            old |= {target.id} - ready
        return bool(old)
    if isinstance(statement, ast.Assign):
        old = ((_names(statement.value) | _read_in_targets(statement)) & assigned) - ready
        ready |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        return bool(old)
    if isinstance(statement, ast.For):
        inner = ready | _names(statement.target)
        return bool((_names(statement.iter) & assigned) - ready) or any(
            _reads_old(inner_statement, assigned, inner) for inner_statement in statement.body
        )
    if isinstance(statement, ast.If):
        sides = (statement.body, statement.orelse)
        return bool((_names(statement.test) & assigned) - ready) or any(
            _reads_old(inner_statement, assigned, side)
            for body, side in zip(sides, (set(ready), set(ready)), strict=True)
            for inner_statement in body
        )
    return bool((_names(statement) & assigned) - ready)


def _read_in_targets(statement: ast.Assign) -> set[str]:
    """Names that targets other than plain variables read: `a` and `i` of `a[i] = 1`."""
    return {name for target in statement.targets if not isinstance(target, ast.Name)
            for name in _names(target)}  # fmt: skip


def _carries_array(parts: Sequence[ast.AST]) -> bool:
    written: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    for part in parts:
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
            places = written if isinstance(part.ctx, ast.Store) else read
            places.setdefault(part.value.id, set()).add(ast.dump(part.slice))
    return any(read[name] - places for name, places in written.items() if name in read)
