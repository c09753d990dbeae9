"""Rule: Python loops over elements that a single vectorized call could replace.

Two kinds are recognized: library routines that call Python for each element (`np.vectorize`,
`DataFrame.iterrows`), and loops in the program's own source (`loops.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings import loops, source
from taupy.analysis.findings.calls import Sum, among, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Abstention, Confidence, Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "loop over elements"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time of a routine whose source is examined."""

LEAST_EACH_NS = 1_000_000
"""Minimum time per call: at 50 ns for the shortest statement, 20,000 statements. Shorter loops are
not worth a vectorized call."""

LEAST_CALLS = 1000
"""Minimum calls of a routine that a library calls for each element."""

_ARRAYS = (
    *("numpy", "pandas", "torch", "scipy", "sklearn", "jax", "tensorflow", "cupy", "matplotlib"),
    *("skimage", "xarray", "seaborn", "statsmodels"),
)
"""Libraries that have arrays or depend on NumPy: if one was imported, vectorized calls are
available."""

_MAPPERS = (
    "numpy/lib/_function_base_impl.py:vectorize.__call__",
    "numpy/lib/function_base.py:vectorize.__call__",
    "numpy/lib/_shape_base_impl.py:apply_along_axis",
    "numpy/lib/shape_base.py:apply_along_axis",
    "pandas/core/frame.py:DataFrame.apply",
    "pandas/core/series.py:Series.apply",
    "pandas/core/series.py:Series.map",
)
_ROWS = ("pandas/core/frame.py:DataFrame.iterrows",)


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if not any(f"import {name}" in _imports(trial) for name in _ARRAYS):
        return
    yield from _mapped(trial)
    yield from _row_by_row(trial)
    yield from _looped(trial)


def _imports(trial: Trial) -> set[str]:
    """The packages that were imported, as `import NAME`."""
    return {timer.short_name.split(".")[0] for timer in trial.calls.timers
            if "IMPORT" in timer.groups.split("|")}  # fmt: skip


def _mapped(trial: Trial) -> Iterator[Finding]:
    """A library's routine that calls a Python function for each element or row."""
    calls = trial.calls
    mapped = calls.longest(among(_MAPPERS))
    if not mapped.rows:
        return
    below = {row for top in mapped.rows for row in calls.below(top)} - {*mapped.rows}
    own = [row for row in below if trial.is_own(calls.timer[row])]
    if not own:
        return
    most = max(own, key=calls.calls.__getitem__)
    if calls.calls[most] < LEAST_CALLS:
        return
    mapper = calls.timer[calls.largest(mapped.rows)]
    yield _finding(
        trial,
        f"{mapper.short_name} calls {place(calls.timer[most])} {count(int(calls.calls[most]))} "
        f"times in {duration(mapped.ns)}, once for each element",
        mapped.ns,
        "high",
        calls.timer[most],
    )


def _row_by_row(trial: Trial) -> Iterator[Finding]:
    """A loop over the rows of a data frame, each of which is converted to a series."""
    calls = trial.calls
    frames = calls.longest(among(_ROWS))
    if not frames.rows:
        return
    caller = calls.parent[calls.largest(frames.rows)]
    if caller < 0:
        return
    pandas = [row for row in calls.children(caller)
              if (calls.timer[row].file or "").startswith("pandas/")]  # fmt: skip
    ns = sum(calls.inclusive[row] for row in pandas)
    yield _finding(
        trial,
        f"{place(calls.timer[caller])} goes through a data frame row by row: pandas takes "
        f"{duration(ns)} of it to make a series of each row and access it",
        ns,
        "high",
        calls.timer[caller],
    )


def _looped(trial: Trial) -> Iterator[Finding | Abstention]:
    calls = trial.calls
    unseen: list[str] = []
    for timer in calls.timers:
        if not trial.is_own(timer):
            continue
        looped = calls.by_thread(calls.rows_of(timer))
        longest = max(looped.values(), key=lambda sums: sums.ns, default=Sum())
        if longest.ns < max(LEAST * trial.wall_ns, LEAST_EACH_NS * longest.calls):
            continue
        function = source.function(trial, timer)
        if function is None:
            if trial.source(timer) is None:
                unseen.append(place(timer))
            continue
        loop = loops.element_loop(function)
        if loop is None:
            continue
        ns = _of_loop(trial, longest, loop)
        if ns is not None and ns >= LEAST * trial.wall_ns:
            yield _finding(
                trial,
                f"{place(timer)} works on single elements in the loop of line {loop.line} for "
                f"{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run",
                ns,
                "medium",
                timer,
            )
    if unseen:
        yield Abstention(
            KIND,
            f"the source is missing or has changed, so no loops were looked for in "
            f"{', '.join(unseen[:3])}",
        )


def _of_loop(trial: Trial, looped: Sum, loop: loops.Loop) -> float | None:
    """The time of the loop and of the functions that it calls for each element; None if one of
    these functions may do more than arithmetic on numbers."""
    calls = trial.calls
    ns = sum(calls.exclusive[row] for row in looped.rows)
    seen = set()
    for child in (child for row in looped.rows for child in calls.children(row)):
        name = calls.timer[child].short_name.split(".")[-1]
        if name not in loop.calls:
            continue
        function = source.function(trial, calls.timer[child])
        if function is None or not loops.is_arithmetic(function):
            return None
        seen.add(name)
        ns += calls.inclusive[child]
    return ns if seen == loop.calls else None


def _finding(
    trial: Trial, sentence: str, ns: float, confidence: Confidence, timer: TimerRow
) -> Finding:
    where = (Condition("timer", (timer.timer,)), HOST)
    return Finding(
        KIND,
        sentence,
        ns,
        trial.wall_ns,
        (trial.evidence(("thread", "timer"), where, ("inclusive", "exclusive", "calls")),),
        confidence,
        "work on whole arrays (NumPy's functions and operators, np.where, np.bincount), or compile "
        "the loop (Numba, Cython)",
        "the elements are not numbers in an array",
    )
