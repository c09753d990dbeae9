"""The in-code API: timers, phases, user events and metadata, named by the program itself.

Programs use it as `taupy.timer` and so on (docs/api.md). When the program is not profiled, timers
and the like are a shared object that does nothing, and one line says so, once. Otherwise calls go
to the compiled engine, which does not record the functions of this file. The plain-Python engine
records none of them, and its trials say so.

Runs inside the measured process: built-in modules only. An error in a call is reported
whether or not the program is profiled, or never: profiling must not change the program.
"""

import _thread
import sys
from _contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

_SUSPENDS = 0x20 | 0x80 | 0x200  # CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_function = type(lambda: None)


def active() -> "Any":
    """The compiled engine, if it records this process."""
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine if engine.active() else None


def _text(value: object) -> str:
    """A name or value that every engine and file takes."""
    text = value if type(value) is str else str(value)
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def is_measured() -> bool:
    """Whether an engine records this process."""
    return active() is not None or "taupy.instrument.engine" in sys.modules


class WholeProgram:
    """What `taupy.profile` is in a program that is measured as a whole: it says so, once."""

    trial = None
    problem = (
        "not measured: this process is being measured already, and its trial has this piece, too: "
        "name it with taupy.timer(NAME)"
    )
    _is_said = False

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "WholeProgram":
        if not WholeProgram._is_said and sys.stderr is not None:
            WholeProgram._is_said = True
            sys.stderr.write(f"taupy: {self.problem}\n")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __str__(self) -> str:
        return self.problem


class Timer:
    """A named interval: `with`, `start()` and `stop()`, or a decorator of a function."""

    __slots__ = ("group", "name")

    def __init__(self, name: object, group: object) -> None:
        self.name = _text(name)
        self.group = _text(group)

    def start(self) -> None:
        _engine.timer_enter(self.name, self.group)

    def stop(self) -> None:
        _engine.timer_leave(self.name, self.group)

    def __enter__(self) -> "Timer":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __call__(self, function: "Function") -> "Function":
        _check_function(function)
        start, stop = self.start, self.stop

        def timed(*arguments: "Any", **names: "Any") -> "Any":
            start()
            try:
                return function(*arguments, **names)
            finally:
                stop()

        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            setattr(timed, name, getattr(function, name))
        timed.__dict__.update(function.__dict__)
        timed.__wrapped__ = function  # type: ignore[attr-defined]
        return timed  # type: ignore[return-value]


class DynamicPhase(Timer):
    """A phase that is a new phase each time it begins: `epoch 1`, `epoch 2`, ..."""

    __slots__ = ("_open",)
    _open: ContextVar[tuple[str, ...]]  # names of open timers, of a thread or task

    def __init__(self, name: object, group: object) -> None:
        super().__init__(name, group)
        self._open = ContextVar("taupy", default=())

    def start(self) -> None:
        with _lock:
            number = _numbers[self.name] = _numbers.get(self.name, 0) + 1
        name = f"{self.name} {number}"
        self._open.set((*self._open.get(), name))
        _engine.timer_enter(name, self.group)

    def stop(self) -> None:
        *others, name = self._open.get() or (self.name,)
        self._open.set((*others,))
        _engine.timer_leave(name, self.group)


class Step(Timer):
    """One iteration; used like a timer."""

    __slots__ = ("_is_validation",)

    def __init__(self, kind: str) -> None:
        super().__init__(kind, "STEP")
        self._is_validation = kind == "validation"

    def start(self) -> None:
        _engine.step_begin(self._is_validation)

    def stop(self) -> None:
        _engine.step_end()


class UserEvent:
    """A sampled value; its count, minimum, maximum, mean and standard deviation are kept."""

    __slots__ = ("name", "unit")

    def __init__(self, name: object, unit: object) -> None:
        self.name = _text(name)
        self.unit = _text(unit)

    def sample(self, value: "Any") -> None:
        """Add one value. A value that is not finite is left out, and the trial says so."""
        try:
            # PyTorch warns if tensors with gradients become numbers. (Files also have `detach`.)
            if getattr(value, "requires_grad", False) is True:
                value = value.detach()
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = _NAN
        if -_INFINITY < number < _INFINITY:
            _engine.event(self.name, self.unit, number)
        else:
            _engine.set_metadata(
                "taupy.health.user_event",
                f"values of {self.name!r} that are not numbers were left out",
            )

    trigger = sample


class TimerValues:
    """A timer's values so far, over all threads and call paths; times in nanoseconds."""

    __slots__ = ("calls", "exclusive_ns", "inclusive_ns")

    def __init__(self, calls: int, inclusive_ns: int, exclusive_ns: int) -> None:
        self.calls = calls
        self.inclusive_ns = inclusive_ns
        self.exclusive_ns = exclusive_ns

    def __repr__(self) -> str:
        return (
            f"TimerValues(calls={self.calls}, inclusive_ns={self.inclusive_ns}, "
            f"exclusive_ns={self.exclusive_ns})"
        )


class _Nothing:
    """Timer, phase and user event of a program that is not being profiled."""

    __slots__ = ()

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def sample(self, value: object) -> None: ...

    trigger = sample

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *exception: object) -> None: ...

    def __call__(self, function: "Function") -> "Function":
        _check_function(function)
        return function


def _is_plain(hook: object) -> bool:
    """Whether this profile function is the plain engine's."""
    owner = type(getattr(hook, "__self__", None))
    return getattr(owner, "__module__", None) == "taupy.instrument.engine"


