"""Rule: code or regular expressions are compiled again and again."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings.calls import Calls, phase, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import Meant, among
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.units import count, duration

KIND = "recompilation"
NEEDS = ("host",)

GRAPHS = 8
"""torch.compile gives up on a function after 8 recompilations (`recompile_limit`): more
compilations are of several functions, or of one that is compiled for every input."""

PATTERNS = 1024
"""Twice the size of the cache of `re` (`re._MAXCACHE`): with more patterns, the oldest are compiled
again, and with less than this, each may be needed once."""

_PATTERNS = ("re/_compiler.py:compile", "sre_compile.py:compile")
_CODE = (
    "numba/core/dispatcher.py:Dispatcher.compile",
    "jax/_src/compiler.py:compile_or_get_cached",
    "jinja2/environment.py:Environment.compile",
)


_is_around = among(
    ("re/__init__.py:_compile", "re.py:_compile", "jinja2/environment.py:Environment.from_string")
)
"""What libraries do to compile, besides calling the compiler: it is saved as well."""


def find(trial: Trial) -> Iterator[Finding]:
    yield from _of_kind(
        trial, phase("compile"), GRAPHS, "a model is compiled",
        "TORCH_LOGS=recompiles says why",
        "each of the graphs is used many times",
    )  # fmt: skip
    yield from _of_kind(
        trial, among(_CODE), GRAPHS, "code is compiled",
        "compile once and keep the result",
        "each compiled function is used many times",
    )  # fmt: skip
    yield from _of_kind(
        trial, among(_PATTERNS), PATTERNS, "a regular expression is compiled",
        "compile each pattern once with re.compile and keep it",
        "all patterns are different, and each is used once",
    )  # fmt: skip


def _of_kind(
    trial: Trial, meant: Meant, most: int, what: str, attempt: str, refuted_by: str
) -> Iterator[Finding]:
    calls = trial.calls
    for timer, compiled in trial.by_place(calls.outermost(meant)):
        if compiled.calls <= most:
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in compiled.rows))
        around = {_with_around(calls, row) for row in compiled.rows}
        whole = sum(calls.inclusive[row] for row in around)
        yield Finding(
            KIND,
            f"{what} {count(compiled.calls)} times in {duration(whole)} for {place(timer)}",
            whole * (1 - 1 / compiled.calls),
            trial.wall_ns,
            (trial.evidence(("thread", "timer"), (Condition("timer", names), HOST),
                            ("inclusive", "calls")),),
            "medium",
            attempt,
            refuted_by,
        )  # fmt: skip


def _with_around(calls: Calls, row: int) -> int:
    above = calls.parent[row]
    return above if above >= 0 and _is_around(calls.timer[above]) else row
