"""Functions of the program that a library calls for each element, row or group, and loops over a
table's rows.

What the calls show is which function, how often and how long. Whether whole columns would do is
read from the function's source: it may do arithmetic on numbers, which the operators of arrays do,
too, it may hand each element to a function that takes whole columns, or it may reduce a group by
what pandas does for all groups at once. Anything else, such as work
on text, is no finding: pandas' methods for text are loops, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import loops, source
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.hot_lines import Comprehension
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.dataclass import NamedTuple
from taupy.model.rows import ThreadRow, TimerRow
from taupy.units import count, duration

LEAST_CALLS = 1000
"""Minimum calls of a function that a library calls for each element, and minimum rows of a loop."""

MOST_WITHIN = 3
"""Maximum time of a function that takes a row of an array, as a multiple of what the library takes
to call it: a function that takes longer works on a long row, as a whole."""

_VECTORIZE = (
    "numpy/lib/_function_base_impl.py:vectorize.__call__",
    "numpy/lib/function_base.py:vectorize.__call__",
)
_ALONG_AXIS = (
    "numpy/lib/_shape_base_impl.py:apply_along_axis",
    "numpy/lib/shape_base.py:apply_along_axis",
)
_FRAME = ("pandas/core/frame.py:DataFrame.apply",)
_SERIES = ("pandas/core/series.py:Series.apply", "pandas/core/series.py:Series.map")
_ROWS = ("pandas/core/frame.py:DataFrame.iterrows",)

_GROUPS = (
    "pandas/core/groupby/groupby.py:GroupBy.apply",
    *(f"pandas/core/groupby/generic.py:{of}GroupBy.{method}" for of in ("Series", "DataFrame")
      for method in ("apply", "aggregate", "transform")),
)  # fmt: skip

_is_mapper = among((*_VECTORIZE, *_ALONG_AXIS, *_FRAME, *_SERIES))
_is_along_axis, _is_frame, _is_rows = among(_ALONG_AXIS), among(_FRAME), among(_ROWS)
_is_grouped = among(_GROUPS)

_BY_ROW = "FrameColumnApply."
"""Prefix of pandas' routines that apply a function to each row, not to each column."""

_OF_COLUMNS = frozenset({"to_datetime", "to_numeric", "to_timedelta"})
"""Functions of pandas that take an element or a whole column."""

LEAST_GROUPS, LONGEST_GROUP_NS = 200, 3_000_000
"""Minimum groups that a function is called for, and the longest mean CPU time of each: a call of
pandas takes some 0.1 ms however short the group is."""

_OF_GROUPS = frozenset(
    {"sum", "mean", "min", "max", "count", "size", "nunique", "std", "var", "median", "first",
     "last", "head", "tail", "nth", "nlargest", "nsmallest", "sort_values", "prod", "any", "all",
     "cumsum", "cumprod", "cummax", "cummin", "cumcount", "shift", "diff", "pct_change", "rank",
     "quantile", "idxmin", "idxmax", "ffill", "bfill", "len", "abs", "round", "float", "int"}
)  # fmt: skip
"""Functions and methods that pandas has for all groups at once, or that whole columns take."""

BY_GROUP = (
    "compute for all groups at once: sort the whole table, then groupby(...) with its own sum(), "
    "head(), transform('mean')"
)
ARITHMETIC = "compute with whole columns or arrays: NumPy's operators, np.where, np.bincount"
ALONG_AXIS = "compute with the whole array: NumPy's functions take an axis, as in sum(axis=1)"


class Mapped(NamedTuple):
    """A place that works on single elements, and the time of it."""

    timer: TimerRow
    ns: float
    sentence: str
    attempt: str


