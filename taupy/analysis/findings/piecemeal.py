"""Rule: what could be done for many at once is done one by one, so that the way there takes the
time: starting a process, calling a library, making an object of each element.

How often and how long it is done is measured; that it is done one by one is read from the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.each_item import each_item, round_trip
from taupy.analysis.findings.hot_lines import Hot, Tree, changed, name, share, short
from taupy.analysis.findings.one_by_one import ONE_BY_ONE, one_by_one
from taupy.analysis.findings.source import Function, called, names
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = ONE_BY_ONE
NEEDS = ("host",)

LEAST = 0.15
"""Minimum share of the time outside imports."""

LEAST_PROCESSES, LONGEST_PROCESS_NS = 50, 100_000_000
"""Minimum processes that a routine starts, and the longest mean time of each: a process that takes
longer does more than start."""

LEAST_COPIES = 100
LEAST_COPIED = 0.1
"""Minimum share of the time outside imports in deep copies, which is exact."""

LEAST_ROWS = 50
FEW_BYTES = 8
LEAST_ELEMENTS = 0.2
"""Minimum share of the time outside imports in statements with elements of arrays."""

_starts = among(("subprocess.py:run", "subprocess.py:check_output", "subprocess.py:check_call",
                 "subprocess.py:call", "subprocess.py:getoutput",
                 "subprocess.py:Popen.__init__"))  # fmt: skip
_copies = among(("copy.py:deepcopy",))
_masks = among(("pandas/core/frame.py:DataFrame.__getitem__",
                "pandas/core/series.py:Series.__getitem__"))  # fmt: skip


def find(trial: Trial) -> Iterator[Finding]:
    yield from _processes(trial)
    yield from _deep_copies(trial)
    yield from _filtered(trial)
    for hot in hot_lines.hot_lines(trial, LEAST):
        tree = hot_lines.tree(trial, hot.timer)
        if tree is not None:
            yield from _bytes(trial, hot, tree)
            yield from _round_trips(trial, hot, tree)
    yield from _rows(trial)
    yield from _elements(trial)
    yield from each_item(trial)


def _of_run(trial: Trial, ns: float) -> str:
    return f"{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run"


# --- processes and copies --------------------------------------------------------


def _processes(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer, sums in trial.by_place(calls.outermost(_starts)):
        entry = sums.ns / max(sums.calls, 1)
        if (
            sums.calls < LEAST_PROCESSES
            or sums.ns < LEAST * trial.worked_ns
            or entry > LONGEST_PROCESS_NS
        ):
            continue
        named = {calls.timer[row].short_name.split(".")[0] for row in sums.rows}
        yield one_by_one(
            trial, "a process per item", timer,
            f"{hot_lines.line_of_call(trial, timer, named)} starts a process for each of "
            f"{count(sums.calls)} items (subprocess), {duration(entry)} each, which is mostly "
            f"start-up: {_of_run(trial, sums.ns)}",
            sums.ns, "give one process all items (a batch), or do it in Python",
            "the processes compute for as long as they run",
        )  # fmt: skip


def _deep_copies(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer, sums in trial.by_place(calls.outermost(_copies)):
        if sums.calls < LEAST_COPIES or sums.ns < LEAST_COPIED * trial.worked_ns:
            continue
        yield one_by_one(
            trial, "deep copies", timer,
            f"{hot_lines.line_of_call(trial, timer, {'deepcopy'})} makes a deep copy "
            f"{count(sums.calls)} times, copying every object within: {_of_run(trial, sums.ns)}",
            sums.ns,
            "copy only what will be changed, such as lists with list(...), and share the rest",
            "all that is copied is changed afterwards",
        )  # fmt: skip


def _round_trips(trial: Trial, hot: Hot, tree: Tree) -> Iterator[Finding]:
    """Deep copies by way of text."""
    part = next((part.node for part in hot_lines.parts(hot, tree)), None)
    copy = round_trip(tree.statement(part)) if part is not None else None
    entries = trial.calls.entries(hot.timer)
    if part is None or copy is None or (tree.repeats(part) is None and entries < LEAST_COPIES):
        return
    inner = copy.args[0]
    assert isinstance(inner, ast.Call)
    times = f" in {count(int(entries))} calls" if entries > 1 else ""
    yield one_by_one(
        trial, "deep copies", hot.timer,
        f"{hot.place} makes a deep copy by way of text, {short(copy.func)}({short(inner.func)}()), "
        f"copying every object within: {share(trial, hot.ns)}{times}",
        hot_lines.bound(trial, hot),
        "copy only what will be changed, such as lists with list(...), and share the rest",
        "all that is copied is changed afterwards",
    )  # fmt: skip


# --- tables ----------------------------------------------------------------------


def _filtered(trial: Trial) -> Iterator[Finding]:
    """A table that is searched for each key: `table[table["key"] == key]`."""
    calls = trial.calls
    for timer, sums in trial.by_place(calls.outermost(_masks)):
        tree = hot_lines.tree(trial, timer) if timer is not None else None
        if timer is None or tree is None or sums.calls < LEAST_COPIES:
            continue
        whole = sum(calls.inclusive[row] for row in calls.rows_of(timer))
        if whole < LEAST * trial.worked_ns:
            continue
        hot = [line for line in hot_lines.hot_lines(trial, LEAST) if line.timer == timer]
        for line in hot:
            masks = [
                part for part in ast.walk(tree.module)
                if isinstance(part, ast.Subscript) and part.lineno <= line.line
                <= (part.end_lineno or 0) and _is_mask(tree, part)
            ]  # fmt: skip
            if not masks:
                continue
            yield one_by_one(
                trial, "a filter per key", timer,
                f"{line.place} goes through all rows of `{short(masks[0].value)}` for each key: "
                f"{share(trial, line.ns)}",
                hot_lines.bound(trial, line),
                "group the table once: for key, rows in table.groupby(column)",
                "the table changes between keys",
            )  # fmt: skip
            break


def _is_mask(tree: Tree, node: ast.Subscript) -> bool:
    """Whether it selects the rows in which a column is equal to a key of a loop."""
    base, test = name(node.value), node.slice
    if not base or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    column, key = test.left, test.comparators[0]
    of_base = any(name(part) == base for part in ast.walk(column))
    repeats = tree.repeats(node)
    keys: set[str] = set()
    if isinstance(repeats, ast.For):
        keys = names(repeats.target)
    elif isinstance(repeats, hot_lines.Comprehension):
        keys = {single for part in repeats.generators for single in names(part.target)}
    function = tree.function(node)
    if repeats is None and isinstance(function, Function):
        keys = {argument.arg for argument in function.args.args}
    return of_base and bool(names(key) & keys)


# --- calls -----------------------------------------------------------------------


def _bytes(trial: Trial, hot: Hot, tree: Tree) -> Iterator[Finding]:
    """Reads of a few bytes."""
    for part in ast.walk(tree.module):
        if not (isinstance(part, ast.Call) and part.lineno <= hot.line <= (part.end_lineno or 0)):
            continue
        first = part.args[0] if part.args else None
        if (
            called(part) in ("read", "recv", "readexactly", "read1")
            and isinstance(first, ast.Constant)
            and type(first.value) is int
            and 0 < first.value <= FEW_BYTES
            and (repeats := tree.repeats(part)) is not None
            and not _reads_records(repeats)
            and (ns := hot.ready_ns) * hot.sure_ns >= LEAST * trial.worked_ns * hot.ns
        ):
            often = _calls_of(trial, hot, called(part))
            times = f", {count(often.calls)} times" if often.calls else ""
            size = "one byte" if first.value == 1 else f"{first.value} bytes"
            yield one_by_one(
                trial, "few bytes per read", hot.timer,
                f"{hot.place} reads {size} at a time{times}, and each call costs more than the "
                f"byte: {share(trial, ns)}",
                hot_lines.bound(trial, hot),
                "read a line, a record or a block: readline(), readuntil(), read(65536)",
                "the other side sends single bytes",
            )  # fmt: skip
            return


def _reads_records(repeats: ast.AST) -> bool:
    """Whether a loop also reads as many bytes as it is told: the few before are a header."""
    return any(
        isinstance(part, ast.Call)
        and called(part) not in ("unpack", "from_bytes", "print", "append")
        and any(not isinstance(given, ast.Constant) for given in part.args)
        and ("read" in called(part) or "recv" in called(part) or "exactly" in called(part))
        for part in ast.walk(repeats)
    )


def _calls_of(trial: Trial, hot: Hot, called_as: str) -> Sum:
    """The library's routines of this name that the hot line's routine calls."""
    calls = trial.calls
    rows = [
        child for row in calls.rows_of(hot.timer) if calls.thread[row] == hot.thread
        for child in calls.children(row)
        if calls.timer[child].short_name.split(".")[-1] == called_as
    ]  # fmt: skip
    return max(calls.by_thread(rows).values(), default=Sum())


_LEARNING = frozenset(
    {"partial_fit", "fit", "update", "step", "learn", "train", "push", "feed", "add", "append",
     "send", "write", "put"}
)  # fmt: skip
"""Functions that keep something of each row, or hand it on."""


def _rows(trial: Trial) -> Iterator[Finding]:
    """A call for each row of what a call takes as a whole: `score(rows[k:k + 1])`."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.worked_ns):
        tree = hot_lines.tree(trial, timer) if trial.is_own(timer) else None
        function = source.function(trial, timer) if tree is not None else None
        if tree is None or function is None:
            continue
        rows = calls.rows_of(timer)
        for call in [part for part in ast.walk(function) if isinstance(part, ast.Call)]:
            repeats = tree.repeats(call)
            if not isinstance(repeats, ast.For) or called(call) in _LEARNING:
                continue
            targets = names(repeats.target)
            if {single for given in call.args for single in names(given)} & (
                changed(repeats) - targets
            ):
                continue
            taken = [row for given in call.args if (row := _single_row(given, targets))]
            done = max(
                calls.by_thread(
                    child
                    for row in rows
                    for child in calls.children(row)
                    if calls.timer[child].short_name.split(".")[-1] == called(call)
                ).values(),
                default=Sum(),
            )
            if not taken or done.calls < LEAST_ROWS or done.ns < LEAST * trial.worked_ns:
                continue
            if any(_keeps(trial, single) for single in {calls.timer[row] for row in done.rows}):
                continue
            yield one_by_one(
                trial, "one row per call", timer,
                f"{hot_lines.at_line(timer, call.lineno)} calls {short(call.func)}() for each row "
                f"of `{taken[0]}`, one row at a time, {count(done.calls)} times: "
                f"{_of_run(trial, done.ns)}",
                done.ns,
                "call it once for all rows, as a batch",
                "what is called needs the result of the row before",
            )  # fmt: skip
            break


