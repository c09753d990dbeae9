"""Rule: Python loops over elements that a single vectorized call could replace.

Two kinds are recognized: library routines that call Python for each element (`mapped.py`), and
loops in the program's own source (`loops.py`). Each finding is about one routine, whose own time it
claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings import loops, mapped, source
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.imports import is_import
from taupy.analysis.findings.mapped import Mapped
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Abstention, Confidence, Finding
from taupy.model.question import Condition
from taupy.units import duration, percent

KIND = "loop over elements"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time of a routine whose source is examined."""

LEAST_EACH_NS = 1_000_000
"""Minimum time per call: at 50 ns for the shortest statement, 20,000 statements. Shorter loops are
not worth a vectorized call."""

_ARRAYS = (
    *("numpy", "pandas", "torch", "scipy", "sklearn", "jax", "tensorflow", "cupy", "matplotlib"),
    *("skimage", "xarray", "seaborn", "statsmodels"),
)
"""Libraries that have arrays or depend on NumPy: if one was imported, vectorized calls are
available."""

MOST_EACH_NS = 1_000
"""Maximum time of an operation on a number in a function that a loop calls: some 50 ns, or 200 ns
with NumPy's numbers. With arrays of a thousand numbers, each takes longer than this. Waiting for a
processor is none of it."""


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if _imports(trial).isdisjoint(f"import {name}" for name in _ARRAYS):
        return
    for work in (*mapped.mapped(trial), *mapped.by_row(trial)):
        yield _finding(trial, work)
    yield from _looped(trial)


def _imports(trial: Trial) -> set[str]:
    """The packages that were imported, as `import NAME`."""
    return {timer.short_name.split(".")[0] for timer in trial.calls.matching(is_import)}


def _looped(trial: Trial) -> Iterator[Finding | Abstention]:
    calls = trial.calls
    unseen: list[str] = []
    for timer in calls.lasting(LEAST * trial.wall_ns):
        if not trial.is_own(timer):
            continue
        longest = max(calls.of_timer(timer).values(), key=lambda sums: sums.ns)
        if longest.ns < LEAST_EACH_NS * longest.calls:
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
            sentence = (
                f"{place(timer)} works on single elements in the loop of line {loop.line} for "
                f"{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run"
            )
            yield _finding(trial, Mapped(timer, ns, sentence, mapped.ARITHMETIC), "medium")
    if unseen:
        yield Abstention(
            KIND,
            f"the source is missing or has changed, so no loops were looked for in "
            f"{', '.join(unseen[:3])}",
        )


def _of_loop(trial: Trial, looped: Sum, loop: loops.Loop) -> float | None:
    """The time of the loop and of the functions that it calls for each element; None if one of
    these functions may do more than arithmetic on numbers, or elements may be whole columns."""
    calls = trial.calls
    ns = sum(calls.exclusive[row] for row in looped.rows)
    seen, of_numbers = set(), loop.of_numbers
    running = 1 - (trial.runnable(calls.thread[looped.rows[0]]) or 0)
    for child in (child for row in looped.rows for child in calls.children(row)):
        name = calls.timer[child].short_name.split(".")[-1]
        if name not in loop.calls:
            continue
        function = source.function(trial, calls.timer[child])
        operations = loops.operations(function) if function else 0
        if not operations:
            return None
        seen.add(name)
        ns += calls.inclusive[child]
        each_ns = running * calls.inclusive[child] / max(calls.calls[child], 1)
        of_numbers |= (
            calls.calls[child] >= mapped.LEAST_CALLS and each_ns <= MOST_EACH_NS * operations
        )
    return ns if of_numbers and seen == loop.calls else None


def _finding(trial: Trial, work: Mapped, confidence: Confidence = "high") -> Finding:
    where = (Condition("timer", (work.timer.timer,)), HOST)
    return Finding(
        KIND,
        work.sentence,
        saved_ns=work.ns,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("thread", "timer"), where, ("inclusive", "exclusive", "calls")),),
        confidence=confidence,
        attempt=work.attempt,
        refuted_by="the elements are not numbers in an array",
    )
