"""Rule: work whose result is known already is done again.

How often and how long it is done is measured. That it is the same is measured where a cache is
never hit, an archive's members are read more often than there are any, workers are started again,
or the calls of a routine that were looked at have the same arguments; otherwise it follows from the
source: what is given does not change in the loop. Where arguments were seen to differ, no routine
is said to get the same.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.hot_lines import Hot, Tree, changed, hottest, name, share, short
from taupy.analysis.findings.made_again import SAME_WORK, again, made_again
from taupy.analysis.findings.source import Function, called
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = SAME_WORK
NEEDS = ("host",)

LEAST = 0.1
"""Minimum share of the time outside imports."""

LEAST_CALLS = 100
"""Minimum calls of a cached routine, or reads of an archive."""

MISSES = 0.9
"""Minimum share of a cached routine's calls that run it."""

PILED = 4
"""Minimum runs of a hook for each call of its module: some modules have two or three."""

_members = among(("numpy/lib/_npyio_impl.py:NpzFile.__getitem__",
                  "numpy/lib/npyio.py:NpzFile.__getitem__"))  # fmt: skip
_archives = among(("numpy/lib/_npyio_impl.py:NpzFile.__init__",
                   "numpy/lib/npyio.py:NpzFile.__init__"))  # fmt: skip
_workers = among(("torch/utils/data/dataloader.py:_MultiProcessingDataLoaderIter.__init__",))
_ends_workers = among(
    ("torch/utils/data/dataloader.py:_MultiProcessingDataLoaderIter._shutdown_workers",)
)


_MODULE = "torch/nn/modules/module.py:Module."
_REGISTERING = {
    "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
}  # fmt: skip
_registers = among(f"{_MODULE}{name}" for name in sorted(_REGISTERING))
_removes = among(("torch/utils/hooks.py:RemovableHandle.remove",))


def find(trial: Trial) -> Iterator[Finding]:
    yield from _cached(trial)
    yield from _unchanged(trial)
    yield from _read_again(trial)
    yield from _started_again(trial)
    yield from _registered_again(trial)
    yield from made_again(trial)
    yield from _own_results(trial)
    yield from _subproblems(trial)
    yield from _arguments_again(trial)


# --- caches ----------------------------------------------------------------------


def _cached(trial: Trial) -> Iterator[Finding]:
    """Caches of `functools.lru_cache` with a limit that are hardly ever hit."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.worked_ns):
        if not trial.is_own(timer):
            continue
        function = source.function(trial, timer)
        limit = _limit(function) if function else None
        if function is None or limit is None:
            continue
        rows = calls.rows_of(timer)
        longest = max(calls.by_thread(rows).values(), key=lambda sums: sums.ns)
        queried = _asked(trial, timer, rows, function.name)
        if (
            longest.calls < max(LEAST_CALLS, 2 * limit)
            or queried is None
            or calls.entries(timer) < MISSES * queried
        ):
            continue
        runs = count(int(calls.entries(timer)))
        yield again(
            trial, "cache hardly hit", timer,
            f"{place(timer)} has a cache for {count(limit)} results that is hardly ever hit: the "
            f"routine runs {runs} times for {count(int(queried))} requests (cache misses), "
            f"{duration(longest.ns)}, {percent(100 * longest.ns / trial.wall_ns)} % of the run",
            longest.ns,
            f"raise maxsize ({limit}) above the number of different arguments, if they come "
            "again: results are evicted before that (cache_info() counts hits)",
            "the arguments never come again",
            "medium",
        )  # fmt: skip


def _limit(function: Function) -> int | None:
    """The limit of the routine's cache; None if it has none."""
    for decorator in function.decorator_list:
        built = decorator.func if isinstance(decorator, ast.Call) else decorator
        if name(built).split(".")[-1] != "lru_cache":
            continue
        if not isinstance(decorator, ast.Call):
            return 128
        given = [*decorator.args, *(word.value for word in decorator.keywords
                                    if word.arg == "maxsize")]  # fmt: skip
        value = given[0] if given else ast.Constant(128)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            return value.value
    return None


