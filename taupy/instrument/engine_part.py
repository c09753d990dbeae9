"""Write the plain-Python engine's part, and start the storer at the end.

A part (`*.pypart`, read by `record/plain_part.py`) is a record (`state/values.py`). It is replaced
about once a second in a single step, so that a reader always finds it complete:

    format, version, engine, pid, ppid, process_start, forked, helper (a process of
    multiprocessing's own, not its forks), state ("running" | "ended"),
    started_at [s since the epoch], start_ns, end_ns [CLOCK_MONOTONIC], exit_status, node,
    routines  the columns name, file, line, kind, group, and the numbers of those throttled;
              kind is "python" | "c" | "timer"
    threads   [{native_id, name, cpu_ns, and the columns routine, parent, calls, resumes,
              inclusive_ns; open (rows, the outermost first), entered_ns (when);
              events [(name, unit, row | None, count, min, max, mean, sum of squares)]}];
              row 0 is the root, a parent stands before its children
    metadata, health, overhead: name -> text

Runs inside the measured process: built-in modules only, and nothing raises.
"""

import _signal  # type: ignore[import-not-found]
import posix
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import (  # noqa: UP029
    BaseException,
    Exception,
    FileExistsError,
    OSError,
    dict,
    enumerate,
    int,
    len,
    memoryview,
    tuple,
)

from taupy.instrument.engine_routines import is_ours
from taupy.state.values import dumps as _dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.instrument.engine_state import EngineState
    from taupy.instrument.engine_tree import ThreadTree

_open, _write, _read, _close = posix.open, posix.write, posix.read, posix.close
_unlink, _replace, _getppid = posix.unlink, posix.replace, posix.getppid
_fstat, _times = posix.fstat, posix.times
_spawn, _waitpid, _OPEN = posix.posix_spawn, posix.waitpid, posix.POSIX_SPAWN_OPEN
_sigmask, _sigpending, _sigtake = (
    _signal.pthread_sigmask,
    _signal.sigpending,
    _signal.sigtimedwait,
)
_BLOCK, _SETMASK = _signal.SIG_BLOCK, _signal.SIG_SETMASK
_SIGCHLD, _SIGXFSZ = _signal.SIGCHLD, _signal.SIGXFSZ
_SIGNALS = tuple(_signal.valid_signals())
_READ_ONLY, _WRITE_ONLY = posix.O_RDONLY, posix.O_WRONLY
_READ = posix.O_RDONLY | posix.O_CLOEXEC
_os = sys.modules.get("os")
_environment = posix.environ if _os is None else _os.environ._data  # what the program has kept
_PAGE_BYTES = posix.sysconf("SC_PAGESIZE")
_first_folders: "dict[bytes, tuple[int, int]]" = {}
_FOLDER_FLAGS = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC
_FLAGS = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC


def document(state: "EngineState", threads: "list[ThreadTree]", status: str) -> "dict[str, Any]":
    """The part, "running" or "ended". Open activations count up to now; trees do not change."""
    return {
        "format": "taupy-part",
        "version": 3,
        "engine": "python",
        "pid": state.pid,
        "ppid": _getppid(),
        "process_start": state.process_start,
        "forked": state.forked,
        "helper": state.helper and not state.forked,
        "state": status,
        "started_at": state.started_at,
        "start_ns": state.start_ns,
        "exit_status": state.exit_status,
        "node": state.node,
        "threads": [_thread(thread) for thread in threads.copy()],
        "end_ns": state.clock(),
        # Written after the threads, so that none of their routines is missing.
        "routines": _routines(state.routines.records.copy()),
        "metadata": {**state.metadata, **(_usage() if status == "ended" else {})},
        "health": health(state),
        "overhead": {},
    }


def _routines(records: "list[list[Any]]") -> "dict[str, list[Any]]":
    return {
        "name": [record[0] for record in records],
        "file": [record[1] or "" for record in records],
        "line": [record[2] or 0 for record in records],
        "kind": [record[3] for record in records],
        "group": [record[4] or "" for record in records],
        "throttled": [number for number, record in enumerate(records) if record[5]],
    }


def _thread(thread: "ThreadTree") -> "dict[str, Any]":
    rows = len(thread.parents)
    inclusive, entered = thread.times_now(rows)
    return {
        "native_id": thread.native_id,
        "name": thread.name,
        "cpu_ns": thread.cpu_ns,
        "parent": thread.parents[:rows],
        "routine": thread.routines[:rows],
        "calls": thread.calls[:rows],
        "resumes": thread.resumes[:rows],
        "inclusive_ns": inclusive,
        "open": [row for row, _ in entered],
        "entered_ns": [start for _, start in entered],
        "events": [
            (name, unit, row or None, int(count), low, high, total / count, squares)
            for (name, unit, row), (count, low, high, total, squares) in [
                (key, tuple(sums)) for key, sums in thread.events.copy().items()
            ]
            if row < rows
        ],
    }


