"""Messages that are not logged, and the time that it takes to make their text.

That a message was not logged is measured: the logger was called, and called nothing that writes.
What is called to make the text is read from the source. A recorded routine, such as `json.dumps`,
has its own time if the routine calls it for messages only; what C functions do, such as `repr`, is
part of the routine's own time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import source
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.dataclass import NamedTuple
from taupy.model.rows import TimerRow

_LOGGER = "logging/__init__.py:"
_LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
is_logging = among(
    (*(f"{_LOGGER}Logger.{name}" for name in (*_LEVELS, "handle")),
     *(f"{_LOGGER}LoggerAdapter.{name}" for name in _LEVELS),
     *(f"{_LOGGER}{name}" for name in _LEVELS))
)  # fmt: skip
"""Routines of `logging` that take a message."""

_PRINTING = frozenset(
    {"repr", "tolist", "dumps", "pformat", "array2string", "to_string", "to_json", "to_dict",
     "asdict"}
)  # fmt: skip
"""C functions and methods that convert a whole object to text, and those that call them."""


_CONVERSIONS = frozenset({"__repr__", "__str__", "__format__"})
"""Methods of the program's classes that an f-string or a formatting operator calls."""

_CONVERTING = frozenset({"str", "repr", "ascii", "format", "print", "join", "write"})


class Text(NamedTuple):
    """Text that a routine makes for messages that are not logged.

    Attributes:
        what: the recorded routine that makes it; "" if it is made in the routine itself, too, whose
            own time is then part of the upper bound.
    """

    timer: TimerRow
    line: int
    calls: int
    ns: float
    what: str


def is_silent(trial: Trial, row: int) -> bool:
    """Whether this is a logging call whose messages were discarded."""
    calls = trial.calls
    return is_logging(calls.timer[row]) and not any(
        calls.timer[below].short_name.endswith(("._log", ".handle")) for below in calls.below(row)
    )


def texts(trial: Trial) -> Iterator[Text]:
    """The program's routines that make text for messages of which none is logged."""
    calls = trial.calls
    above = (calls.parent[row] for row in calls.rows(is_logging))
    callers = dict.fromkeys(calls.timer[row] for row in above if row >= 0)
    for timer in callers:
        if not trial.is_own(timer):
            continue
        rows = calls.rows_of(timer)
        below = [child for row in rows for child in calls.children(row)]
        logging = [row for row in below if is_logging(calls.timer[row])]
        written = {_last(calls.timer[row]) for row in logging if not is_silent(trial, row)}
        silent = {_last(calls.timer[row]) for row in logging} - written
        function = source.function(trial, timer) if silent else None
        way = _made(function, silent) if function else None
        if way is None:
            continue
        makers = [row for row in below if _last(calls.timer[row]) in way.only_for_messages]
        hidden = way.printing - {_last(calls.timer[row]) for row in makers}
        longest = max(calls.by_thread(makers).values(), default=Sum())
        discarded = sum(calls.inclusive[row] for row in logging
                        if _last(calls.timer[row]) in silent)  # fmt: skip
        number = sum(int(calls.calls[row]) for row in logging
                     if _last(calls.timer[row]) in silent)  # fmt: skip
        if hidden:
            own_ns = max(
                sum(calls.exclusive[row] for row in sums.rows)
                for sums in calls.by_thread(rows).values()
            )
            yield Text(timer, way.line, number, own_ns + longest.ns + discarded, "")
        elif makers:
            what = calls.timer[calls.largest(longest.rows)].short_name
            yield Text(timer, way.line, number, longest.ns + discarded, what)


def _last(timer: TimerRow) -> str:
    return timer.short_name.split(".")[-1]


class _Made(NamedTuple):
    """How a routine makes its messages.

    Attributes:
        line: of the first logging call with such text.
        only_for_messages: names of what it calls for messages, and for nothing else.
        printing: names of what converts a whole object to text.
    """

    line: int
    only_for_messages: frozenset[str]
    printing: frozenset[str]


def _made(function: source.Function, levels: set[str]) -> _Made | None:
    """How it makes its messages of these levels; None if that takes no call."""
    called = [part for part in ast.walk(function) if isinstance(part, ast.Call)]
    arguments = [
        argument
        for call in called
        if isinstance(call.func, ast.Attribute) and call.func.attr in levels
        for argument in call.args
    ]
    inside = {id(node) for argument in arguments for node in ast.walk(argument)}
    used_elsewhere = {
        part.id
        for part in ast.walk(function)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in inside
    }
    for part in ast.walk(function):  # text = json.dumps(x); log.debug(text)
        if isinstance(part, ast.Assign) and all(
            isinstance(target, ast.Name) and target.id not in used_elsewhere
            and any(isinstance(node, ast.Name) and node.id == target.id
                    for argument in arguments for node in ast.walk(argument))
            for target in part.targets
        ):  # fmt: skip
            inside |= {id(node) for node in ast.walk(part.value)}
    for_messages = {source.called(call) for call in called if id(call) in inside}
    only = for_messages - {source.called(call) for call in called if id(call) not in inside}
    lines = [call.lineno for call in called
             if id(call) in inside and source.called(call) in only | _PRINTING]  # fmt: skip
    formatted = [part for part in ast.walk(function)
                 if isinstance(part, ast.expr) and _converts(part)]  # fmt: skip
    if formatted and all(id(part) in inside for part in formatted):
        only |= _CONVERSIONS
        lines += [part.lineno for part in formatted]
    if not lines:
        return None
    return _Made(min(lines), frozenset(only), frozenset(for_messages & _PRINTING))


def _converts(part: ast.expr) -> bool:
    """Whether it may call `__repr__`, `__str__` or `__format__`."""
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
        return isinstance(part.left, ast.JoinedStr) or (
            isinstance(part.left, ast.Constant) and isinstance(part.left.value, str)
        )
    name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(
        part, ast.Attribute) else ""  # fmt: skip
    return isinstance(part, ast.FormattedValue) or name in _CONVERTING
