"""The plain-Python engine: calls, times and call paths by `sys.setprofile`, without a compiler.

It measures the Python routines of one process, in all threads that `threading` starts, and names
what it does not measure (`engine_part.py`). Recording begins with the program's first frame; the
part is written then, about once a second, and at the end. Runs inside the measured process:
built-in modules only.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import builtins
import posix
import sys
import time

from taupy.instrument import engine_part
from taupy.instrument.engine_part import identity
from taupy.instrument.selection import Selection
from taupy.state import rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

# The program may replace built-in functions; these stay what they are.
__builtins__ = {**vars(builtins)}  # type: ignore[assignment]
NOT_RECORDED = -1  # excluded: its time counts for its caller
OURS = -2  # this engine and the in-code API: ignored
NEVER = 1 << 63
_SAVE_NS = 1_000_000_000
_STARTS = ("__main__", "runpy")
_UNSUPPORTED = ("c_calls", "throttle", "metrics", "depth", "max_callpaths")
_MISSED = ("audit", "forks", "part", "profile_hook", "recursion", "threads")
_RESUMABLE = 0x20 | 0x80 | 0x200  # CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_RESUME = compile("0", "", "eval").co_code[:2]
_RETURNS = (compile("x", "", "eval").co_code[-2], compile("pass", "", "exec").co_code[-2])
"""The instructions that return; a routine whose last instruction is another one has raised."""

_clock, _cpu_clock = time.perf_counter_ns, time.thread_time_ns
_get_ident, _get_native_id = _thread.get_ident, _thread.get_native_id
_start_thread = _thread.start_new_thread
_STARTERS = (_start_thread, getattr(_thread, "start_joinable_thread", _start_thread))
_CHANGES = (  # of rights and of the root folder
    *("chroot", "unshare", "setns", "setuid", "setgid", "seteuid", "setegid", "setgroups"),
    *("initgroups", "setreuid", "setregid", "setresuid", "setresgid"),
)
_getpid, _getframe, _exit = posix.getpid, sys._getframe, posix._exit
_sigmask, _SIGNALS = _signal.pthread_sigmask, (*_signal.valid_signals(),)
_BLOCK, _SETMASK, _SIGINT = _signal.SIG_BLOCK, _signal.SIG_SETMASK, _signal.SIGINT
_setprofile, _getprofile = sys.setprofile, sys.getprofile
_modules = sys.modules
_code_of_exit: "Any" = SystemExit.__dict__["code"].__get__
_known = {*_modules}
_register_at_exit, _objects = __import__("atexit").register, __import__("gc").get_objects
for _name in {"atexit", "gc"} - _known:  # the program is not to see them
    del _modules[_name]
_engine: "Engine | None" = None


class Engine:
    """The engine of this process.

    Attributes:
        numbers: (file, name, line, module) of code -> its routine's number, or NOT_RECORDED, or
            OURS. Values, no code objects: a program may drop these, and addresses are used again.
        routines: (name, file, line) -> number, in the order of the numbers.
        ways_out: C functions whose call the engine must notice.
        missed: name of a note (`record/plain_part.py`) -> how much was not measured.
    """

    def __init__(self, options: "dict[str, Any]") -> None:
        self.unsupported = [name for name in _UNSUPPORTED if options.get(name)]
        patterns = options.get("include") or [], options.get("exclude") or []
        self.selection, self.has_patterns = Selection(*patterns), any(patterns)
        self.numbers: dict[tuple[str, str, int, object], int] = {}
        self.routines: dict[tuple[str, str, int], int] = {}
        self.numbering, self.writing = _thread.allocate_lock(), _thread.allocate_lock()
        self.changes = {getattr(posix, name, _exit) for name in _CHANGES} - {_exit}
        self.ways_out = {_exit, _setprofile, *_STARTERS, posix.execv, posix.execve, *self.changes}
        self.threads: list[ThreadTree] = []
        self.by_ident: dict[int, ThreadTree] = {}
        self.hook: Any = self.begin_thread  # always the same object, to be compared
        self.storer = options.get("storer_argv"), options.get("storer_env") or []
        self.stderr, self.rights = identity(2), rights.now()
        self.root_pid = int(options.get("root_pid") or 0)
        self.pid, self.process_start = _getpid(), options.get("process_start") or 0
        self.started_at, self.start_ns = time.time(), _clock()
        name, folder = b"%d-%x.pypart" % (self.pid, self.start_ns), options["run_folder"] + b"/"
        # Beside the database, for the last part if the run folder has no room.
        self.path, self.spill = folder + name, (options.get("spill_prefix") or folder) + name
        self.places = {at: identity(at[: at.rindex(b"/")]) for at in (self.path, self.spill)}
        self.running, self.waiting, self.due = True, True, 0
        self.exit_status: int | None = None
        self.main_ended = self.main_raised = self.written_last = False
        self.missed = dict.fromkeys(_MISSED, 0)

    def add_routine(self, key: "tuple[str, str, int, object]", frame: "FrameType") -> int:
        """Number the routine of a code object that is new."""
        self.reach_threads()
        file, name, line, _ = key
        module = dict.get(frame.f_globals, "__name__")
        with self.numbering:
            if engine_part.is_ours(file):
                number = OURS
            elif self.selection.selected(name, file, line, module if type(module) is str else ""):
                number = self.routines.setdefault((name, file, line), len(self.routines))
            else:
                number = NOT_RECORDED
            self.numbers[key] = number
        return number

    def wait(self, frame: "FrameType", event: str, arg: object) -> None:
        """Profile function until the program's first frame starts."""
        if event == "call" and dict.get(frame.f_globals, "__name__") in _STARTS:
            self.waiting = False
            self.started_at, self.start_ns = time.time(), _clock()
            self.begin_thread(frame, event, arg)

    def begin_thread(self, frame: "FrameType", event: str, arg: object) -> None:
        """Profile function of a thread until its first event."""
        name, begun, above = "" if self.threads else "MainThread", [], None
        if self.threads:  # the first routines of `threading` have begun
            above = frame.f_back if event == "call" else frame
        while above is not None:
            begun.append(above)
            above = above.f_back
        thread = self.by_ident[_get_ident()] = ThreadTree(self, _get_native_id(), name)
        self.threads.append(thread)
        self.name_threads()
        _setprofile(thread.callback)
        for above in reversed(begun):
            thread.callback(above, "call", None)
        thread.callback(frame, event, arg)

    def reach_threads(self) -> None:
        """Arrange that threads to come are recorded. Called at every new routine: `threading` has
        many, so this happens before the first thread can start."""
        attributes = _attributes(_modules.get("threading"))
        if self.running and attributes.get("_profile_hook", self) is None:
            attributes["_profile_hook"] = self.hook

    def name_threads(self) -> None:
        """The living threads' names, read without running the program's code."""
        active: Any = _attributes(_modules.get("threading")).get("_active")
        for ident, thread in self.by_ident.copy().items() if type(active) is dict else ():
            name = _attributes(active.get(ident)).get("_name")
            if type(name) is str:
                thread.name = name

    def way_out(self, function: object, frame: "FrameType") -> None:
        """The program is about to call a C function that matters to the engine: it ends the
        process without finalizing Python, starts a thread, or sets a hook."""
        if function is _exit:
            self.end()
        elif function in _STARTERS:
            threading = _attributes(_modules.get("threading"))
            is_hooked = threading.get("_profile_hook") is self.hook
            self.missed["threads"] += not (frame.f_globals is threading and is_hooked)
        elif function is _setprofile:
            self.missed["profile_hook"] = 1
        elif function in self.changes:  # it may not write the part any more
            self.save()
        else:  # after a successful exec nothing closes this part; a failed one is rewritten
            self.save("ended")
            self.written_last = False

    def is_refused(self, frame: "FrameType") -> bool:
        """Whether an audit hook of the program forbids what we do, such as inspecting a frame or
        opening a file. What it refuses is not recorded, and the program continues."""
        signals = _sigmask(_BLOCK, _SIGNALS)  # an exception of a handler is not a refusal
        try:
            posix.close(posix.open(b"/dev/null", posix.O_RDONLY | posix.O_CLOEXEC))
            return frame.f_code is None
        except BaseException:
            self.missed["audit"] = 1
            return True
        finally:
            _sigmask(_SETMASK, signals)

    def save(self, state: str = "running") -> None:
        """Write the part, by one thread at a time; "running" is never written after "ended"."""
        is_last = state == "ended"
        if _getpid() != self.pid:
            return
        # Only the last part waits for the lock, but not forever: at the interpreter's end the
        # other thread may never run again.
        has_lock = self.writing.acquire(is_last, 5 if is_last else -1)
        try:
            if is_last or (has_lock and not self.written_last):
                self.written_last = is_last
                self.name_threads()
                if current := self.by_ident.get(_get_ident()):
                    current.cpu_ns = _cpu_clock() - current.cpu_start_ns
                is_written = engine_part.write(self, self.path, state)
                if is_last and not is_written and rights.now() == self.rights:
                    is_written = engine_part.write(self, self.spill, state)
                self.missed["part"] |= not is_written
        finally:
            if has_lock:
                self.writing.release()

    def save_now(self, thread: "ThreadTree") -> None:
        """Write the part from a callback, and subtract the time that took from all open entries.
        A large part is written less often, so that no more than 5 % of the time is spent on it."""
        before, self.due = _clock(), NEVER  # other threads continue to count meanwhile
        try:
            self.save()
        finally:
            now = _clock()
            thread.shift(now - before)
            self.due = now + max(_SAVE_NS, 20 * (now - before)) if self.running else NEVER

    def at_exit(self) -> None:
        if _getframe().f_back is None:  # not if the program calls `atexit._run_exitfuncs()`
            self.end()

    def after_fork_in_child(self) -> None:
        """A forked process is not measured."""
        self.running, self.root_pid, self.due = False, 0, NEVER
        thread = self.by_ident.get(_get_ident())
        if thread is not None and _getprofile() is thread.callback:
            _setprofile(None)
        self.release_threads()

    def after_fork_in_parent(self) -> None:
        self.missed["forks"] += 1

    def note_end_of_main(self, thread: "ThreadTree", frame: "FrameType") -> None:
        """If the program's outermost frame ends, note the exit code, if it can be determined.

        It ends by an exception if its last instruction is not a return. A SystemExit is found among
        all objects (on 3.11 `sys.exit` may not have created it yet: the code remains unknown)."""
        if self.main_ended or thread is not self.threads[0] or self.missed["profile_hook"]:
            return  # it runs at exit, or how the program ended was not seen
        if frame.f_back is not None or frame.f_code.co_filename.startswith("<frozen importlib"):
            return  # for -m, the interpreter imports runpy
        self.main_ended, self.exit_status, self.due = True, 0, 0  # it is written now
        if frame.f_code.co_code[frame.f_lasti] not in _RETURNS:
            self.main_raised, self.exit_status = True, None
            exits = [thing for thing in _objects() if issubclass(type(thing), SystemExit)]
            if len(exits) == 1:
                self.exit_status = _status_of(_code_of_exit(exits[0]))

    def end(self) -> None:
        """Stop, and store the run if this is the process that was launched."""
        signals = _sigmask(_BLOCK, _SIGNALS)
        try:
            argv, environment = self.storer
            if not (argv and self.root_pid == _getpid() and rights.now() == self.rights):
                return self.stop()
            self.root_pid = 0
            engine_part.ignore_signals()  # before the part is written: other threads block none
            self.stop()
            engine_part.store(argv, environment, self.stderr)
        except Exception:
            return  # the ending cannot be noted, but the part exists
        finally:
            _sigmask(_SETMASK, signals)

    def stop(self) -> None:
        """Stop recording and close the part."""
        if not self.running:
            return
        # Our own frames cause events, too: the return of `save` must not write again.
        self.running, self.due = False, NEVER
        current = self.by_ident.get(_get_ident())
        is_set = current is not None and _getprofile() is current.callback
        self.missed["profile_hook"] |= current is not None and not is_set
        last = getattr(sys, "last_type", None)
        if self.main_raised and last is not None:  # the interpreter has printed a traceback
            self.exit_status = -_SIGINT if issubclass(last, KeyboardInterrupt) else 1
            if sys.excepthook is not sys.__excepthook__ or sys.flags.inspect:
                self.exit_status = None  # the program decides
        if not self.waiting:
            self.save("ended")
        if self.waiting or is_set:
            _setprofile(None)
        self.release_threads()

    def release_threads(self) -> None:
        attributes = _attributes(_modules.get("threading"))
        if attributes.get("_profile_hook") is self.hook:
            attributes["_profile_hook"] = None


