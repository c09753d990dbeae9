"""What holds the memory that a routine keeps, read from its source.

It is a container that outlives the call, or the loop that adds to it, that is only ever added to,
and that nothing reads as a whole; a cache of results without a limit; or sums and lists of tensors
with the graphs by which PyTorch computed them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from taupy.analysis.findings import source
from taupy.analysis.findings.hot_lines import Loop
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.dataclass import NamedTuple
from taupy.model.rows import TimerRow

LEAST_CALLS = 10
"""Minimum calls of a routine that adds to a container outside of a loop: one that is called less
often builds a result."""

_Scope = source.Function | ast.Module
_is_backward = among(("torch/_tensor.py:Tensor.backward", "torch/autograd/__init__.py:backward"))


class Holder(NamedTuple):
    """What holds what a routine keeps, and the line that adds to it.

    Attributes:
        why: as a clause about it.
        attempt: what to try.
    """

    name: str
    line: int
    why: str = "nothing is removed from it"
    attempt: str = "remove what is not read again, or limit its size"


def holder(trial: Trial, timer: TimerRow, by_network: bool) -> Holder | None:
    """What holds what a routine keeps; None if its source does not show it.

    Args:
        by_network: whether much of it was allocated by layers of PyTorch.
    """
    text = trial.source(timer)
    scope = source.function(trial, timer) or source.module(trial, timer)
    if not text or scope is None:
        return None
    is_often = trial.calls.entries(timer) >= LEAST_CALLS
    if is_often and isinstance(scope, source.Function) and (cache := _cache(scope)):
        return cache
    is_trained = by_network and _goes_backward(trial, timer)
    return held(scope, text, is_often) or (_graphs(scope, text) if is_trained else None)


def _cache(function: source.Function) -> Holder | None:
    """A cache of its results that drops none."""
    for decorator in function.decorator_list:
        name = ast.unparse(decorator)
        if name.split(".")[-1] in ("cache", "lru_cache(maxsize=None)", "lru_cache(None)"):
            why = "it drops no result"
            return Holder(f"@{name}", decorator.lineno, why, "limit its size: lru_cache(maxsize=)")
    return None


# --- containers ------------------------------------------------------------------


def held(scope: _Scope, text: str, is_often: bool = True) -> Holder | None:
    """A container that outlives a routine, or a loop of it, and that its file only adds to.

    Args:
        is_often: whether what is added outside of loops counts.
    """
    looped = {id(part) for loop in _loops(scope) for part in ast.walk(loop)}
    stored = {part.id for part in _parts(scope)
              if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip
    outer = {"self", "cls"}
    if isinstance(scope, ast.Module):
        local: set[str] = set()
    else:
        local = {argument.arg for argument in scope.args.args} - outer
        local |= stored - {name for part in _parts(scope) if isinstance(part, ast.Global)
                           for name in part.names}  # fmt: skip
    for part in _parts(scope):
        container = _added(part)
        if container is None or not (id(part) in looped or is_often):
            continue
        name = ast.unparse(container)
        if not source.names(container) & local:
            within: ast.AST = source.tree(text)
        elif isinstance(container, ast.Name) and id(part) in looped and name in stored:
            within = scope
        else:
            continue
        empty = _only_grows(within, name)
        if empty is not None and id(empty) not in looped:
            return Holder(name, container.lineno)
    return None


def _parts(scope: _Scope) -> Iterator[ast.AST]:
    """All parts of a routine; of a module, those that it runs itself."""
    stack: list[ast.AST] = [*scope.body]
    while stack:
        part = stack.pop()
        yield part
        if not (isinstance(scope, ast.Module) and isinstance(part, source.Function | ast.ClassDef)):
            stack += ast.iter_child_nodes(part)


def _loops(scope: _Scope) -> list[ast.For | ast.AsyncFor | ast.While]:
    return [part for part in _parts(scope) if isinstance(part, Loop)]


def _added(part: ast.AST) -> ast.expr | None:
    """The container to which a statement or call adds."""
    target = part.targets[0] if isinstance(part, ast.Assign) else None
    if isinstance(target, ast.Subscript):
        return None if isinstance(target.slice, ast.Constant | ast.Slice) else target.value
    if (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _ADDING
    ):
        return part.func.value
    return None


_ADDING = frozenset({"append", "add", "extend", "insert", "setdefault"})
_SINGLE = _ADDING | {"get"}
_CONTAINERS = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "field"})


def _only_grows(within: ast.AST, name: str) -> ast.expr | None:
    """What makes this container, if that is done once, empty and without a limit, and what follows
    only adds to it or reads its length, single elements or the last few: it removes nothing, and
    reads it nowhere as a whole."""
    single: set[int] = set()
    values: list[ast.expr] = []
    of_class: set[int] = set()
    for part in ast.walk(within):
        if isinstance(part, ast.ClassDef):
            of_class |= {id(statement) for statement in part.body}
        elif isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            short = _attribute(name) if id(part) in of_class else name
            values += [part.value for target in targets if ast.unparse(target) == short]
        elif (isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Del)) or (
            isinstance(part, ast.Attribute) and part.attr in _SINGLE
        ):
            single.add(id(part.value))
        elif isinstance(part, ast.Compare):
            single |= {id(side) for side in part.comparators}
        elif isinstance(part, ast.Call) and source.called(part) == "len":
            single |= {id(argument) for argument in part.args}
    reads = [part for part in ast.walk(within)
             if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)
             and _is_same(part, name)]  # fmt: skip
    is_so = len(values) == 1 and _is_empty(values[0]) and all(id(part) in single for part in reads)
    return values[0] if is_so else None


def _attribute(name: str) -> str:
    return name.rpartition(".")[2]


def _is_same(part: ast.Name | ast.Attribute, name: str) -> bool:
    """Whether it may be the container. An attribute is reached by more than one name: `Net.seen`,
    `self.seen`."""
    if isinstance(part, ast.Attribute) and "." in name:
        return part.attr == _attribute(name)
    return ast.unparse(part) == name


def _is_empty(value: ast.expr) -> bool:
    """Whether it is an empty container, such as `[]` or `collections.defaultdict(list)`."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    limited = isinstance(value, ast.Call) and any(word.arg == "maxlen" for word in value.keywords)
    return isinstance(value, ast.Call) and source.called(value) in _CONTAINERS and not limited