def mapped(trial: Trial) -> Iterator[Mapped]:
    """Functions that a library calls for each element, each with the time of the calls that do
    so."""
    calls = trial.calls
    pairs: dict[tuple[TimerRow, TimerRow], dict[ThreadRow, tuple[Sum, Sum]]] = {}
    for top in (*calls.outermost(_is_mapper), *calls.outermost(_is_grouped)):
        thread = calls.thread[top]
        for function, sums in _shares(trial, top).items():
            of_thread = pairs.setdefault((calls.timer[top], function), {})
            before = of_thread.get(thread, (Sum(), Sum()))
            of_thread[thread] = before[0].plus(sums[0]), before[1].plus(sums[1])
    for (mapper, function), of_threads in pairs.items():
        whole, within = max(of_threads.values(), key=lambda sums: sums[0].ns)
        if _is_grouped(mapper):
            attempt = _by_group(trial, function, whole, within)
        else:
            attempt = _attempt(trial, function, _is_along_axis(mapper))
            if within.calls < LEAST_CALLS or not _is_short(trial, whole, within):
                continue
        if not attempt:
            continue
        yield Mapped(
            function,
            whole.ns,
            f"{mapper.short_name} calls {place(function)} {count(within.calls)} times in "
            f"{duration(whole.ns)}, once for each {_piece(trial, whole)}",
            attempt,
        )


def _shares(trial: Trial, top: int) -> dict[TimerRow, tuple[Sum, Sum]]:
    """The functions that a library's routine calls, each with its share of the routine, whose own
    work is shared by calls, and with its calls."""
    calls = trial.calls
    given = _given(trial, top)
    beside = calls.inclusive[top] - sum(calls.inclusive[row] for row in given)
    entries = sum(calls.calls[row] for row in given)
    shares: dict[TimerRow, tuple[Sum, Sum]] = {}
    for timer in dict.fromkeys(calls.timer[row] for row in given):
        rows = [row for row in given if calls.timer[row] == timer]
        (within,) = calls.by_thread(rows).values()
        ns = within.ns + beside * within.calls / max(entries, 1)
        shares[timer] = Sum(ns, int(calls.calls[top]), (top,)), within
    return shares


def _given(trial: Trial, top: int) -> list[int]:
    """The outermost rows of the program below a library's routine."""
    calls = trial.calls
    given = []
    stack = calls.children(top)[:]
    while stack:
        row = stack.pop()
        if trial.is_own(calls.timer[row]):
            given.append(row)
        else:
            stack += calls.children(row)
    return given


def _piece(trial: Trial, mappers: Sum) -> str:
    timer = trial.calls.timer[mappers.rows[0]]
    if _is_grouped(timer):
        return "group"
    return "row" if _is_frame(timer) or _is_along_axis(timer) else "element"


def _is_short(trial: Trial, mappers: Sum, functions: Sum) -> bool:
    """Whether each call takes an element, or a row that is so short that calling takes the time."""
    calls = trial.calls
    timer = calls.timer[mappers.rows[0]]
    if _is_frame(timer) and not any(
        calls.timer[row].short_name.startswith(_BY_ROW)
        for top in mappers.rows
        for row in calls.below(top)
    ):
        return False
    rows = _is_frame(timer) or _is_along_axis(timer)
    return (
        not rows
        or functions.ns <= MOST_WITHIN * (mappers.ns - functions.ns)
        or _reads_fields(trial, calls.timer[functions.rows[0]])
    )


def _reads_fields(trial: Trial, timer: TimerRow) -> bool:
    """Whether a function uses its argument only for single fields: `row["price"]`."""
    functions = source.functions(trial, timer)
    for function in functions:
        given = {argument.arg for argument in function.args.args[:1]}
        fields = {
            id(part.value)
            for part in ast.walk(function)
            if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant)
        }
        fields |= {id(part.value) for part in ast.walk(function) if isinstance(part, ast.Attribute)}
        if any(isinstance(part, ast.Name) and part.id in given and id(part) not in fields
               for part in ast.walk(function)):  # fmt: skip
            return False
    return bool(functions)


def _attempt(trial: Trial, timer: TimerRow, of_rows: bool) -> str:
    """What was tried with functions such as this one; "" if nothing was.

    Args:
        of_rows: whether it takes a row of an array, which it may reduce to a number.
    """
    attempts = [
        _once(function)
        or (ARITHMETIC if loops.is_of_numbers(function) else "")
        or (ALONG_AXIS if of_rows and loops.is_of_numbers(function, loops.REDUCTIONS) else "")
        for function in source.functions(trial, timer)
    ]
    return attempts[0] if attempts and all(attempts) else ""