def _keeps(trial: Trial, timer: TimerRow) -> bool:
    """Whether a routine of the program changes what outlives its call."""
    inside = source.function(trial, timer) if trial.is_own(timer) else None
    return inside is not None and (
        any(single.startswith("self.") for single in changed(inside))
        or any(isinstance(part, ast.Global | ast.Nonlocal) for part in ast.walk(inside))
    )


def _single_row(node: ast.expr, targets: set[str]) -> str | None:
    """`rows` of `rows[k:k + 1]`, `rows[k].reshape(1, -1)` or `rows[k][None]`."""
    if (
        isinstance(node, ast.Call)
        and called(node) == "reshape"
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node).endswith(".reshape(1, -1)")
    ):
        base = node.func.value
        if isinstance(base, ast.Subscript) and names(base.slice) & targets:
            return short(base.value)
        return short(base) if names(base) & targets else None
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return None
    lower, upper = node.slice.lower, node.slice.upper
    if (
        isinstance(lower, ast.Name)
        and lower.id in targets
        and isinstance(upper, ast.BinOp)
        and isinstance(upper.op, ast.Add)
        and ast.unparse(upper) == f"{lower.id} + 1"
    ):
        return short(node.value)
    return None


# --- elements --------------------------------------------------------------------

_ARRAY_MODULES = frozenset({"np", "numpy", "torch", "jnp", "cp", "cupy"})
_DICTS = frozenset({"dict", "defaultdict", "Counter", "OrderedDict"})
_NEW = ("new_zeros", "new_empty", "new_full", "clone", "detach")


