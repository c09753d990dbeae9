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
from itertools import takewhile

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.computing import COPYING, PURE, READING, only_computes
from taupy.analysis.findings.hot_lines import Hot, Tree, changed, name, share, short
from taupy.analysis.findings.made_again import SAME_WORK, again, made_again
from taupy.analysis.findings.same_arguments import differ, same_arguments
from taupy.analysis.findings.source import Function, called
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import Either, among
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent, several

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
    yield from same_arguments(trial)


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
    """How often its callers have asked for a result, at most: once in each call, or in each turn of
    a loop of which another routine of the program counts the turns."""
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
        if not sites:
            return None
        for site in sites:
            loop = tree.repeats(site)
            number = calls.entries(caller) if loop is None else _turns(trial, caller, loop)
            if number is None:
                return None
            queried += number
    return queried or None


def _turns(trial: Trial, caller: TimerRow, loop: ast.AST) -> float | None:
    """How often a loop has gone round: as often as it has called a plain function of the program
    that it calls in each turn, and that its routine calls nowhere else. None if there is none."""
    calls, tree = trial.calls, hot_lines.tree(trial, caller)
    if tree is None or any(isinstance(part, _LEAVING) for part in ast.walk(loop)):
        return None
    below: dict[str, float] = {}
    for row in (child for top in calls.rows_of(caller) for child in calls.children(top)):
        timer = calls.timer[row]
        function = source.function(trial, timer) if trial.is_own(timer) else None
        if function and not function.decorator_list and not source.suspends(function):
            below[function.name] = below.get(function.name, 0.0) + calls.calls[row]
    sites = [part for part in ast.walk(tree.function(loop)) if isinstance(part, ast.Call)]
    often = Counter(map(called, sites))
    for site in sites:
        above = takewhile(lambda part: part is not loop, tree.above(site))
        if (
            called(site) in below
            and often[called(site)] == 1
            and tree.repeats(site) is loop
            and all(isinstance(part, _ALWAYS) for part in above)
        ):
            return below[called(site)]
    return None


_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Try, ast.With)
"""What may end a turn of a loop before its end."""
_ALWAYS = (ast.Assign, ast.AugAssign, ast.Expr, ast.Call, ast.BinOp, ast.keyword)
"""What evaluates all of its parts, once each."""


# --- loops -----------------------------------------------------------------------

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
    if not isinstance(value, ast.Call) or called(value) in READING:
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
        if isinstance(part, ast.Call) and called(part) not in READING:
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
    if repeats is None or called(call) not in PURE or not values:
        return False
    if any(isinstance(part, ast.Call | ast.Await | ast.Yield)
           for value in values for part in ast.walk(value)):  # fmt: skip
        return False
    if called(call) in COPYING and not isinstance(
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
        if function is None or not only_computes(function) or differ(trial, timer):
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
        f"{count(reads.calls)} times, but opens only {several(int(opened), 'archive')}: "
        f"{duration(reads.ns)}, {percent(100 * reads.ns / trial.wall_ns)} % of the run",
        reads.ns,
        "take the arrays out of an archive once, and keep them: {name: packed[name] for name in "
        "packed.files}",
        "they do not fit into memory",
    )  # fmt: skip


def _started_again(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    spent = calls.longest(Either((_workers, _ends_workers)))
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