class ThreadTree:
    """The call paths of one thread: columns of equal length, a call path is a row. Other threads
    may copy them at any time, as they grow by appending, `parent` last.

    Beside them is a stack of open activations: the frame's id; its call path, or its caller's if it
    is not recorded; the clock at its entry, or NOT_RECORDED. Both the frame that returns and the
    caller of one that starts are found in it by identity. An event that the interpreter omits
    (3.13: the end of a closed generator) or a frame that began before us thus shifts no others.
    """

    def __init__(self, engine: Engine, native_id: int, name: str) -> None:
        self.engine, self.native_id, self.name = engine, native_id, name
        self.routine, self.parent = [-1], [-1]
        self.calls, self.resumes = [1], [0]
        self.inclusive = [0]
        self.children: dict[tuple[int, int], int] = {}  # (row, routine) -> row
        self.cpu_start_ns, self.cpu_ns = _cpu_clock(), 0
        self.ended_ns = 0  # when the last routine returned; 0 while one is open
        self.stack: list[tuple[int, int, int]] = [(0, 0, _clock())]
        self.callback: Any = self.on_event  # always the same object, to be compared

    def on_event(self, frame: "FrameType", event: str, arg: object) -> None:
        """The function for `sys.setprofile`."""
        try:
            if event == "call":
                self._enter(frame)
            elif event == "return":
                self._leave(frame)
            elif event == "c_call" and arg in self.engine.ways_out:
                self.engine.way_out(arg, frame)
        except RecursionError:
            self.engine.missed["recursion"] += 1  # at the program's limit we cannot call either
        except BaseException as error:
            if self.engine.is_refused(frame):
                return
            # A signal handler of the program raised meanwhile: without our frames in its traceback.
            trace = error.__traceback__
            while trace is not None and engine_part.is_ours(trace.tb_frame.f_code.co_filename):
                trace = trace.tb_next
            error.__traceback__ = trace
            raise

    def _enter(self, frame: "FrameType") -> None:
        """A Python routine starts or resumes."""
        engine, code = self.engine, frame.f_code
        module = dict.get(frame.f_globals, "__name__") if engine.has_patterns else None
        key = code.co_filename, code.co_qualname, code.co_firstlineno, module
        routine = engine.numbers.get(key)
        if routine is None:
            routine = engine.add_routine(key, frame)
        if routine == OURS:
            return
        resumed = False
        if code.co_flags & _RESUMABLE:
            at, start = frame.f_lasti, _start_offset(code)
            if at < start:
                return  # an exception was thrown into it before it began, so its body never runs
            resumed = at > start
        row = self._caller(frame.f_back)
        if routine == NOT_RECORDED:
            self.stack.append((id(frame), row, NOT_RECORDED))
            return
        child = self.children.get((row, routine))
        if child is None:
            child = len(self.parent)
            self.routine.append(routine)
            for column in (self.calls, self.resumes, self.inclusive):
                column.append(0)
            self.parent.append(row)
            self.children[row, routine] = child
        now = _clock()
        self.stack.append((id(frame), child, now))
        (self.resumes if resumed else self.calls)[child] += 1
        if now > engine.due:
            engine.save_now(self)

    def _leave(self, frame: "FrameType") -> None:
        """A Python routine returns, yields, or is left by an exception."""
        now = _clock()
        stack, owner = self.stack, id(frame)
        for at in range(len(stack) - 1, 0, -1):
            if stack[at][0] == owner:
                self._drop_above(at - 1, now)
                break
        if len(stack) == 1:
            self.ended_ns = now
            self.cpu_ns = _cpu_clock() - self.cpu_start_ns
            self.engine.note_end_of_main(self, frame)
            self.shift(_clock() - now)
        if now > self.engine.due:
            self.engine.save_now(self)

    def _caller(self, caller: "FrameType | None") -> int:
        """Make the nearest known frame, from `caller` outwards, the top of the stack; its row, the
        root's if none is known."""
        stack, frame = self.stack, caller
        if stack[-1][0] == id(caller):
            return stack[-1][1]
        while frame is not None:
            owner = id(frame)
            for at in range(len(stack) - 1, 0, -1):
                if stack[at][0] == owner:
                    self._drop_above(at, _clock())
                    return stack[-1][1]
            frame = frame.f_back
        self._drop_above(0, _clock())
        stack[0] = (id(caller), 0, stack[0][2])  # makes the next look-up fast
        return 0

    def _drop_above(self, at: int, now: int) -> None:
        """Close all entries above position `at`."""
        stack, inclusive = self.stack, self.inclusive
        while len(stack) - 1 > at:
            _, row, start = stack.pop()
            if start >= 0:
                inclusive[row] += now - start

    def shift(self, cost_ns: int) -> None:
        """Exclude the engine's own time, just spent, from all open entries."""
        self.stack[:] = [
            (owner, row, start + cost_ns if start >= 0 else start)
            for owner, row, start in self.stack
        ]
        if self.ended_ns:
            self.ended_ns += cost_ns