def health(state: "EngineState") -> dict[str, str]:
    """Notes on what was not measured."""
    notes = {
        "plain_engine": (
            "measured by the plain-Python engine: signal handlers and finalizers (__del__, weakref "
            "callbacks) that run while it is at work are not counted, nor what they call: their "
            "counts are lower bounds (the compiled engine counts all)"
        )
    }
    if state.replaced:
        notes["profile_hook"] = (
            f"the profile function was replaced or removed {state.replaced} times, by the "
            "program, another profiler, the recursion limit or an exception in a signal handler: "
            "what ran in the meantime is missing (the compiled engine does not need it)"
        )
    if state.threads_replaced:
        notes["threading_hook"] = (
            "the program called threading.setprofile: threads that it started in the meantime "
            "are missing (the compiled engine does not need that hook)"
        )
    if state.unseen_threads:
        notes["threads"] = (
            f"{state.unseen_threads} threads were started without the module threading and are "
            "missing (the compiled engine measures them)"
        )
    if state.lost_events:
        notes["recursion"] = f"{state.lost_events} events at the recursion limit were not counted"
    if state.calls_over_limit:
        notes["callpaths"] = (
            f"{state.calls_over_limit} calls on call paths beyond the limit, and all calls below "
            "them, were folded into "
            "their callers; raise it with --max-callpaths"
        )
    if state.overlaps:
        notes["timers"] = (
            f"{state.overlaps} timers were stopped out of order or without having been started"
        )
    if state.greenlets:
        notes["greenlets"] = (
            "greenlets switched stacks: call paths are correct, but the time of a switch "
            "may count for its other side"
        )
    if state.refused:
        notes["audit"] = (
            "an audit hook of the program refuses what measuring needs: counts are lower bounds"
        )
    if state.metrics:
        names = ", ".join(state.metrics)
        notes["metrics"] = f"{names}: metrics of calls need the compiled engine; not measured"
    if state.unwritten:
        notes["part"] = "the profile could not always be written during the run"
    return notes


def is_the_programs(error: BaseException) -> bool:
    """Whether a signal handler of the program raised this error inside the engine. The program must
    receive such an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not is_ours(trace.tb_frame.f_code.co_filename)


def write(state: "EngineState", threads: "list[ThreadTree]", path: bytes, status: str) -> bool:
    """Write or replace a part atomically. False if that failed."""
    try:
        data = _dumps(document(state, threads, status))
        place, _, name = path.rpartition(b"/")
        folder = _open(place or b".", _FOLDER_FLAGS)
        try:
            opened = _fstat(folder)
            identity = opened.st_dev, opened.st_ino
            if _first_folders.setdefault(place, identity) != identity:
                return False  # the program has changed its root folder
            _write_in(folder, name, data)
        finally:
            _close(folder)
        return True
    except Exception as error:
        if is_the_programs(error):
            raise
        return False  # such as a full disk


def _write_in(folder: int, name: bytes, data: bytes) -> None:
    temporary = name + b".new"
    try:
        descriptor = _open(temporary, _FLAGS, 0o600, dir_fd=folder)
    except FileExistsError:  # left by an interrupted attempt
        _unlink(temporary, dir_fd=folder)
        descriptor = _open(temporary, _FLAGS, 0o600, dir_fd=folder)
    try:
        _write_all(descriptor, data)
    except BaseException:
        _unlink(temporary, dir_fd=folder)
        raise
    finally:
        _close(descriptor)
    _replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all data. If file sizes are limited, return an error instead of raising SIGXFSZ."""
    before = _sigmask(_BLOCK, (_SIGXFSZ,))
    has_other = _SIGXFSZ in _sigpending()
    try:
        view = memoryview(data)
        while view:
            view = view[_write(descriptor, view) :]
    finally:
        if not has_other and _SIGXFSZ in _sigpending():
            _sigtake((_SIGXFSZ,), 0)
        _sigmask(_SETMASK, before)


def process_start_time() -> int:
    """Field 22 of /proc/self/stat, or 0: distinguishes reused process ids."""
    text = contents(b"/proc/self/stat")
    fields = text[text.rfind(b")") + 2 :].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _usage() -> dict[str, str]:
    times = _times()
    facts = {
        "CPU Time User (s)": f"{times.user:.6f}",
        "CPU Time System (s)": f"{times.system:.6f}",
    }
    for line in contents(b"/proc/self/status").splitlines():
        if line.startswith(b"VmHWM:"):
            facts["Peak Resident Memory (KiB)"] = line.split()[1].decode()
    return facts


def resident_kib() -> int:
    """Resident memory of this process, 0 if unknown."""
    fields = contents(b"/proc/self/statm").split()
    return int(fields[1]) * _PAGE_BYTES // 1024 if len(fields) > 1 else 0


def contents(path: bytes) -> bytes:
    """The first 64 KiB of a file in /proc; empty if it cannot be read."""
    try:
        descriptor = _open(path, _READ)
        try:
            return _read(descriptor, 1 << 16)
        finally:
            _close(descriptor)
    except OSError as error:
        if is_the_programs(error):
            raise
        return b""


def identity_of_stderr() -> "tuple[int, int] | None":
    """Identity of stderr at the start: the storer writes to no other file."""
    try:
        status = _fstat(2)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def hold_signals() -> "Any":
    """Block signals; returns the argument of `release_signals`."""
    return _sigmask(_BLOCK, _SIGNALS)


def release_signals(before: "Any") -> None:
    _sigmask(_SETMASK, before)


def store(argv: list[bytes], environment: list[bytes], stderr: "tuple[int, int] | None") -> None:
    """Run the storer and wait for it. Signals are blocked, so the program does not notice."""
    pairs = (item.split(b"=", 1) for item in environment if b"=" in item)
    variables = {name: value for name, value in pairs if value in _environment.get(name, ())}
    actions = [
        (_OPEN, 0, "/dev/null", _READ_ONLY, 0),
        (_OPEN, 1, "/dev/null", _WRITE_ONLY, 0),
    ]
    if stderr is None or identity_of_stderr() != stderr:
        actions.append((_OPEN, 2, "/dev/null", _WRITE_ONLY, 0))
    has_other = _SIGCHLD in _sigpending()
    try:
        child = _spawn(
            argv[0], argv, variables, file_actions=actions, setsigmask=(), setsigdef=_SIGNALS
        )
        _waitpid(child, 0)
        if not has_other and _SIGCHLD in _sigpending():
            _sigtake((_SIGCHLD,), 0)
    except OSError:
        return  # the run folder stays, and the next taupy command stores it
