"""Rule: code or regular expressions are compiled again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taupy.analysis.findings.calls import Calls, phase
from taupy.analysis.findings.hot_lines import line_of_call
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration

KIND = "recompilation"
NEEDS = ("host",)

GRAPHS = 8
"""torch.compile gives up on a function after 8 recompilations (`recompile_limit`): more
compilations are of several functions, or of one that is compiled for every input."""

PATTERNS = 1024
"""Twice the size of the cache of `re` (`re._MAXCACHE`): with more patterns, the oldest are compiled
again, and with less than this, each may be needed once."""

_PATTERNS = among(("re/_compiler.py:compile", "sre_compile.py:compile"))
_KEPT = among(("re/__init__.py:compile", "re.py:compile"))
_FUNCTIONS = among(("numba/core/dispatcher.py:Dispatcher.compile",
                    "jax/_src/compiler.py:compile_or_get_cached"))  # fmt: skip
_TEMPLATES = among(("jinja2/environment.py:Environment.compile",))
_TEMPLATE = "root"
"""The routine that Jinja makes of each template, in the template's file if it has one."""
_RENDERS = among(f"jinja2/environment.py:Template.{name}"
                 for name in ("render", "render_async", "generate", "generate_async"))  # fmt: skip


_is_around = among(
    ("re/__init__.py:_compile", "re.py:_compile", "jinja2/environment.py:Environment.from_string")
)
"""What libraries do to compile, besides calling the compiler: it is saved as well."""


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    yield from _repeated(
        trial,
        "a model is compiled",
        calls.outermost(phase("compile")),
        GRAPHS,
        hint="; TORCH_LOGS=recompiles says why",
        refuted_by="each of the graphs is used many times",
    )
    functions = [row for row in calls.outermost(_FUNCTIONS) if _entered(trial, row) > GRAPHS]
    yield from _repeated(
        trial,
        "code is compiled",
        functions,
        GRAPHS,
        refuted_by="each compiled function is used many times",
    )
    templates = calls.outermost(_TEMPLATES)
    if 2 * _number(calls, templates) > _number(calls, calls.outermost(_RENDERS)):
        yield from _repeated(
            trial,
            "a template is compiled",
            templates,
            GRAPHS,
            once=max(1, _files_of_templates(calls)),
            attempt="compile once and keep the result",
            refuted_by="all templates are different",
        )
    by_request = {row for top in calls.outermost(_KEPT) for row in calls.below(top)}
    patterns = [row for row in calls.outermost(_PATTERNS)
                if row not in by_request or _entered(trial, row) > 1]  # fmt: skip
    yield from _repeated(
        trial,
        "a regular expression is compiled",
        patterns,
        PATTERNS,
        attempt="compile each pattern once with re.compile and keep it",
        refuted_by="all patterns are different, and each is used once",
    )


def _files_of_templates(calls: Calls) -> int:
    """Each of them that is used has to be compiled once."""
    files = {timer.file for timer in calls.timers if timer.short_name == _TEMPLATE}
    return sum(not file.endswith((".py", ">")) for file in files if file)


def _number(calls: Calls, rows: Iterable[int]) -> float:
    return sum(calls.calls[row] for row in rows)


def _entered(trial: Trial, row: int) -> float:
    """How often the program's routine that lets it compile was entered: what a routine that is
    entered once compiles may be as many different things."""
    own = trial.caller(row)
    return 1 if own is None else trial.calls.entries(own)


def _repeated(
    trial: Trial,
    what: str,
    rows: Iterable[int],
    most: int,
    *,
    once: int = 1,
    hint: str = "",
    attempt: str = "",
    refuted_by: str,
) -> Iterator[Finding]:
    """The routines that compile more often than `most`, beside the things that are compiled once.

    Args:
        once: so many at least.
    """
    calls = trial.calls
    for timer, compiled in trial.by_place(rows):
        if compiled.calls - once < most:
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in compiled.rows))
        around = {_with_around(calls, row) for row in compiled.rows}
        whole = sum(calls.inclusive[row] for row in around)
        yield Finding(
            KIND,
            f"{what} {count(compiled.calls)} times in {duration(whole)} for "
            f"{_where(trial, timer, compiled.rows)}{hint}",
            saved_ns=whole * (1 - once / compiled.calls),
            wall_ns=trial.wall_ns,
            evidence=(
                trial.evidence(
                    ("thread", "timer"), (Condition("timer", names), HOST), ("inclusive", "calls")
                ),
            ),
            confidence="medium",
            attempt=attempt,
            refuted_by=refuted_by,
        )


def _where(trial: Trial, timer: TimerRow | None, rows: Iterable[int]) -> str:
    """A routine, with the line that calls what compiles, if that is one line."""
    calls = trial.calls
    names = set()
    for row in rows:
        while row >= 0 and calls.timer[row] != timer:
            *of, last = calls.timer[row].short_name.split(".")
            names.add(of[-1] if of and last in ("__new__", "__init__") else last)
            row = calls.parent[row]
    return line_of_call(trial, timer, names)


def _with_around(calls: Calls, row: int) -> int:
    above = calls.parent[row]
    return above if above >= 0 and _is_around(calls.timer[above]) else row
