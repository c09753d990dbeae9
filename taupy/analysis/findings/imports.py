"""Rule: imports that are repeated, or load or compute what is not used.

Time is measured; that nothing makes use of a package or a table is read from the source of what
ran. Routines of a package that are written in C leave no trace in a profile.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from taupy.analysis.findings import source
from taupy.analysis.findings.calls import phase, place
from taupy.analysis.findings.limits import LEAST_NS, LEAST_SHARE
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import Grouped, OneOf
from taupy.dataclass import NamedTuple
from taupy.model.finding import Abstention, Confidence, Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration

KIND = "imports and start-up"
NEEDS = ("host",)

LEAST_REPEATED = 20
"""Minimum loads of one module: manual reloads, or a load per plug-in, are fewer."""

LEAST_WORK = 0.1
"""Minimum share of elapsed time of one of the program's own routines below an import."""


class _Advice(NamedTuple):
    confidence: Confidence
    attempt: str
    refuted_by: str


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if not trial.calls.rows(is_import):
        return
    yield from _repeated(trial)
    unused = [*_working(trial), *_unused(trial)]
    if trial.ended_early and any(isinstance(hit, Finding) for hit in unused):
        yield Abstention(KIND, "the program failed or was stopped, so whether it would have used "
                         "what it imported is not known")  # fmt: skip
        return
    yield from unused


is_import = Grouped(lambda groups: "IMPORT" in groups.split("|"))