def _start_offset(code: "CodeType") -> int:
    """Where in the bytecode the body begins; a generator that is resumed is past it."""
    words = code.co_code
    return next((at for at in range(0, len(words), 2) if words[at : at + 2] == _RESUME), 0)


def _status_of(code: object) -> int:
    """The exit status for a SystemExit with this code."""
    if not issubclass(type(code), int):
        return 0 if code is None else 1
    number: int = int.__index__(code)  # type: ignore[arg-type]
    return number & 0xFF if -NEVER <= number < NEVER else 255


def _attributes(thing: object) -> "dict[str, Any]":
    """An object's variables, bypassing any `__getattribute__` of its class."""
    try:
        variables = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return variables if type(variables) is dict else {}


def start(options: "dict[str, Any]") -> None:
    """Begin to record with the program's first frame. The options are the compiled engine's.

    Raises:
        RuntimeError: it is running already, or this is a subinterpreter or a child process.
    """
    global _engine
    if _engine is not None and _engine.running:
        raise RuntimeError("the engine is running already")
    if options["root_pid"] != _getpid():
        raise RuntimeError("the plain engine does not measure child processes")
    try:
        _signal.set_wakeup_fd(-1)  # the initial state; allowed in the main interpreter only
    except ValueError:
        raise RuntimeError("the plain engine does not measure subinterpreters") from None
    engine = _engine = Engine(options)
    posix.register_at_fork(
        after_in_child=engine.after_fork_in_child, after_in_parent=engine.after_fork_in_parent
    )
    _register_at_exit(engine.at_exit)
    _setprofile(engine.wait)
