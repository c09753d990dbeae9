"""Rule: the program stalls while it saves its state or writes a log.

State is what outlives a step: an attribute, a parameter of the routine that has the loop, or a
variable that is assigned before the loop. A program that writes something new in each iteration
does what it is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import source, unlogged
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.hot_lines import at_line, hottest
from taupy.analysis.findings.source import Function
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.known_routines import Either, Grouped, Matches, OneOf, among
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.network.phases import kind_of
from taupy.units import count, duration, percent

KIND = "checkpoints and logging"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time of one place: a checkpoint of a minute every half hour takes
less."""

LEAST_CALLS = 3
"""Minimum calls: a result that is written once, or an input and a result, are the program's
purpose."""

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

_is_saved = among(_SAVING)


def find(trial: Trial) -> Iterator[Finding]:
    yield from _saved(trial)
    yield from _logged(trial)
    yield from _unlogged(trial)


def _large(trial: Trial, sums: Sum) -> bool:
    return sums.calls >= LEAST_CALLS and sums.ns >= LEAST * trial.wall_ns


def _share(trial: Trial, ns: float) -> str:
    return f"{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run"


# --- state -----------------------------------------------------------------------


def _saved(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    own = {timer for timer in _often(trial) if _writes(trial, timer)}
    saves = _saving(own)
    for timer, sums in trial.by_place(calls.outermost(saves)):
        if not _large(trial, sums):
            continue
        saver = calls.timer[calls.largest(sums.rows)]
        where = saver if saver in own else timer
        kept = _keeps(trial, where) if where else None
        if kept is False:
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in sums.rows))
        yield Finding(
            KIND,
            f"{hottest(trial, where)} saves state {count(sums.calls)} times in "
            f"{_share(trial, sums.ns)}",
            saved_ns=sums.ns + _around(trial, where, sums),
            wall_ns=trial.wall_ns,
            evidence=(trial.evidence(("thread", "timer"), (Condition("timer", names), HOST),
                            ("inclusive", "calls")),),
            confidence="medium",
            attempt="save less often" if kept else "",
            refuted_by="writing these files is what the program is for",
        )  # fmt: skip


def _around(trial: Trial, timer: TimerRow | None, saves: Sum) -> float:
    """The own time of a routine that saves with each call, which opens and closes the file."""
    function = source.function(trial, timer) if timer else None
    if timer is None or function is None or _loops(function):
        return 0
    calls = trial.calls
    thread = calls.thread[saves.rows[0]]
    return sum(calls.exclusive[row] for row in calls.rows_of(timer)
               if calls.thread[row] == thread and row not in saves.rows)  # fmt: skip


def _saving(own: set[TimerRow]) -> Matches:
    """Calls that save: of frameworks, of libraries, and the program's own routines that do little
    else."""
    return Either((_is_saved, _is_checkpoint, OneOf(own)))


def _writes_checkpoint(name: str) -> bool:
    return not any(word in name.lower() for word in ("load", "restore"))


_is_checkpoint = Grouped(lambda groups: kind_of(groups) == "checkpoint", _writes_checkpoint)


def _often(trial: Trial) -> Iterator[TimerRow]:
    """The program's own routines that are called several times and take long."""
    calls = trial.calls
    for timer in calls.lasting(LEAST * trial.wall_ns):
        if trial.is_own(timer) and calls.entries(timer) >= LEAST_CALLS:
            yield timer


def _writes(trial: Trial, timer: TimerRow) -> bool:
    """Whether it writes through a C function, which is not recorded, and has no loops."""
    function = source.function(trial, timer)
    if function is None or _loops(function):
        return False
    return any(isinstance(part, ast.Call) and _is_writer(part.func) for part in ast.walk(function))


