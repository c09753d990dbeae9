"""The plain-Python engine: exact call paths by `sys.setprofile`, on every Python.

It has the same functions as the compiled engine (`taupy._native.engine`) and passes the same
tests. Recording begins with the program's first frame; the part is written about once a second
and at the end.

    engine.py           its interface: start, stop, and what the in-code API calls
    engine_process.py   threads, forks, ways out, and when to write
    engine_events.py    the profile function, which receives every event
    engine_tree.py      one thread's call paths
    engine_phases.py    record_function as a phase
    engine_children.py  processes that the program starts
    engine_state.py     settings and counts that these modules share
    engine_routines.py  the routines: code objects, C functions, timers
    engine_part.py      the contents of a part
    engine_dynamo.py    TorchDynamo passes over this engine's code
    engine_guard.py     setting the profile function again when it was removed

docs/api.md lists what only the compiled engine can do.

Runs inside the measured process: built-in modules only.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import posix
import sys
import time

from taupy.instrument import engine_guard, engine_part
from taupy.instrument.engine_process import Engine
from taupy.instrument.engine_routines import is_ours
from taupy.instrument.engine_tree import ThreadTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_get_ident, _getframe, _setprofile = _thread.get_ident, sys._getframe, sys.setprofile
_register_at_exit = engine_guard.private_module("atexit").register
_engine: "Engine | None" = None
_last: "_Last | None" = None


class _Last:
    """Deleted when the interpreter ends, in case the program removed our exit function."""

    def __init__(self, end: "Any") -> None:
        self.end = end

    def __del__(self) -> None:
        self.end()


def start(options: "dict[str, Any]") -> None:
    """Begin to record.

    Args:
        options: those of the compiled engine: run_folder (bytes), root_pid, c_calls, depth,
            include, exclude, throttle, throttle_calls, throttle_ns_per_call,
            max_callpaths, wait_for_main, storer_argv, storer_env. Also part_path (bytes),
            a file instead of a run folder, and for tests clock, cpu_clock: functions
            that return nanoseconds.

    Raises:
        RuntimeError: it is running already, or this is a subinterpreter.
    """
    global _engine, _last
    if _engine is not None and _engine.state.running:
        raise RuntimeError("the engine is running already")
    if options.get("run_folder"):
        try:
            _signal.set_wakeup_fd(-1)  # the initial state; allowed in the main interpreter only
        except ValueError:
            raise RuntimeError("the plain engine does not measure subinterpreters") from None
    engine = _engine = Engine(options)
    _last = _Last(engine.end)
    posix.register_at_fork(after_in_child=engine.after_fork)
    _register_at_exit(engine.at_exit)
    if engine.waiting:
        _setprofile(engine.wait)
    else:
        engine.begin_first_thread()


def stop() -> None:
    """Stop recording and close the part; nothing is stored."""
    if _engine is not None:
        _engine.stop()


def active() -> bool:
    """Whether the engine is recording."""
    return _engine is not None and _engine.state.running


def describe() -> dict[str, str]:
    """The hook and the clock in use."""
    return {"hook": "sys.setprofile", "clock": "CLOCK_MONOTONIC"}


def read_clock() -> tuple[int, int]:
    """(ticks, CLOCK_MONOTONIC ns) at the same moment; in this engine a tick is a nanosecond."""
    now = time.perf_counter_ns()
    return now, now


def _here() -> "ThreadTree | None":
    engine = _engine
    if engine is None or not engine.state.running or engine.waiting:
        return None
    thread = engine.by_ident.get(_get_ident())
    return thread if thread is not None else engine.add_thread("")


def _program_frame() -> "FrameType | None":
    """The innermost frame that is not taupy's."""
    frame: FrameType | None = _getframe(2)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def timer_enter(name: str, group: str) -> None:
    """Begin a timer at the current call path."""
    thread = _here()
    if thread is not None and group not in thread.state.disabled:
        thread.enter_timer(_program_frame(), thread.state.routines.of_timer(name, group))