# --- graphs ----------------------------------------------------------------------

_WITHOUT_GRAPH = frozenset(
    {"item", "detach", "detach_", "numpy", "tolist", "float", "int", "bool", "len", "round", "data",
     "argmax", "eq", "no_grad", "inference_mode", "enable_grad", "set_grad_enabled"}
)  # fmt: skip
"""Names that occur where a result has no graph, or may have none."""


def _goes_backward(trial: Trial, timer: TimerRow) -> bool:
    """Whether a routine calls PyTorch's backward pass itself."""
    calls = trial.calls
    above = (calls.parent[row] for row in calls.rows(_is_backward))
    return any(row >= 0 and calls.timer[row] == timer for row in above)


def _graphs(scope: _Scope, text: str) -> Holder | None:
    """A sum or list that a loop adds losses or outputs to, each with all of its graph.

    It is none if any function of the file, or the routine, may have taken the graph off; or if it
    is what the backward pass begins at.
    """
    if source.names(scope) & {"no_grad", "inference_mode", "set_grad_enabled", "enable_grad"}:
        return None
    values: dict[str, list[ast.expr]] = {}
    backward: set[str] = set()
    for part in _parts(scope):
        if isinstance(part, ast.Assign):
            for of in part.targets:
                values.setdefault(ast.unparse(of), []).append(part.value)
        elif isinstance(part, ast.Call) and source.called(part) in ("backward", "grad"):
            backward |= source.names(part)
    local = _functions(text)
    others = {*local, *dir(builtins), *(name for names in source.imported(text).values()
                                        for name in names)}  # fmt: skip
    for loop in _loops(scope):
        for part in ast.walk(loop):
            hold = _accumulated(part)
            if hold is None:
                continue
            target, value = hold
            name = ast.unparse(target)
            calls = _origins(value, values, {name}, local)
            if (
                calls is not None
                and any(_is_network(call, others) for call in calls)
                and not source.names(target) & backward - {"self"}
                and not any(_sets(other, name) for other in ast.walk(loop) if other is not part)
            ):
                return Holder(
                    name,
                    target.lineno,
                    "what it adds has the graphs of its operations",
                    "add loss.item(), or tensors after detach()",
                )
    return None


def _functions(text: str) -> dict[str, set[str]]:
    """The names in each function and class of a file."""
    return {part.name: source.names(part) for part in ast.walk(source.tree(text))
            if isinstance(part, source.Function | ast.ClassDef)}  # fmt: skip


def _accumulated(part: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The variable to which it adds, and what: `total += loss`, `losses.append(loss)`."""
    if isinstance(part, ast.AugAssign) and isinstance(part.op, ast.Add):
        return part.target, part.value
    if isinstance(part, ast.Assign) and isinstance(part.value, ast.BinOp):
        target, value = part.targets[0], part.value
        if isinstance(value.op, ast.Add) and ast.unparse(target) == ast.unparse(value.left):
            return target, value.right
    if (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr == "append"
        and len(part.args) == 1
    ):
        return part.func.value, part.args[0]
    return None


def _sets(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Assign) and any(map(name.__eq__, map(ast.unparse, part.targets)))


def _origins(
    value: ast.expr, values: dict[str, list[ast.expr]], seen: set[str], local: dict[str, set[str]]
) -> list[ast.Call] | None:
    """The calls that an expression and the variables in it come from; None if one of them may be
    without a graph."""
    calls: list[ast.Call] = []
    stack = [value]
    while stack:
        for part in ast.walk(stack.pop()):
            if isinstance(part, ast.Compare):
                return None
            if isinstance(part, ast.Call):
                calls.append(part)
                if local.get(source.called(part), set()) & _WITHOUT_GRAPH:
                    return None
            if isinstance(part, ast.Attribute) and part.attr in _WITHOUT_GRAPH:
                return None
            if isinstance(part, ast.Name):
                if part.id in _WITHOUT_GRAPH:
                    return None
                if part.id not in seen:
                    seen.add(part.id)
                    stack += values.get(part.id, ())
    return calls


def _is_network(call: ast.Call, others: set[str]) -> bool:
    """Whether it may call a network, such as `net(x)` or `self.model(x)`: neither one of these
    other functions, nor a method of what is not `self`."""
    target = call.func
    if isinstance(target, ast.Attribute):
        owner = target.value
        return isinstance(owner, ast.Name) and owner.id == "self" and target.attr not in others
    return isinstance(target, ast.Name) and target.id not in others