def _elements(trial: Trial) -> Iterator[Finding]:
    """Loops that take single elements from arrays, each of which becomes an object."""
    sums: dict[TimerRow, int] = {}
    lines: dict[TimerRow, Hot] = {}
    scatters: dict[TimerRow, bool] = {}
    for hot in hot_lines.hot_lines(trial, 0.02):
        tree = hot_lines.tree(trial, hot.timer)
        if tree is None:
            continue
        for part in hot_lines.parts(hot, tree):
            if isinstance(part.node, ast.Call):
                continue  # what a function does with elements is no access to them
            within = (part.node, *tree.above(part.node))
            statement = next(node for node in within if isinstance(node, ast.stmt))
            kinds = [
                kind
                for inner in ast.walk(statement)
                if isinstance(inner, ast.Subscript) and (kind := _element(tree, inner))
            ]
            if kinds:
                sums[hot.timer] = sums.get(hot.timer, 0) + part.ns
                lines.setdefault(hot.timer, hot)
                scatters[hot.timer] = scatters.get(hot.timer, False) or "scatter" in kinds
    for timer, ns in sums.items():
        if ns < LEAST_ELEMENTS * trial.worked_ns:
            continue
        hot = lines[timer]
        yield one_by_one(
            trial, "element by element", timer,
            f"{hot.place} works element by element on arrays, in a Python loop in which each "
            f"element becomes an object (scalar indexing): {share(trial, ns)}",
            hot_lines.bound(trial, hot, ns),
            "scatter all at once: index_add_ (PyTorch), np.add.at or np.bincount"
            if scatters[timer]
            else "work on whole arrays, or, where each element needs the one before, on lists: "
            "array.tolist()",
            "elements are whole rows",
        )  # fmt: skip


