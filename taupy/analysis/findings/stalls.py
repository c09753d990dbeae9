"""Rule: the program stalls while it writes checkpoints or a log."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from taupy.analysis.findings import source
from taupy.analysis.findings.calls import Meant, among, phase, place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "checkpoints and logging"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time: a checkpoint of a minute every half hour takes less."""

LEAST_CALLS = 3
"""Minimum calls: a result that is written once, or an input and a result, are the program's
purpose."""

_LOGGER = "logging/__init__.py:"
_LOGGING = (
    *(f"{_LOGGER}Logger.{name}" for name in
      ("debug", "info", "warning", "error", "critical", "exception", "log", "handle")),
    *(f"{_LOGGER}{name}" for name in ("debug", "info", "warning", "error", "critical", "log")),
)  # fmt: skip
_NPY = ("numpy/lib/_npyio_impl.py", "numpy/lib/npyio.py")
_SAVING = (
    *(
        f"{file}:{name}"
        for file in _NPY
        for name in ("save", "savez", "savez_compressed", "savetxt")
    ),
    "json/__init__.py:dump",
    "joblib/numpy_pickle.py:dump",
    "safetensors/torch.py:save_file",
    "pandas/core/generic.py:NDFrame.to_csv",
    "pandas/core/generic.py:NDFrame.to_pickle",
)


_PICKLERS = frozenset({"pickle", "cPickle", "marshal", "dill", "cloudpickle"})
_PRINTING = frozenset(
    {"repr", "tolist", "dumps", "pformat", "array2string", "to_string", "to_json", "to_dict",
     "asdict"}
)  # fmt: skip
"""Calls that convert a whole object to text."""


class _Stall(NamedTuple):
    meant: Callable[[Trial], Meant]
    what: str
    attempt: str
    refuted_by: str


_CHECKPOINTS, _SAVED, _LOGGED = phase("checkpoint"), among(_SAVING), among(_LOGGING)


def _checkpoints(trial: Trial) -> Meant:
    """Calls that save state: of frameworks, of libraries, and the program's own routines that do
    little else."""
    own = {timer for timer in _often(trial) if _saves(trial, timer)}
    return lambda timer: timer in own or _CHECKPOINTS(timer) or _SAVED(timer)


_STALLS = (
    _Stall(
        _checkpoints, "state is saved",
        "save less often, without compression, or in another thread or process from a copy",
        "writing these files is what the program is for",
    ),
    _Stall(
        lambda trial: _LOGGED, "the log is written",
        "log less, or at a higher level; check log.isEnabledFor before costly arguments; hand "
        "records to a thread (logging.handlers.QueueHandler)",
        "the log is what the program is for",
    ),
)  # fmt: skip


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for stall in _STALLS:
        written = calls.longest(stall.meant(trial))
        if written.calls < LEAST_CALLS or written.ns < LEAST * trial.wall_ns:
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in written.rows))
        largest = calls.largest(written.rows)
        timer = calls.timer[largest]
        if _CHECKPOINTS(timer) or _SAVED(timer) or _LOGGED(timer):
            timer = trial.caller(largest) or timer
        yield Finding(
            KIND,
            f"{stall.what} {count(written.calls)} times in {duration(written.ns)}, "
            f"{percent(100 * written.ns / trial.wall_ns)} % of the run, most of it by "
            f"{place(timer)}",
            written.ns,
            trial.wall_ns,
            (trial.evidence(("thread", "timer"), (Condition("timer", names), HOST),
                            ("inclusive", "calls")),),
            "medium",
            stall.attempt,
            stall.refuted_by,
        )  # fmt: skip
    yield from _unwritten(trial)


def _often(trial: Trial) -> Iterator[TimerRow]:
    """The program's own routines that are called several times and take long."""
    calls = trial.calls
    for timer in calls.timers:
        if trial.is_own(timer) and calls.entries(timer) >= LEAST_CALLS:
            longest = max(calls.by_thread(calls.rows_of(timer)).values(), key=lambda sums: sums.ns)
            if longest.ns >= LEAST * trial.wall_ns:
                yield timer


def _saves(trial: Trial, timer: TimerRow) -> bool:
    """Whether it writes through a C function, which is not recorded, and has no loops."""
    function = source.function(trial, timer)
    if function is None:
        return False
    parts = list(ast.walk(function))
    if any(isinstance(part, ast.For | ast.While | ast.AsyncFor) for part in parts):
        return False
    return any(_writes(part.func) for part in parts if isinstance(part, ast.Call))


def _writes(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    return called.attr == "tofile" or (called.attr == "dump" and of in _PICKLERS)


# --- messages that are not written -----------------------------------------------


def _unwritten(trial: Trial) -> Iterator[Finding]:
    """Messages are formatted although they are below the log's level."""
    calls = trial.calls
    for timer in calls.timers:
        rows = calls.rows_of(timer)
        own_ns = sum(calls.exclusive[row] for row in rows)
        if own_ns < LEAST * trial.wall_ns or not trial.is_own(timer):
            continue
        silent = [row for row in rows if any(_is_silent(trial, at) for at in calls.children(row))]
        function = source.function(trial, timer) if silent else None
        line = _printed(function) if function else None
        if line is None:
            continue
        yield Finding(
            KIND,
            f"{place(timer)} formats whole objects for messages that are not logged (line "
            f"{line}): part of its own {duration(own_ns)}, {percent(100 * own_ns / trial.wall_ns)}"
            " % of the run",
            own_ns,
            trial.wall_ns,
            (trial.evidence(("thread", "timer"), (Condition("timer", (timer.timer,)), HOST)),),
            "low",
            "pass the objects to the logger, which formats them only if needed: log.debug('%s', "
            "x); or check log.isEnabledFor first",
            "the routine computes for longer than it formats text",
        )


def _is_silent(trial: Trial, row: int) -> bool:
    """Whether this is a logging call whose message was discarded."""
    calls = trial.calls
    return _LOGGED(calls.timer[row]) and not any(
        calls.timer[below].short_name.endswith(("._log", ".handle")) for below in calls.below(row)
    )


def _printed(function: source.Function) -> int | None:
    """The line of a logging call whose arguments format whole objects; None if there is none."""
    levels = {name.rpartition(".")[2].rpartition(":")[2] for name in _LOGGING}
    for part in ast.walk(function):
        if not (isinstance(part, ast.Call) and source.called(part) in levels):
            continue
        inside = [node for argument in part.args for node in ast.walk(argument)]
        if any(isinstance(node, ast.Call) and source.called(node) in _PRINTING for node in inside):
            return part.lineno
    return None