def _by_group(trial: Trial, timer: TimerRow, mappers: Sum, functions: Sum) -> str:
    """The advice for a function that reduces short groups by what pandas does for all at once."""
    running = 1 - (trial.runnable(trial.calls.thread[mappers.rows[0]]) or 0)
    defined = source.functions(trial, timer)
    is_short = running * mappers.ns <= LONGEST_GROUP_NS * functions.calls
    if functions.calls < LEAST_GROUPS or not is_short or not defined:
        return ""
    return BY_GROUP if all(map(_has_only_groups, defined)) else ""


def _has_only_groups(function: source.Function | ast.Lambda) -> bool:
    """Whether it does nothing with its group but calls that are there for all groups at once."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    parts = [part for inside in body for part in ast.walk(inside)]
    calls = [source.called(part) for part in parts if isinstance(part, ast.Call)]
    return (
        bool(calls) and set(calls) <= _OF_GROUPS
        and all(isinstance(part, ast.Return | ast.Assign | ast.Expr) for part in parts
                if isinstance(part, ast.stmt))
        and not any(isinstance(part, Comprehension | ast.Lambda) for part in parts)
    )  # fmt: skip


def _once(function: source.Function | ast.Lambda) -> str:
    """The advice for a function that hands its argument to one that takes whole columns."""
    given = {argument.arg for argument in function.args.args}
    called = [part for part in ast.walk(function) if isinstance(part, ast.Call)]
    if len(called) != 1 or not _takes_all(called[0], given):
        return ""
    return f"call {source.called(called[0])} once, with the whole column"


def _takes_all(call: ast.Call, given: set[str]) -> bool:
    first = call.args[0] if call.args else None
    return source.called(call) in _OF_COLUMNS and isinstance(first, ast.Name) and first.id in given


# --- rows ------------------------------------------------------------------------


def _is_for_rows(trial: Trial, timer: TimerRow, called: TimerRow) -> bool:
    """Whether a routine calls another one in a loop over rows: columns would do for both."""
    names = {called.short_name.split(".")[-1], called.short_name.split(".")[0]}
    return any(
        isinstance(part, ast.For)
        and "iterrows" in source.calls(part.iter)
        and not names.isdisjoint(source.calls(part))
        for part in ast.walk(source.tree(trial.source(timer) or ""))
    )


def by_row(trial: Trial) -> Iterator[Mapped]:
    """Loops over the rows of a data frame, each of which is converted to a series."""
    calls = trial.calls
    callers: dict[TimerRow, list[int]] = {}
    for row in calls.outermost(_is_rows):
        above = calls.parent[row]
        if above >= 0 and trial.is_own(calls.timer[above]):
            callers.setdefault(calls.timer[above], []).append(above)
    for timer, rows in callers.items():
        loop = max(calls.by_thread(dict.fromkeys(rows)).values())
        below = [child for row in loop.rows for child in calls.children(row)]
        series = sum(calls.calls[child] for row in below if _is_rows(calls.timer[row])
                     for child in calls.children(row)
                     if calls.timer[child].short_name == "Series.__init__")  # fmt: skip
        if 0 < series < LEAST_CALLS:  # 0: libraries' routines were not measured
            continue
        pandas = sum(calls.inclusive[row] for row in below
                     if (calls.timer[row].file or "").startswith("pandas/"))  # fmt: skip
        own = sum(calls.exclusive[row] for row in loop.rows)
        within = sum(calls.inclusive[row] for row in below if trial.is_own(calls.timer[row])
                     and _is_for_rows(trial, timer, calls.timer[row]))  # fmt: skip
        yield Mapped(
            timer,
            pandas + own + within,
            f"{place(timer)} goes through a data frame row by row: it takes "
            f"{duration(pandas + own)}, of which pandas takes {duration(pandas)} to make a series "
            "of each row and access it",
            "use whole columns, or itertuples(), which makes no series",
        )