def _asked(trial: Trial, timer: TimerRow, rows: list[int], called_as: str) -> float | None:
    """How often its callers have asked for a result, if each call of them asks once."""
    calls = trial.calls
    callers = {calls.timer[calls.parent[row]] for row in rows if calls.parent[row] >= 0}
    queried = 0.0
    for caller in callers:
        function = source.function(trial, caller) if trial.is_own(caller) else None
        tree = hot_lines.tree(trial, caller)
        if function is None or tree is None or caller == timer:
            return None
        sites = [part for part in ast.walk(function)
                 if isinstance(part, ast.Call) and called(part) == called_as]  # fmt: skip
        if not sites or any(tree.repeats(site) is not None for site in sites):
            return None
        queried += calls.entries(caller) * len(sites)
    return queried or None


# --- loops -----------------------------------------------------------------------

_COPYING = frozenset({"set", "sorted", "Counter"})
"""Functions whose result may be changed by who has it, and so has to be made each time."""

_PURE = _COPYING | frozenset(
    {"frozenset", "tuple", "sum", "min", "max", "compile", "loads",
     "read_csv", "read_json", "read_parquet", "read_excel", "read_text", "inv", "pinv", "svd",
     "eigh", "eig", "cholesky", "det", "matrix_rank", "norm", "lu_factor", "cho_factor", "qr",
     "unique", "argsort", "cumsum", "corrcoef", "cov", "median", "quantile", "percentile"}
)  # fmt: skip
"""Functions whose result depends on nothing but what they are given."""

_FACTORING = frozenset({"solve", "lstsq", "inv", "cholesky", "eigh", "svd", "pinv", "spsolve"})
"""Functions that decompose the matrix that is their first argument."""


def _unchanged(trial: Trial) -> Iterator[Finding]:
    for hot in hot_lines.hot_lines(trial, LEAST):
        tree = hot_lines.tree(trial, hot.timer)
        for part in hot_lines.parts(hot, tree) if tree else ():
            if tree is None or not isinstance(part.node, ast.Call):
                continue
            if part.ns * hot.sure_ns / hot.ns < LEAST * trial.worked_ns:
                continue
            finding = _in_loop(trial, hot, tree, part.node, part.ns) or _factored(
                trial, hot, tree, part.node, part.ns
            )
            if finding is not None:
                yield finding