def _is_writer(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return False
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    return called.attr == "tofile" or (called.attr == "dump" and of in _PICKLERS)


def _loops(function: Function | ast.Module) -> list[ast.For | ast.While | ast.AsyncFor]:
    return [part for part in ast.walk(function)
            if isinstance(part, ast.For | ast.While | ast.AsyncFor)]  # fmt: skip


_WRITERS = frozenset(name.rpartition(":")[2].rpartition(".")[2] for name in _SAVING) | {
    "save", "dump", "save_file", "save_checkpoint", "save_model", "tofile", "savez",
    "savez_compressed", "savetxt",
}  # fmt: skip


def _keeps(trial: Trial, timer: TimerRow) -> bool | None:
    """Whether what it saves outlives the iteration in which it is saved; None if its source, or
    that of the routine with the loop, is not known."""
    function = source.function(trial, timer) or source.module(trial, timer)
    if function is None:
        return None
    saved = [part for part in ast.walk(function)
             if isinstance(part, ast.Call) and source.called(part) in _WRITERS]  # fmt: skip
    for _ in range(_MOST_CALLERS):
        loops = [loop for loop in _loops(function)
                 if any(part in saved for part in ast.walk(loop))]  # fmt: skip
        if loops:
            inside = list(ast.walk(loops[-1]))
            return any(_is_kept(call, loops[-1]) for call in saved if call in inside)
        if any(_is_attribute(call) for call in saved):
            return True
        callers = {trial.caller(row) for row in trial.calls.rows_of(timer)} - {timer}
        if len(callers) != 1 or (caller := callers.pop()) is None:
            return None
        above = source.function(trial, caller) or source.module(trial, caller)
        if above is None:
            return None
        last = timer.short_name.split(".")[-1]
        saved = [part for part in ast.walk(above)
                 if isinstance(part, ast.Call) and source.called(part) == last]  # fmt: skip
        timer, function = caller, above
    return None


_MOST_CALLERS = 4
"""Callers that are looked at in search of the loop: save() in checkpoint() in step()."""


def _is_attribute(call: ast.Call) -> bool:
    """Whether it saves attributes of `self`."""
    values = [*call.args, *(word.value for word in call.keywords)]
    return any(
        isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
        and part.value.id == "self"
        for value in values for part in ast.walk(value)
    )  # fmt: skip


def _is_kept(call: ast.Call, loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    """Whether one of its arguments, besides paths and numbers, was there before the iteration, or
    is made from what was: `order` of `order = improve(order)`."""
    if _is_attribute(call):
        return True
    fresh: set[str] = set()
    if not isinstance(loop, ast.While):
        fresh |= _loaded(loop.target)
    carried: set[str] = set()
    for part in ast.walk(loop):
        if isinstance(part, ast.Assign):
            names = {name for target in part.targets for name in _loaded(target)}
            carried |= names & _loaded(part.value)
            fresh |= names
        elif isinstance(part, ast.With):
            fresh |= {name for item in part.items if item.optional_vars is not None
                      for name in _loaded(item.optional_vars)}  # fmt: skip
    fresh -= carried
    values = [*call.args, *(word.value for word in call.keywords)]
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("to"):
        values.append(call.func.value)  # table.to_csv(path), array.tofile(path)
    return any(_subjects(value) - fresh for value in values if not _is_path(value))


def _subjects(value: ast.expr) -> set[str]:
    """The variables whose values an argument has, as they are or converted: `net` of
    `{"weights": net.state_dict()}`, but neither `x` nor `y` of `x + y`."""
    if isinstance(value, ast.Name):
        return set() if value.id.isupper() else {value.id}
    if isinstance(value, ast.Attribute):
        return _subjects(value.value)
    if isinstance(value, ast.Dict | ast.List | ast.Tuple):
        inside = value.values if isinstance(value, ast.Dict) else value.elts
        return set().union(*map(_subjects, inside))
    if isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and not value.args:
            return _subjects(value.func.value)
        return set().union(*map(_subjects, value.args))
    return set()


_PATHS = ("path", "file", "folder", "directory", "fh", "fp", "handle", "stream", "buffer", "join")


def _is_path(value: ast.expr) -> bool:
    """Whether an argument seems to be the name of a file, or an open one."""
    if isinstance(value, ast.Call):
        return source.called(value) in ("join", "str", "Path", "BytesIO")
    if isinstance(value, ast.Attribute):
        return value.attr.lower().endswith(_PATHS)
    return isinstance(value, ast.Name) and value.id.lower().endswith(_PATHS)


def _loaded(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


# --- logs ------------------------------------------------------------------------


def _logged(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer, sums in trial.by_place(calls.outermost(unlogged.is_logging)):
        written = [row for row in sums.rows if not unlogged.is_silent(trial, row)]
        longest = max(calls.by_thread(written).values(), default=Sum())
        if not _large(trial, longest):
            continue
        names = tuple(dict.fromkeys(calls.timer[row].timer for row in written))
        yield Finding(
            KIND,
            f"{hottest(trial, timer)} logs {count(longest.calls)} messages in "
            f"{_share(trial, longest.ns)}",
            saved_ns=longest.ns,
            wall_ns=trial.wall_ns,
            evidence=(trial.evidence(("thread", "timer"), (Condition("timer", names), HOST),
                            ("inclusive", "calls")),),
            confidence="medium",
            attempt="log less often, or raise the level",
            refuted_by="the log is what the program is for",
        )  # fmt: skip


def _unlogged(trial: Trial) -> Iterator[Finding]:
    """Text is made for messages that are below the log's level."""
    for text in unlogged.texts(trial):
        if text.ns < LEAST * trial.wall_ns:
            continue
        measured = f"{text.what} takes {duration(text.ns)}" if text.what else (
            f"that is part of its {duration(text.ns)}")  # fmt: skip
        yield Finding(
            KIND,
            f"{at_line(text.timer, text.line)} makes text for {count(text.calls)} messages that "
            f"are not logged: {measured}, "
            f"{percent(100 * text.ns / trial.wall_ns)} % of the run",
            saved_ns=text.ns,
            wall_ns=trial.wall_ns,
            evidence=(trial.evidence(("thread", "timer"),
                            (Condition("timer", (text.timer.timer,)), HOST)),),
            confidence="high" if text.what else "low",
            attempt="check log.isEnabledFor(level) before the text is made",
            refuted_by="the routine computes for longer than it makes text",
        )  # fmt: skip