def timer_leave(name: str, group: str) -> bool:
    """End a timer.

    Returns:
        False if it is not open here, or if a routine that began later has not returned. The timer
        then ends with the routine that it began in.
    """
    thread = _here()
    if thread is None or group in thread.state.disabled:
        return True
    return thread.leave_timer(_program_frame(), thread.state.routines.of_timer(name, group))


def event(name: str, unit: str, value: float) -> None:
    """Sample a user event at the current call path."""
    thread = _here()
    if thread is not None:
        thread.sample(_program_frame(), name, unit, float(value))


def step_begin(is_validation: bool) -> None:
    """Steps are recorded by the compiled engine only."""
    set_metadata("taupy.health.steps", "the plain engine records no steps")


def step_end() -> None: ...


def set_metadata(name: str, value: str) -> None:
    """Set a metadata field of this process."""
    if _here() is not None and _engine is not None:
        _engine.state.metadata[str(name)] = str(value)


def set_node(number: int) -> None:
    """Set this process's node.

    Raises:
        ValueError: the number is negative.
    """
    if number < 0:
        raise ValueError("a node number is 0 or more")
    if _here() is not None and _engine is not None:
        _engine.state.node = number


def set_group(group: str, enabled: bool) -> None:
    """Start or stop recording a group of timers. The group PYTHON is all Python routines."""
    if _engine is not None and _engine.state.running:
        if group == "PYTHON":
            _engine.state.routines.enable(bool(enabled))
        elif enabled:
            _engine.state.disabled.discard(group)
        else:
            _engine.state.disabled.add(group)


def snapshot(label: str) -> None:
    """Keep a copy of the part at this moment."""
    engine = _engine
    if _here() is None or engine is None or engine.folder is None:
        return
    engine.state.snapshots += 1
    engine.state.metadata["taupy.snapshot"] = label
    path = engine.folder + b"/%d-%d.pysnapshot" % (engine.state.pid, engine.state.snapshots)
    if not engine_part.write(engine.state, engine.threads, path, "ended"):
        engine.state.metadata["taupy.health.snapshot"] = "a snapshot could not be written"


FLAT_ROUTINE, FLAT_TIMER, FLAT_FULL_NAME = range(3)


def flat() -> list[tuple[str, int, int, int, int]]:
    """[(name, calls, inclusive_ns, exclusive_ns, kind)] of all threads so far.

    There is a row for each plain name (of timers and of routines) and for each full name of a
    Python routine. A call within another of the same name and kind adds no inclusive time; open
    activations count up to now.
    """
    if _engine is None or not _engine.state.running:
        return []
    sums: dict[tuple[str, int], list[int]] = {}
    for thread in _engine.threads.copy():
        rows = len(thread.parents)
        inclusive = thread.inclusive_now(rows)
        exclusive = inclusive.copy()
        names = {number: _names(number) for number in {*thread.routines[1:rows]}}
        above: list[frozenset[tuple[str, int]]] = [frozenset()]
        for row in range(1, rows):
            parent, own = thread.parents[row], names[thread.routines[row]]
            exclusive[parent] -= inclusive[row]
            names_above = above[parent]
            above.append(names_above if names_above.issuperset(own) else names_above.union(own))
        for row in range(1, rows):
            for name in names[thread.routines[row]]:
                entry = sums.setdefault(name, [0, 0, 0])
                entry[0] += thread.calls[row]
                if name not in above[thread.parents[row]]:
                    entry[1] += inclusive[row]
                entry[2] += exclusive[row]
    return [(name, *values, kind) for (name, kind), values in sums.items()]  # type: ignore[misc]


def _names(number: int) -> list[tuple[str, int]]:
    """(name, kind) of each row of `flat` that contains the routine."""
    name, file, line, kind = _engine.state.routines.records[number][:4]  # type: ignore[union-attr]
    if kind == "timer":
        return [(name, FLAT_TIMER)]
    plain = [(name, FLAT_ROUTINE)]
    return [*plain, (f"{name} [{{{file}}}{{{line}}}]", FLAT_FULL_NAME)] if file else plain