def _given(call: ast.Call) -> set[str]:
    values = [*call.args, *(word.value for word in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        values.append(call.func.value)
    return {name(part) for value in values for part in ast.walk(value)
            if isinstance(part, ast.Name | ast.Attribute)} - {""}  # fmt: skip


_READING = _PURE | {
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


_VIEWS = frozenset(
    {"asarray", "asanyarray", "ravel", "reshape", "squeeze", "transpose", "diagonal", "as_tensor",
     "from_numpy", "broadcast_to", "frombuffer", "memoryview", "atleast_1d", "atleast_2d"}
)  # fmt: skip
_FILLING = frozenset({"copyto", "fill_diagonal", "at", "put", "place", "putmask"})


def _root(node: ast.AST) -> str:
    return name(node).split(".")[0]


def _of_same(tree: Tree, node: ast.AST, roots: set[str]) -> set[str]:
    """These variables, and others through which the same objects may be changed: `weights` and
    `optimizer`, if both were made of `model`."""
    hit = set(roots)
    pairs: list[tuple[set[str], set[str]]] = []
    for where in {tree.module, tree.function(node)}:
        inside = where.body if isinstance(where, ast.Module) else [*ast.walk(where)]
        for part in inside:
            if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                shared = _shared(tree, part.value)
                pairs.append(
                    ({single for target in targets for single in source.names(target)}, shared)
                )
            elif isinstance(part, ast.For):
                pairs.append((source.names(part.target), _shared(tree, part.iter)))
    grown = True
    while grown:
        before = len(hit)
        for left, right in pairs:
            if (left | right) & hit and right:
                hit |= left | right
        grown = len(hit) > before
    return hit


def _shared(tree: Tree, value: ast.expr) -> set[str]:
    """The variables whose objects a value may share."""
    if isinstance(value, ast.Name | ast.Attribute):
        return {_root(value)} - {""}
    if isinstance(value, ast.Subscript | ast.Starred):
        return _shared(tree, value.value)
    if isinstance(value, ast.Tuple | ast.List):
        return {single for part in value.elts for single in _shared(tree, part)}
    if not isinstance(value, ast.Call) or called(value) in _READING:
        return set()
    of = _root(value.func)
    is_made = isinstance(value.func, ast.Name) or of in _imported(tree.module)
    if is_made and called(value) not in _VIEWS and not called(value)[:1].isupper():
        return set()
    given = [*value.args, *(word.value for word in value.keywords)]
    roots = {single for part in given for single in _shared(tree, part)}
    return roots | (set() if is_made or not of else {of})


def _imported(module: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).split(".")[0]
        for part in ast.walk(module) if isinstance(part, ast.Import | ast.ImportFrom)
        for alias in part.names
    }  # fmt: skip


def _changed_elsewhere(tree: Tree, repeats: ast.AST) -> set[str]:
    """Variables of the file that functions which a loop calls may change."""
    called_there = {called(part) for part in ast.walk(repeats) if isinstance(part, ast.Call)}
    return {
        single.split(".")[0]
        for part in ast.walk(tree.module)
        if isinstance(part, Function) and part.name in called_there
        for single in changed(part)
    }


def _rebound(repeats: ast.AST) -> set[str]:
    """Variables that a loop only sets to other objects, which changes none."""
    parts = [*ast.walk(repeats)]
    others = {
        _root(part.target) for part in parts if isinstance(part, ast.AugAssign)
    } | {
        _root(part.value) for part in parts
        if isinstance(part, ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store)
    } | _handed(repeats)  # fmt: skip
    return {part.id for part in parts
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)} - others  # fmt: skip


_KEEPING = frozenset({"append", "appendleft", "add", "insert", "extend", "update", "put"})
"""Methods of containers, which change nothing of what they are given."""


def _perhaps_changed(repeats: ast.AST) -> set[str]:
    """Variables that a loop changes, or hands to a function that may."""
    return {single.split(".")[0] for single in changed(repeats)} | _handed(repeats)


def _handed(repeats: ast.AST) -> set[str]:
    roots: set[str] = set()
    for part in ast.walk(repeats):
        if isinstance(part, ast.Call) and called(part) not in _READING:
            kept = called(part) in _KEEPING
            for given in () if kept else (*part.args, *(word.value for word in part.keywords)):
                roots.add(_root(given))
            if isinstance(part.func, ast.Attribute):
                roots.add(_root(part.func.value))
    return roots


def is_unchanged(tree: Tree, call: ast.Call) -> bool:
    """Whether a loop computes it again of what does not change in the loop."""
    repeats = tree.repeats(call)
    values = [*call.args, *(word.value for word in call.keywords)]
    if repeats is None or called(call) not in _PURE or not values:
        return False
    if any(isinstance(part, ast.Call | ast.Await | ast.Yield)
           for value in values for part in ast.walk(value)):  # fmt: skip
        return False
    if called(call) in _COPYING and not isinstance(
        next(tree.above(call)), ast.Subscript | ast.Compare
    ):
        return False
    return _keeps_its_value(tree, call, {single.split(".")[0] for single in _given(call)}, repeats)


def _keeps_its_value(tree: Tree, call: ast.expr, roots: set[str], repeats: ast.AST) -> bool:
    """Whether nothing in a loop changes what an expression is computed of: these variables."""
    function = tree.function(call)
    local = {part.id for part in ast.walk(function)
             if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip
    if isinstance(function, Function):
        local |= {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    if not isinstance(function, Function):
        local = set()
    same = _of_same(tree, call, roots)
    return not (
        roots & _perhaps_changed(repeats)
        or same & (_perhaps_changed(repeats) - _rebound(repeats))
        or (same - local) & _changed_elsewhere(tree, repeats)
    )


def _own_results(trial: Trial) -> Iterator[Finding]:
    """A routine or property of the program that only computes, and is asked again in each iteration
    of a loop in which nothing changes what it is computed of."""
    calls = trial.calls
    for timer in calls.lasting(2 * LEAST * trial.worked_ns):
        function = source.function(trial, timer) if trial.is_own(timer) else None
        if function is None or not _only_computes(function) or _differ(trial, timer):
            continue
        for caller, sums in trial.by_place(calls.rows_of(timer)):
            tree = hot_lines.tree(trial, caller) if caller is not None else None
            if (
                caller is None or tree is None or caller == timer
                or sums.calls < LEAST_CALLS or sums.ns < 2 * LEAST * trial.worked_ns
                or calls.entries(caller) * LEAST_OFTEN > sums.calls
            ):  # fmt: skip
                continue
            repeated = _asked_in_loop(trial, tree, caller, function)
            if repeated is None:
                continue
            yield again(
                trial, "in each iteration", timer,
                f"{hot_lines.at_line(caller, repeated.lineno)} computes `{short(repeated)}` again "
                f"in each iteration, of what does not change in the loop: {timer.short_name} runs "
                f"{count(sums.calls)} times, {duration(sums.ns)}, "
                f"{percent(100 * sums.ns / trial.wall_ns)} % of the run",
                sums.ns, "compute it once before the loop",
                "something else changes what it is computed of", "medium",
            )  # fmt: skip


CACHE = "keep its results: @functools.lru_cache(maxsize=None)"

LEAST_AGAIN = 10_000
"""Minimum calls of a routine that calls itself with arguments that come again."""


def _subproblems(trial: Trial) -> Iterator[Finding]:
    """A routine that calls itself twice or more with smaller numbers or shorter sequences, in
    different ways, so that the same are reached in many ways: `ways(n - 1) + ways(n - 2)`. That
    its calls branch is measured."""
    calls = trial.calls
    for timer in calls.lasting(2 * LEAST * trial.worked_ns):
        function = source.function(trial, timer) if trial.is_own(timer) else None
        if (
            function is None
            or calls.entries(timer) < LEAST_AGAIN
            or not _only_computes(function, {function.name})
            or _differ(trial, timer)
        ):
            continue
        inside = [part for part in ast.walk(function)
                  if isinstance(part, ast.Call) and name(part.func) == function.name]  # fmt: skip
        if (shared := _of_stored(trial, timer, function)) is not None:
            yield shared
            continue
        if len({ast.dump(part) for part in inside}) < 2 or not all(map(_counts_down, inside)):
            continue
        longest = calls.longest(timer.__eq__)
        if longest.ns < 2 * LEAST * trial.worked_ns or not _branches(trial, timer):
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


def _differ(trial: Trial, timer: TimerRow) -> bool:
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
    for timer in calls.lasting(2 * LEAST * trial.worked_ns):
        seen = trial.arguments.get(timer)
        function = source.function(trial, timer) if trial.is_own(timer) else None
        tree = hot_lines.tree(trial, timer)
        if (
            seen is None or not seen.come_again or function is None or tree is None
            or calls.entries(timer) < LEAST_CALLS or function.name in source.calls(function)
            or function.name not in _computing(tree.module)
        ):  # fmt: skip
            continue
        longest = max(calls.of_timer(timer).values(), key=lambda sums: sums.ns)
        if longest.ns < 2 * LEAST * trial.worked_ns:
            continue
        yield again(
            trial, "the same arguments", timer,
            f"{hottest(trial, timer)} computes the same again (no cache): {seen.clause}, "
            f"{count(int(calls.entries(timer)))} calls in all, {duration(longest.ns)}, "
            f"{percent(100 * longest.ns / trial.wall_ns)} % of the run",
            longest.ns * (1 - seen.different / seen.compared), CACHE,
            "what else it reads changes between the calls", "medium",
        )  # fmt: skip


@lru_cache(maxsize=64)
def _computing(module: ast.Module) -> set[str]:
    """Functions at the top of a file whose results depend on their arguments only: they compute,
    call none but each other, and read nothing of the file that changes."""
    functions = {part.name: part for part in module.body if isinstance(part, ast.FunctionDef)}
    fixed = functions.keys() - changed(module)
    varying = _varying(module)
    while True:
        computing = {
            name for name in fixed
            if _only_computes(functions[name], fixed) and not _read(functions[name]) & varying
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
    outside = sum(calls.calls[row] for row in calls.outermost(timer.__eq__))
    if not room or entries < room * max(LEAST_TIMES_EACH, outside):
        return None
    sites = [
        part for part in ast.walk(function)
        if isinstance(part, ast.Call) and called(part) == function.name
        and _is_for_stored(function, part)
    ]  # fmt: skip
    longest = calls.longest(timer.__eq__)
    if not sites or longest.ns < 2 * LEAST * trial.worked_ns:
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
    tops = calls.outermost(timer.__eq__)
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


def _only_computes(function: Function, also: set[str] | None = None) -> bool:
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
            called(part) in (_READING | _OF_NUMBERS | (also or set())) - {"print"}
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


def _asked_in_loop(
    trial: Trial, tree: Tree, caller: TimerRow, function: Function
) -> ast.expr | None:
    """Where a routine asks for the result in a loop that changes nothing of it."""
    where = source.function(trial, caller) or source.module(trial, caller)
    is_property = any(
        "property" in source.names(decorator) for decorator in function.decorator_list
    )
    sites: list[ast.expr] = [
        part for part in ast.walk(where or ast.Module([], []))
        if (is_property and isinstance(part, ast.Attribute) and part.attr == function.name)
        or (not is_property and isinstance(part, ast.Call) and called(part) == function.name)
    ]  # fmt: skip
    if len(sites) != 1:
        return None
    (site,) = sites
    repeats = tree.repeats(site)
    if repeats is None or isinstance(repeats, ast.While):
        return None
    parts = [part for part in ast.walk(site) if isinstance(part, ast.Call) and part is not site]
    if parts:
        return None
    roots = {_root(site)}
    if isinstance(site, ast.Call):
        roots = {single.split(".")[0] for single in _given(site)}
    targets = {
        part.id for part in ast.walk(repeats)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    }  # fmt: skip
    if not roots - {""} or roots & targets or not _keeps_its_value(tree, site, roots, repeats):
        return None
    return site


LEAST_OFTEN = 10
"""Minimum requests of a result by each call of the routine that has the loop."""


def _in_loop(trial: Trial, hot: Hot, tree: Tree, call: ast.Call, ns: int) -> Finding | None:
    if not is_unchanged(tree, call):
        return None
    return again(
        trial, "in each iteration", hot.timer,
        f"{hot.place} computes `{short(call)}` in each iteration, of what does not change in the "
        f"loop: {share(trial, ns)}",
        hot_lines.bound(trial, hot, ns), "compute it once before the loop",
        "something else changes what it is given", "medium",
    )  # fmt: skip


def _factored(
    trial: Trial, hot: Hot, tree: Tree, call: ast.Call, ns: int
) -> Finding | None:  # fmt: skip
    """A system of equations that is solved with the same matrix each time."""
    if called(call) not in _FACTORING or not call.args:
        return None
    matrix = name(call.args[0])
    repeats = tree.repeats(call)
    entries = trial.calls.entries(hot.timer)
    if not matrix or _is_filled(tree, call, matrix):
        return None
    if matrix.startswith("self."):
        setters = {
            part.name for part in ast.walk(tree.module)
            if isinstance(part, Function) and matrix in changed(part)
        }  # fmt: skip
        if not setters <= {"__init__"} or (entries < 10 and repeats is None):
            return None
    elif (
        repeats is None
        or matrix in changed(repeats)
        or _of_same(tree, call, {matrix}) & (changed(repeats) - _rebound(repeats))
    ):
        return None
    times = f" in {count(int(entries))} calls" if entries > 1 else ""
    return again(
        trial, "same matrix factored", hot.timer,
        f"{hot.place} factors the same matrix, `{matrix}`, each time: {share(trial, ns)}{times}",
        hot_lines.bound(trial, hot, ns),
        "factor it once (lu_factor, cho_factor), and solve with the factors: lu_solve",
        "the matrix is changed in place elsewhere",
    )  # fmt: skip


def _is_filled(tree: Tree, call: ast.Call, matrix: str) -> bool:
    """Whether something that may run between two calls is given a matrix, or another name of it,
    and may fill it."""
    defined = {part.name for part in ast.walk(tree.module) if isinstance(part, Function)}
    of_self = matrix.startswith("self.")
    for function in (
        [part for part in ast.walk(tree.module)
         if isinstance(part, Function) and part.name != "__init__"]
        if of_self
        else [tree.repeats(call) or tree.module]
    ):  # fmt: skip
        names_of = {matrix} | {
            name(target)
            for part in ast.walk(function)
            if isinstance(part, ast.Assign) and name(part.value) == matrix
            for target in part.targets
        }
        if of_self and names_of & changed(function):
            return True
        for part in ast.walk(function):
            if not isinstance(part, ast.Call) or part is call:
                continue
            if any(word.arg == "out" and name(word.value) in names_of for word in part.keywords):
                return True
            if called(part) in defined | _FILLING and names_of & {
                name(single) for single in part.args
            }:
                return True
    return False


# --- files and workers -----------------------------------------------------------


def _read_again(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    reads = calls.longest(_members)
    if reads.ns < LEAST * trial.worked_ns or reads.calls < LEAST_CALLS:
        return
    opened = sum(calls.calls[row] for row in calls.rows(_archives))
    if reads.calls < 10 * max(opened, 1):
        return
    (timer, _), *_ = trial.by_place(reads.rows)
    yield again(
        trial, "archive read again", timer,
        f"{hot_lines.hottest(trial, timer)} reads and decompresses members of .npz archives "
        f"{count(reads.calls)} times, though only {count(int(opened))} were opened: "
        f"{duration(reads.ns)}, {percent(100 * reads.ns / trial.wall_ns)} % of the run",
        reads.ns,
        "take the arrays out of an archive once, and keep them: {name: packed[name] for name in "
        "packed.files}",
        "they do not fit into memory",
    )  # fmt: skip


def _started_again(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls

    def starts_or_ends(timer: TimerRow) -> bool:
        return _workers(timer) or _ends_workers(timer)

    spent = calls.longest(starts_or_ends)
    started = calls.longest(_workers)
    if started.calls < 3 or spent.ns < LEAST * trial.worked_ns:
        return
    (timer, _), *_ = trial.by_place(started.rows)
    yield again(
        trial, "workers restarted", timer,
        f"{hot_lines.hottest(trial, timer)} starts the worker processes of a DataLoader "
        f"{count(started.calls)} times: "
        f"{duration(spent.ns)}, {percent(100 * spent.ns / trial.wall_ns)} % of the run in starting "
        "and ending them",
        spent.ns,
        "DataLoader(..., persistent_workers=True)",
        "each start needs another data set",
    )  # fmt: skip


def _registered_again(trial: Trial) -> Iterator[Finding]:
    """Hooks of PyTorch's modules that pile up, so that each call of a module runs more of them."""
    calls = trial.calls
    registered = calls.longest(_registers)
    if registered.calls < 3 or calls.rows(_removes):
        return
    (timer, _), *_ = trial.by_place(registered.rows)
    inside = source.function(trial, timer) if timer else None
    if timer is None or inside is None:
        return
    named = {part.name for part in ast.walk(source.tree(trial.source(timer) or ""))
             if isinstance(part, Function)}  # fmt: skip
    run = [row for row, above in enumerate(calls.parent)
           if above >= 0 and not trial.is_own(calls.timer[above])
           and _last(calls.timer[row]) in named - {"forward", "__call__"}
           and trial.is_own(calls.timer[row])]  # fmt: skip
    by_hook: dict[TimerRow, list[int]] = {}
    for row in run:
        by_hook.setdefault(calls.timer[row], []).append(row)
    for hook, rows in by_hook.items():
        spent = max(calls.by_thread(rows).values(), default=Sum())
        modules = sum(calls.calls[above] for above in {calls.parent[row] for row in spent.rows})
        if (
            spent.ns < LEAST * trial.worked_ns
            or spent.calls < LEAST_CALLS
            or spent.calls < PILED * modules
        ):
            continue
        yield again(
            trial, "hooks pile up", hook,
            f"{hot_lines.line_of_call(trial, timer, _REGISTERING)} registers hooks "
            f"{count(registered.calls)} times, none of which is removed, so that they pile up: "
            f"{hook.short_name} runs {count(spent.calls)} times, {duration(spent.ns)}, "
            f"{percent(100 * spent.ns / trial.wall_ns)} % of the run",
            spent.ns,
            "remove a hook when it is no longer needed: handle.remove()",
            "each module is registered once",
        )  # fmt: skip


def _last(timer: TimerRow) -> str:
    return timer.short_name.split(".")[-1]