def _repeated(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer in calls.matching(is_import):
        if calls.entries(timer) < LEAST_REPEATED:
            continue
        for caller, loads in trial.by_place(calls.outermost(OneOf((timer,)))):
            if loads.calls < LEAST_REPEATED:
                continue
            yield _finding(
                trial,
                f"{timer.short_name} is tried {count(loads.calls)} times in {duration(loads.ns)} "
                f"by {place(caller)}: it fails, or the module does not stay loaded",
                loads.ns * (1 - 1 / loads.calls),
                [timer],
                _Advice(
                    "high",
                    "try it once, at the top of the module, and keep the result",
                    "each attempt may succeed when earlier ones have failed",
                ),
            )


def _working(trial: Trial) -> Iterator[Finding]:
    """Routines of the program that compute something while a module is imported, which nothing
    that runs reads."""
    large = [(timer, ns) for timer, ns in _called_by_modules(trial).items()
             if ns >= LEAST_WORK * trial.wall_ns]  # fmt: skip
    loaded = source.loaded(trial) if large else None
    for timer, ns in large:
        names = _results(trial, timer)
        if loaded is None or not names or any(names & read for read in loaded.values()):
            continue
        yield _finding(
            trial,
            f"{place(timer)} works for {duration(ns)} while its module is imported, to make "
            f"{', '.join(sorted(names))}, which nothing reads in this run",
            ns + _freed(trial, trial.calls.rows_of(timer)),
            [timer],
            _Advice(
                "medium",
                "make it in a function with functools.cache, when it is first asked for",
                "it is read in a way that the source does not show",
            ),
        )


def _called_by_modules(trial: Trial) -> dict[TimerRow, float]:
    """The program's routines that its modules call while they are imported, each with its time."""
    calls = trial.calls
    ns: dict[TimerRow, float] = {}
    for top in calls.outermost(is_import):
        for row in calls.below(top):
            above = calls.timer[calls.parent[row]] if calls.parent[row] >= 0 else None
            if above and above.short_name == "<module>" and trial.is_own(calls.timer[row]):
                ns[calls.timer[row]] = ns.get(calls.timer[row], 0) + calls.inclusive[row]
    return ns


def _results(trial: Trial, timer: TimerRow) -> set[str]:
    """The variables of its module that are assigned what this routine returns."""
    text = trial.source(timer)
    called = timer.short_name.split(".")[-1]
    return {
        name.id
        for part in (source.tree(text).body if text is not None else [])
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None
        and any(isinstance(node, ast.Call) and source.called(node) == called
                for node in ast.walk(part.value))
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        for name in ast.walk(target) if isinstance(name, ast.Name)
    }  # fmt: skip


def _unused(trial: Trial) -> Iterator[Finding | Abstention]:
    """Packages that the program itself imports, of which nothing that runs makes use."""
    calls = trial.calls
    costs: dict[str, list[int]] = {}
    for row in calls.outermost(is_import):
        above = calls.parent[row]
        if above >= 0 and trial.is_own(calls.timer[above]):
            costs.setdefault(_package(calls.timer[row]), []).append(row)
    least = max(LEAST_NS, LEAST_SHARE * trial.wall_ns)
    large = [package for package, rows in costs.items()
             if sum(calls.inclusive[row] for row in rows) >= least]  # fmt: skip
    if large and (hidden := _hidden(trial)):
        yield Abstention(KIND, f"{hidden} hides whether imported packages are used")
        return
    loaded = source.loaded(trial) if large else {}
    if loaded is None:
        yield Abstention(KIND, "the source of a module is missing or has changed, so whether "
                         "imported packages are used is not known")  # fmt: skip
        return
    used = _used(trial, loaded)
    imported = sum(calls.inclusive[row] for rows in costs.values() for row in rows)
    for package in large:
        if package in used:
            continue
        below = {row for top in costs[package] for row in _others(trial, top, used)}
        ns = sum(calls.inclusive[row] for row in costs[package])
        ns -= sum(calls.inclusive[row] for row in below)
        ns *= 1 - trial.queued(calls.thread[costs[package][0]])
        if ns < least:
            continue
        saved = ns + _freed(trial, costs[package]) * ns / imported
        timers = [timer for timer in calls.timers
                  if is_import(timer) and _package(timer) == package]  # fmt: skip
        where = place(trial.caller(costs[package][0]))
        yield _finding(
            trial,
            f"import {package} in {where} takes {duration(ns)}, and nothing that ran makes use "
            "of it",
            saved,
            timers,
            _Advice(
                "medium",
                "import it in the routine that needs it, or leave it out",
                "it is imported for what its import does",
            ),
        )


def _freed(trial: Trial, rows: Sequence[int]) -> float:
    """What the thread of these rows takes outside of all routines and at the exit, which frees what
    was imported or made."""
    calls = trial.calls
    thread = calls.thread[rows[0]]
    is_exit = phase("exit")
    return sum(
        calls.exclusive[row]
        for row, above in enumerate(calls.parent)
        if calls.thread[row] == thread and (above < 0 or is_exit(calls.timer[row]))
    )


def _others(trial: Trial, top: int, used: set[str]) -> Iterator[int]:
    """The outermost imports below this one of packages that are used, too."""
    calls = trial.calls
    stack = calls.children(top)[:]
    while stack:
        row = stack.pop()
        if is_import(calls.timer[row]) and _package(calls.timer[row]) in used:
            yield row
        else:
            stack += calls.children(row)


def _used(trial: Trial, loaded: Mapping[str, set[str]]) -> set[str]:
    """Packages of which a routine ran outside imports, the program's own modules, and packages
    that code of the program reads a name of."""
    calls = trial.calls
    inside = {row for top in calls.outermost(is_import) for row in calls.below(top)}
    outside = {calls.timer[row] for row in range(len(calls)) if row not in inside}
    used = {part.removesuffix(".py") for timer in outside
            for part in (trial.paths.get(timer.timer) or timer.file or "").split("/")}  # fmt: skip
    for timer in filter(trial.is_own, calls.timers):
        path = trial.paths.get(timer.timer) or timer.file or ""
        used |= {part.removesuffix(".py") for part in path.split("/")}
        for package, names in source.imported(trial.source(timer) or "").items():
            if names & loaded.get(path, set()):
                used.add(package)
    return used


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
    return Finding(
        KIND,
        sentence,
        saved_ns=saved_ns,
        wall_ns=trial.wall_ns,
        evidence=(evidence,),
        confidence=advice.confidence,
        attempt=advice.attempt,
        refuted_by=advice.refuted_by,
    )