def _check_function(function: object) -> None:
    if type(function) is not _function:
        raise TypeError(f"a timer decorates functions, not {type(function).__name__!r} objects")
    if function.__code__.co_flags & _SUSPENDS:
        raise TypeError(
            f"{function.__qualname__!r} is a coroutine or a generator, which one timer cannot "
            "hold from call to end; its own row in the profile counts it exactly"
        )


_NAN, _INFINITY = float("nan"), float("inf")
_lock = _thread.allocate_lock()
_numbers: "dict[str, int]" = {}  # last number of each dynamic phase
_nothing: "Any" = _Nothing()
_engine: "Any" = active()
_is_said = _engine is not None or _is_plain(sys.getprofile())


def _unmeasured() -> "Any":
    """What does nothing. The first time, a line on stderr says why and what to type."""
    global _is_said
    if not _is_said:
        _is_said = True
        _say_unmeasured()
    return _nothing


def _say_unmeasured() -> None:
    import os

    process = sys.modules.get("multiprocessing.process")
    is_worker = process is not None and process.parent_process() is not None
    if is_worker or os.environ.get("RANK", "0") != "0" or os.environ.get("TAUPY_QUIET"):
        return
    try:
        sys.stderr.write(
            "taupy: this process is not being profiled, so its timers, phases and the like do "
            f"nothing; to profile it: taupy run {_target(sys.orig_argv[1:])}\n"
        )
    except Exception:  # no stderr, or a closed one
        return


def _target(words: "list[str]") -> str:
    """What `taupy run` takes: the program as it was started, without the interpreter's options."""
    if "ipykernel" in sys.modules:
        return "-m ipykernel_launcher"
    while words and words[0].startswith("-") and words[0][1:2] not in ("m", "c", ""):
        words = words[2:] if words[0] in ("-W", "-X") else words[1:]
    if not words:
        return "SCRIPT"
    return "-c ..." if words[0].startswith("-c") else " ".join(words)


def timer(name: str, group: str = "USER") -> Timer:
    """A timer of this name, recorded under the call path that uses it."""
    return _unmeasured() if _engine is None else Timer(name, group)


def phase(name: str, dynamic: bool = False, group: str = "PHASE") -> Timer:
    """A stretch of the program, such as a training step.

    Args:
        name: the phase's name.
        dynamic: each time it begins, it is a new phase, numbered from 1.
        group: as of a timer.
    """
    if _engine is None:
        return _unmeasured()  # type: ignore[no-any-return]
    return DynamicPhase(name, group) if dynamic else Timer(name, group)


def region(name: str) -> Timer:
    """A whole stretch of work that hardware counters are read around, on CPU and GPU.

    Its time is that of a phase. Its counters contain everything that was done in it, even where
    counters cannot be read in every routine.
    """
    return _unmeasured() if _engine is None else Timer(name, "REGION")


def step(kind: str = "training") -> Step:
    """One iteration of training or validation, in place of the steps that taupy finds itself.

    After its first such step, a thread has only the steps that the program marks.

    Raises:
        ValueError: an unknown kind, whether or not the program is profiled.
    """
    if kind not in ("training", "validation"):
        raise ValueError(f"a step is of 'training' or 'validation', not of {kind!r}")
    return _unmeasured() if _engine is None else Step(kind)


def user_event(name: str, unit: str = "") -> UserEvent:
    """A user event (TAU's atomic event); `sample` gives it values."""
    return _unmeasured() if _engine is None else UserEvent(name, unit)


def metadata(name: str, value: object) -> None:
    """Add metadata to the trial, besides the metadata that taupy collects itself."""
    if _engine is None:
        _unmeasured()
    else:
        _engine.set_metadata(_text(name), _text(value))


def snapshot(label: str = "") -> None:
    """Keep a copy of the profile at this moment, and continue recording."""
    if _engine is None:
        _unmeasured()
    else:
        _engine.snapshot(_text(label))


def enable(group: str = "USER") -> None:
    """Record the timers of this group again. Group PYTHON: all Python routines."""
    if _engine is not None:
        _engine.set_group(_text(group), True)


def disable(group: str = "USER") -> None:
    """Do not record the timers of this group from now on."""
    if _engine is not None:
        _engine.set_group(_text(group), False)


def set_node(number: int) -> None:
    """This process's node number, such as its rank.

    Raises:
        ValueError: it is negative, whether or not the program is profiled.
    """
    if number < 0:
        raise ValueError(f"a node number is 0 or more, not {number}")
    if _engine is not None:
        _engine.set_node(int(number))


_ROUTINE, _TIMER, _FULL_NAME = range(3)  # kinds of rows


def timer_names() -> "list[str]":
    """Names of all timers and routines so far; empty when not being profiled.

    A routine that has the same name as a timer is listed by its full name.
    """
    kinds = [(name, kind) for name, *_, kind in _rows()]
    names = {name for name, kind in kinds if kind != _FULL_NAME}
    timers = {name for name, kind in kinds if kind == _TIMER}
    return sorted(names.union(name for name, _ in kinds if name.rpartition(" [{")[0] in timers))


def timer_values(name: str) -> "TimerValues | None":
    """The values of the timer or routine of this name so far; None if there is none.

    Args:
        name: plain or full. A plain name means the timer of that name or, without one, all
            routines of that name together; if one calls another, the inner call adds no
            inclusive time. A full name, `load [{train.py}{3}]`, means a single Python routine.
    """
    values_of = {kind: values for own_name, *values, kind in _rows() if own_name == name}
    for kind in (_TIMER, _ROUTINE, _FULL_NAME):
        if kind in values_of:
            return TimerValues(*values_of[kind])
    return None


def _rows() -> "Any":
    """(name, calls, inclusive_ns, exclusive_ns, kind) of all timers and routines so far."""
    return [] if _engine is None else _engine.flat()
