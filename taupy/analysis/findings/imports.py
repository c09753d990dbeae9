"""Rule: imports that are repeated, do work, or load packages that are not used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from taupy.analysis.findings.calls import place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Abstention, Confidence, Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration

KIND = "imports and start-up"
NEEDS = ("host",)

LEAST_REPEATED = 20
"""Minimum loads of one module: manual reloads, or a load per plug-in, are fewer."""

LEAST_WORK = 0.1
"""Minimum share of elapsed time in the program's own modules below an import: defining a module's
functions and classes takes a few milliseconds."""

_PYTHON_APIS = (
    *("sklearn", "pandas", "matplotlib", "torch", "tensorflow", "keras", "transformers", "jax"),
    *("sympy", "networkx", "seaborn", "plotly", "statsmodels", "xarray", "dask", "requests"),
    *("IPython", "nltk", "skimage", "lightning", "boto3", "sqlalchemy", "pydantic"),
)
"""Packages whose every use runs some routine written in Python: if the profile has none, the
package was not used. NumPy, SciPy's ufuncs and the like are C and leave no trace."""


class _Advice(NamedTuple):
    confidence: Confidence
    attempt: str
    refuted_by: str


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if not trial.calls.rows(is_import):
        return
    yield from _repeated(trial)
    yield from _working(trial)
    yield from _unused(trial)


def is_import(timer: TimerRow) -> bool:
    return "IMPORT" in timer.groups.split("|")


def _repeated(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer in calls.timers:
        if not is_import(timer) or calls.entries(timer) < LEAST_REPEATED:
            continue
        loads = calls.longest(timer.__eq__)
        if loads.calls < LEAST_REPEATED:
            continue
        caller = trial.caller(calls.largest(loads.rows))
        yield _finding(
            trial,
            f"{timer.short_name} is tried {count(loads.calls)} times in {duration(loads.ns)} by "
            f"{place(caller)}: it fails, or the module does not stay loaded",
            loads.ns * (1 - 1 / loads.calls),
            [timer],
            _Advice(
                "high",
                "try it once, at the top of the module, and keep the result",
                "each attempt may succeed when earlier ones have failed",
            ),
        )


def _working(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    own_ns: dict[TimerRow, float] = {}
    for top in calls.outermost(is_import):
        for row in calls.below(top):
            if trial.is_own(calls.timer[row]):
                own_ns[calls.timer[row]] = own_ns.get(calls.timer[row], 0) + calls.exclusive[row]
    ns = sum(own_ns.values())
    if not own_ns or ns < LEAST_WORK * trial.wall_ns:
        return
    largest = max(own_ns, key=own_ns.__getitem__)
    yield _finding(
        trial,
        f"the program's own modules work for {duration(ns)} while they are imported, most of it "
        f"in {place(largest)}",
        ns,
        [largest],
        _Advice(
            "medium",
            "compute it when it is first asked for (functools.cache), or store the result",
            "the program needs all of it in every run",
        ),
    )


def _unused(trial: Trial) -> Iterator[Finding | Abstention]:
    calls = trial.calls
    costs: dict[str, float] = {}
    for row in calls.outermost(is_import):
        package = _package(calls.timer[row])
        costs[package] = costs.get(package, 0) + calls.inclusive[row]
    costs = {name: ns for name, ns in costs.items() if name in _PYTHON_APIS}
    if costs and (hidden := _hidden(trial)):
        yield Abstention(KIND, f"{hidden} hides whether imported packages are used")
        return
    used = _used(trial)
    for package, ns in costs.items():
        if package in used:
            continue
        timers = [timer for timer in calls.timers
                  if is_import(timer) and _package(timer) == package]  # fmt: skip
        yield _finding(
            trial,
            f"import {package} takes {duration(ns)}, and none of its routines ran afterwards",
            ns,
            timers,
            _Advice(
                "medium",
                "import it in the routine that needs it, or leave it out",
                "the program uses its constants or classes without calling a routine of it",
            ),
        )


def _used(trial: Trial) -> set[str]:
    """Packages of which a routine ran outside imports."""
    calls = trial.calls
    inside = {row for top in calls.outermost(is_import) for row in calls.below(top)}
    outside = {calls.timer[row] for row in range(len(calls)) if row not in inside}
    return {(timer.file or "").split("/")[0] for timer in outside}


def _hidden(trial: Trial) -> str:
    """The option given, if any, that keeps routines of libraries from being recorded."""
    options = (f"taupy.option.{name}" for name in ("include", "exclude", "depth"))
    return next((option for option in options if option in trial.metadata), "")


def _package(timer: TimerRow) -> str:
    return timer.short_name.removeprefix("import ").split(".")[0]


def _finding(
    trial: Trial,
    sentence: str,
    saved_ns: float,
    timers: Sequence[TimerRow],
    advice: _Advice,
) -> Finding:
    where = (Condition("timer", tuple(timer.timer for timer in timers)), HOST)
    evidence = trial.evidence(("timer",), where, ("inclusive", "calls"))
    return Finding(KIND, sentence, saved_ns, trial.wall_ns, (evidence,), *advice)