def _element(tree: Tree, node: ast.Subscript) -> str | None:
    """How it takes an element of an array by the counters of loops; None if it does not."""
    loops = [above for above in tree.above(node) if isinstance(above, ast.For)
             and isinstance(above.iter, ast.Call) and called(above.iter) == "range"]  # fmt: skip
    counters = {single for loop in loops for single in names(loop.target)}
    index = node.slice
    if any(isinstance(part, ast.Slice) for part in ast.walk(index)):
        return None
    used = names(index) & counters
    if not used or tree.repeats(node) is None or _last(node.value) in _dicts(tree.module):
        return None
    if isinstance(index, ast.Tuple):
        is_all = all(
            names(single) & counters or isinstance(single, ast.Constant) for single in index.elts
        )
        return "element" if is_all and len(index.elts) > 1 and _has_arrays(tree) else None
    stored = not isinstance(node.ctx, ast.Load)
    if stored and any(isinstance(part, ast.Subscript) for part in ast.walk(index)) and _is_array(
        tree, node
    ):  # fmt: skip
        return "scatter"
    return None


def _last(node: ast.expr) -> str:
    return name(node).split(".")[-1]


@lru_cache(maxsize=64)
def _dicts(module: ast.Module) -> frozenset[str]:
    """The last parts of names that stand for a dict somewhere in a file."""
    hit: set[str] = set()
    for part in ast.walk(module):
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            built = called(part.value) if isinstance(part.value, ast.Call) else ""
            if isinstance(part.value, ast.Dict | ast.DictComp) or built in _DICTS:
                hit |= {_last(target) for target in targets if isinstance(target, ast.expr)}
        elif (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Attribute)
            and part.func.attr in ("get", "items", "keys", "values", "setdefault")
        ):
            hit.add(_last(part.func.value))
        elif (
            isinstance(part, ast.Compare)
            and isinstance(part.ops[0], ast.In | ast.NotIn)
            and isinstance(part.left, ast.Tuple)
        ):
            hit.add(_last(part.comparators[0]))
    return frozenset(hit - {""})


def _has_arrays(tree: Tree) -> bool:
    return any(
        isinstance(part, ast.Import) and any(alias.name in ("numpy", "torch", "jax.numpy")
                                             for alias in part.names)
        for part in tree.module.body
    )  # fmt: skip


def _is_array(tree: Tree, node: ast.Subscript) -> bool:
    """Whether it is made by a function of NumPy or PyTorch in the same routine."""
    built = [
        part.value for part in ast.walk(tree.function(node))
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call)
        and any(name(target) == name(node.value) for target in part.targets)
    ]  # fmt: skip
    return bool(built) and all(
        name(value.func).split(".")[0] in _ARRAY_MODULES or called(value) in _NEW for value in built
    )
