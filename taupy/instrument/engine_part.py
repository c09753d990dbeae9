"""Write the plain-Python engine's part, and start the storer at the end.

A part (`*.pypart`, read by `record/plain_part.py`) is replaced in a single step, so that a reader
always finds it complete. Runs inside the measured process: built-in modules only.
"""

import _signal  # type: ignore[import-not-found]
import builtins
import posix
import sys
import time

from taupy.state.values import dumps as _dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The program may replace built-in functions; these stay what they are.
__builtins__ = {**vars(builtins)}  # type: ignore[assignment]
VERSION = 4
_SEEN_BY_DYNAMO = sys.version_info < (3, 12)  # later, it leaves out frames of profile functions
_open, _write, _close, _rename = posix.open, posix.write, posix.close, posix.rename
_unlink = posix.unlink
_clock, _getppid, _stat = time.perf_counter_ns, posix.getppid, posix.stat
_spawn, _waitpid, _OPEN = posix.posix_spawn, posix.waitpid, posix.POSIX_SPAWN_OPEN
_kill, _DUP2, _NO_HANG = posix.kill, posix.POSIX_SPAWN_DUP2, posix.WNOHANG
_sigmask, _sigpending, _sigtake = _signal.pthread_sigmask, _signal.sigpending, _signal.sigtimedwait
_BLOCK, _SETMASK = _signal.SIG_BLOCK, _signal.SIG_SETMASK
_SIGCHLD, _SIGXFSZ, _SIGKILL = _signal.SIGCHLD, _signal.SIGXFSZ, _signal.SIGKILL
_SIG_IGN, _setsignal = _signal.SIG_IGN, _signal.signal
_ENDING = [
    *(_signal.SIGHUP, _signal.SIGTERM, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2),
    *(_signal.SIGALRM, _signal.SIGVTALRM, _signal.SIGPROF, _signal.SIGIO, _signal.SIGPWR),
    *(_signal.SIGXCPU, _signal.SIGINT),
]
_LOOK_S, _LOOKS = 0.02, 6000  # how long the program waits for the storer at most
_SIGNALS = (*_signal.valid_signals(),)
_os = sys.modules.get("os")
_environment = posix.environ if _os is None else _os.environ._data  # what the program has kept
_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
_HOME = __file__.rpartition("/")[0]
_PACKAGE = _HOME.rpartition("/")[0]
_OURS = (_HOME + "/", _PACKAGE + "/__init__.py", _PACKAGE + "/_native/", _PACKAGE + "/state/")


def is_ours(file: str) -> bool:
    """Whether this is a file of taupy that runs in measured processes."""
    return file.startswith(_OURS)


def document(engine: "Any", state: str) -> "dict[str, Any]":
    """The part, "running" or "ended". Open activations count up to now; trees do not change."""
    threads = [_thread(thread) for thread in engine.threads.copy()]
    routines = [*engine.routines]  # after the threads, so that none of their routines is missing
    names = ("pid", "process_start", "started_at", "start_ns", "exit_status", "unsupported")
    return {
        "format": "taupy-part",
        "version": VERSION,
        "ppid": _getppid(),
        "state": state,
        "end_ns": _clock(),
        **{name: getattr(engine, name) for name in names},
        "threads": threads,
        "routines": tuple([routine[at] for routine in routines] for at in range(3)),
        "missed": {
            **engine.missed,
            "greenlets": int("greenlet" in sys.modules),
            "dynamo": int(_SEEN_BY_DYNAMO and "torch._dynamo" in sys.modules),
        },
    }


def _thread(thread: "Any") -> "dict[str, Any]":
    """Its columns; row 0 is the root, a parent stands before its children."""
    rows, stack, now = len(thread.parent), thread.stack.copy(), _clock()
    inclusive = thread.inclusive[:rows]
    entered = [(row, start) for _, row, start in stack[1:] if start >= 0 and row < rows]
    for row, start in entered:
        inclusive[row] += max(0, now - start)
    end = thread.ended_ns if len(stack) == 1 and thread.ended_ns else now
    inclusive[0] = max(0, end - stack[0][2])
    columns = ("parent", "routine", "calls", "resumes")
    return {
        **{name: getattr(thread, name) for name in ("native_id", "name", "cpu_ns")},
        **{name: getattr(thread, name)[:rows] for name in columns},
        "inclusive_ns": inclusive,
        "open": [row for row, _ in entered],  # the outermost first, and when they were entered:
        "entered_ns": [start for _, start in entered],
    }


def write(engine: "Any", path: bytes, state: str) -> bool:
    """Write or replace a part; False if that failed, as on a full disk. Raises what a signal
    handler of the program that ran meanwhile has raised."""
    try:
        data = memoryview(_dumps(document(engine, state)))
        if identity(path[: path.rindex(b"/")]) != engine.places[path]:
            return False  # the program has changed its root folder
        descriptor = _open(path + b".new", _CREATE, 0o600)
        signals = _sigmask(_BLOCK, (_SIGXFSZ,))  # where sizes are limited, an error comes instead
        try:
            while data:
                data = data[_write(descriptor, data) :]
        finally:
            if _SIGXFSZ in _sigpending():
                _sigtake((_SIGXFSZ,), 0)
            _sigmask(_SETMASK, signals)
            _close(descriptor)
        _rename(path + b".new", path)
        return True
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None and not is_ours(trace.tb_frame.f_code.co_filename):
            raise
        try:
            _unlink(path + b".new")
        except OSError:
            return False  # it was not begun
        return False


def identity(file: "bytes | int") -> "tuple[int, int] | None":
    """Inode and device of a path or an open file; None if there is none."""
    try:
        return _stat(file)[1:3]
    except OSError:
        return None


def ignore_signals() -> None:
    """From the program's end on, its exit code stands (`_native/exit.c`). An interpreter that ends
    by a KeyboardInterrupt restores SIGINT first."""
    for number in _ENDING:
        _setsignal(number, _SIG_IGN)


def store(argv: list[bytes], environment: list[bytes], stderr: "tuple[int, int] | None") -> None:
    """Run the storer and wait for it. Signals are blocked, so the program does not notice."""
    pairs = (item.split(b"=", 1) for item in environment if b"=" in item)
    variables = {name: value for name, value in pairs if value in _environment.get(name, ())}
    # As in `_native/exit.c`: the storer says its line on descriptor 3.
    is_first = stderr is not None and identity(2) == stderr
    kept = (_DUP2, 2, 3) if is_first else (_OPEN, 3, "/dev/null", posix.O_WRONLY, 0)
    actions = [
        kept,
        (_OPEN, 0, "/dev/null", posix.O_RDONLY, 0),
        (_OPEN, 1, "/dev/null", posix.O_WRONLY, 0),
        (_OPEN, 2, "/dev/null", posix.O_WRONLY, 0),
    ]
    try:
        child = _spawn(
            argv[0], argv, variables, file_actions=actions, setsigmask=(), setsigdef=_SIGNALS
        )
        for _ in range(_LOOKS):
            if _waitpid(child, _NO_HANG)[0]:
                break
            _sigtake((_SIGCHLD,), _LOOK_S)
        else:  # the run stays, as after an error
            _kill(child, _SIGKILL)
            _waitpid(child, 0)
        _sigtake((_SIGCHLD,), 0)
    except OSError:
        return  # the run folder stays, and the next taupy command stores it
