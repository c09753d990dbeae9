"""The plain-Python engine in its process: threads, forks, ways out, and when to write.

Runs inside the measured process: built-in modules only.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import posix
import sys
import time

# The program may replace built-in functions; these stay what they are.
from builtins import (  # noqa: UP029
    AttributeError,
    BaseException,
    Exception,
    KeyboardInterrupt,
    SystemExit,
    any,
    bool,
    dict,
    getattr,
    int,
    issubclass,
    len,
    max,
    min,
    object,
    str,
    type,
)

from taupy.instrument import engine_guard, engine_part
from taupy.instrument.engine_children import EXECS, Children
from taupy.instrument.engine_dynamo import Dynamo
from taupy.instrument.engine_events import ThreadEvents
from taupy.instrument.engine_phases import Phases
from taupy.instrument.engine_routines import RETURNS
from taupy.instrument.engine_state import NEVER, EngineState
from taupy.instrument.engine_tree import ThreadTree
from taupy.state import rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_LONG = 1 << 63
_SAVE_FIRST_NS, _SAVE_AT_MOST_NS = 10_000_000, 1_000_000_000
_EXEC_NS = 100_000_000  # longer than any successful exec takes
_STARTS = ("__main__", "runpy")
_allocate_lock = _thread.allocate_lock
_get_ident, _get_native_id = _thread.get_ident, _thread.get_native_id
_getswitchinterval, _setswitchinterval = sys.getswitchinterval, sys.setswitchinterval
_getpid, _getframe = posix.getpid, sys._getframe
_real_time = time.time
_objects = engine_guard.private_module("gc").get_objects
_setprofile, _getprofile = sys.setprofile, sys.getprofile
_setrecursionlimit = sys.setrecursionlimit
_exit = posix._exit
_SETTERS = (_setprofile, getattr(sys, "_setprofileallthreads", _setprofile))
_STARTERS = (
    _thread.start_new_thread,
    getattr(_thread, "start_joinable_thread", _thread.start_new_thread),
)
_set_handler, _SIGINT = _signal.signal, int(_signal.SIGINT)
_BLOCKS = (posix.read, posix.waitpid, posix.kill, posix.abort, time.sleep)
_CHANGES = {  # of rights; afterwards the part can no longer be written
    *map(
        posix.__dict__.get,
        (
            *("chroot", "unshare", "setns", "setuid", "setgid", "seteuid", "setegid"),
            *("setgroups", "initgroups", "setreuid", "setregid", "setresuid", "setresgid"),
        ),
    )
} - {None}
_code_of_exit: "Any" = SystemExit.__dict__["code"].__get__


class Engine:
    """The engine of this process: threads, forks, and when the part is written.

    Attributes:
        threads: all threads, ended ones too; `by_ident` has the running ones.
    """

    def __init__(self, options: "dict[str, Any]") -> None:
        state = self.state = EngineState(options)
        self.waiting = bool(options.get("wait_for_main"))
        self.root_pid = int(options.get("root_pid") or 0)
        self.storer = options.get("storer_argv"), options.get("storer_env") or []
        self.folder: bytes | None = options.get("run_folder")
        self.path: bytes | None = options.get("part_path")
        self.spill_prefix: bytes | None = options.get("spill_prefix")
        self.spill: bytes | None = None
        self.stderr = engine_part.identity_of_stderr()
        self.rights = rights.now()
        self.threads: list[ThreadTree] = []
        self.by_ident: dict[int, ThreadTree] = {}
        self.first_thread: ThreadTree | None = None
        self.phases = Phases(state, self.by_ident)
        self.children = Children(state)
        self.looks = [
            self.reach_threads,
            self.children.find_starters,
            Dynamo(state.metadata).is_told,
        ]
        state.routines.on_new_code = self.look_at_modules
        state.ways_out |= {_exit, _set_handler, _setrecursionlimit}
        state.ways_out |= {*_SETTERS, *_STARTERS, *_BLOCKS, *_CHANGES}
        self.samples_memory = bool(options.get("sample_ms"))
        self.save_every_ns, self.save_cost_ns, self.saved_ns = _SAVE_FIRST_NS, 0, 0
        self.writing, self.written_last = _allocate_lock(), False
        self.main_ended = self.main_raised = False
        self.main_code: object = None
        self.begin_part()

    def begin_part(self) -> None:
        self.state.pid = _getpid()
        self.state.process_start = engine_part.process_start_time()
        self.state.started_at = _real_time()
        self.state.start_ns = self.state.clock()
        if self.folder is not None:
            name = b"%d-%x.pypart" % (self.state.pid, self.state.start_ns)
            self.path = self.folder + b"/" + name
            # A helper outlives the run, after which files elsewhere are no longer collected.
            elsewhere = None if self.state.helper and not self.state.forked else self.spill_prefix
            self.spill = None if elsewhere is None else elsewhere + name
        elif self.state.forked and self.path is not None:
            self.path += b".%d" % self.state.pid

    # ------------------------------------------------------------ threads and hooks

    def guard(self) -> None:
        """From now on, set the profile function again if it is lost."""
        self.state.guard_depth = NEVER
        engine_guard.set_again_after_errors(self.state, self.by_ident)

    def is_refused(self, frame: "FrameType") -> bool:
        """Whether an audit hook of the program forbids what we do, such as inspecting a frame or
        opening a file. Recording then ends, and the program continues."""
        signals = engine_part.hold_signals()  # an exception of a handler is not a refusal
        try:
            engine_part.process_start_time()
            return frame.f_code is None
        except BaseException:
            self.state.refused = True
            return True
        finally:
            engine_part.release_signals(signals)

    def wait(self, frame: "FrameType", event: str, arg: object) -> None:
        """Profile function until the program's first frame starts."""
        if event == "call" and dict.get(frame.f_globals, "__name__") in _STARTS:
            self.waiting = False
            self.main_code = frame.f_code
            self.begin_first_thread()(frame, event, arg)

    def begin_first_thread(self) -> "Any":
        self.state.started_at, self.state.start_ns = _real_time(), self.state.clock()
        thread = self.first_thread = self.add_thread("MainThread")
        thread.is_first = True
        _setprofile(thread.callback)
        self.look_at_modules()
        if self.path is not None and self.state.real_time:
            self.state.due[0] = 0  # write the first part at once
        return thread.callback

    def begin_thread(self, frame: "FrameType", event: str, arg: object) -> None:
        """Profile function of a thread of `threading`, until its first event."""
        thread = self.add_thread("")
        self.name_thread(thread)
        _setprofile(thread.callback)
        thread.adopt(frame.f_back if event == "call" else frame)
        thread.callback(frame, event, arg)

    def add_thread(self, name: str) -> ThreadTree:
        ident = _get_ident()
        thread = ThreadTree(self.state, _get_native_id(), ident, name)
        events = ThreadEvents(self.state, thread, self.phases, self.children, self)
        thread.callback = events.on_event
        self.by_ident[ident] = thread
        self.threads.append(thread)
        return thread

    def look_at_modules(self) -> None:
        """Arrange that future threads are recorded, find the functions that start processes, and
        speak to TorchDynamo. Called at every new routine: `threading`, `subprocess` and PyTorch
        have many of their own, so this happens before the first thread or process can start."""
        self.looks = [look for look in self.looks if not look()]

    def reach_threads(self) -> bool:
        """Whether future threads are recorded."""
        threading = sys.modules.get("threading")
        if threading is not None and self.first_thread is not None:
            attributes = _attributes(threading)
            if attributes.get("_profile_hook", self) is None and not self.state.threads_replaced:
                attributes["_profile_hook"] = self.begin_thread
                return True
        return False

    def name_thread(self, thread: ThreadTree) -> None:
        """A living thread's name, read without running the program's code."""
        threads = _attributes(sys.modules.get("threading")).get("_active")
        if type(threads) is dict and self.by_ident.get(thread.ident) is thread:
            name = _attributes(threads.get(thread.ident)).get("_name")
            if type(name) is str and name != thread.name:
                if thread.name and not (thread is self.first_thread and self.state.forked):
                    place = self.threads.index(thread)
                    self.state.metadata.setdefault(f"taupy.thread.{place}.first_name", thread.name)
                thread.name = name

    # ------------------------------------------------------------ writing the part

    def save(self, status: str = "running") -> None:
        if _getpid() != self.state.pid:
            self.forked_child()  # after a fork outside Python
        for thread in self.threads.copy():
            self.name_thread(thread)
        current = self.by_ident.get(_get_ident())
        if current is not None and self.samples_memory:
            self.sample_memory(current)
        if current is not None and status == "ended":
            current.cpu_ns = self.state.cpu_clock() - current.cpu_start_ns
        if self.path is not None:
            self.write(self.path, status)

    def write(self, path: bytes, status: str) -> None:
        """Write the part, by one thread at a time; "running" is never written after "ended"."""
        is_last = status == "ended"
        # A part that will be followed by another need not wait for the lock. The last one waits,
        # but not forever: at the interpreter's end the other thread may never run again.
        is_ours = self.writing.acquire(is_last, 5 if is_last else -1)
        if not is_ours and not is_last:
            return
        try:
            if self.written_last and not is_last:
                return
            self.written_last = is_last
            # Another thread may have changed the data meanwhile; a retry may succeed. The last
            # part is the one that counts.
            tries = 3 if is_last else 1
            while tries and not engine_part.write(self.state, self.threads, path, status):
                tries -= 1
            if not tries and is_last and self.spill is not None and rights.now() == self.rights:
                tries = engine_part.write(self.state, self.threads, self.spill, status)
            self.state.unwritten = self.state.unwritten or not tries
        finally:
            if is_ours:
                self.writing.release()

    def sample_memory(self, thread: ThreadTree) -> None:
        """Sample the process's resident memory. There are too few samples to know where it grew."""
        if kib := engine_part.resident_kib():
            thread.add_sample("Resident Memory", "KiB", 0, kib)

    def save_now(self, thread: ThreadTree) -> None:
        """Write the part from a callback, and subtract the time that took from all open entries.

        Nothing is written during a call of the in-code API, nor in a signal handler or finalizer
        that runs during one: the call may have read the clock already, and the entry that it is
        about to end would then start after that reading.
        """
        if not self.state.running or thread.in_api:
            return
        before = self.state.clock()
        self.state.due[0] = NEVER  # other threads continue to count meanwhile
        try:
            self.save()
        finally:
            self.saved_ns = self.state.clock()
            cost = self.save_cost_ns = self.saved_ns - before
            thread.shift(cost)
            self.state.due[0] = self.saved_ns + max(self.save_every_ns, 20 * cost)
            self.save_every_ns = min(2 * self.save_every_ns, _SAVE_AT_MOST_NS)

    def way_out(self, function: object, frame: "FrameType") -> None:
        """The program is about to call a C function that matters to the engine: it ends the
        process without finalizing Python, may wait long, or sets a hook."""
        if function is _exit:
            self.end()
        elif function in _SETTERS:
            thread = self.by_ident.get(_get_ident())
            if thread is not None and self.state.running:
                thread.replaced = True
                self.state.replaced += 1
                engine_guard.set_again_when_removed(self.state, self.by_ident)
        elif function in _STARTERS:
            # All others start threads through `threading`.
            threading = _attributes(sys.modules.get("threading"))
            hook = threading.get("_profile_hook")
            if frame.f_globals is not threading:
                self.state.unseen_threads += 1
            elif hook is None and self.state.running:  # the program has removed its own hook
                threading["_profile_hook"] = self.begin_thread
            elif hook != self.begin_thread:
                self.state.threads_replaced = True
        elif function in self.children.starters:
            thread = self.by_ident.get(_get_ident())
            if thread is not None:
                self.children.expect(thread)
        elif function is _set_handler or function is _setrecursionlimit:
            self.guard()
        elif self.state.running and function in EXECS:
            self.children.become(self.by_ident.get(_get_ident()))
            # After a successful exec nothing closes this part; after a failed one it is rewritten.
            self.save("ended")
            self.written_last = False
            # Other threads run until the new image takes over.
            self.state.due[0] = self.state.clock() + _EXEC_NS if self.state.real_time else NEVER
        elif self.state.running and self.state.real_time:
            # A process may be killed while it waits. Saving may take a twentieth of the time.
            thread = self.by_ident.get(_get_ident())
            if thread is not None and thread.child_began_ns:
                self.children.wait(thread)
            is_due = self.state.clock() - self.saved_ns > 20 * self.save_cost_ns
            if thread is not None and (is_due or function in _CHANGES):
                self.save_now(thread)

    def at_exit(self) -> None:
        # If a frame calls it, the program called `atexit._run_exitfuncs()` and continues.
        if _getframe().f_back is None:
            self.end()

    def end(self) -> None:
        """Stop, and store the run if this is the process that was launched."""
        # Otherwise each of our steps would wait for all busy daemon threads in turn.
        interval = _getswitchinterval()
        _setswitchinterval(1e-5)
        signals = engine_part.hold_signals()
        try:
            self._end()
        except Exception:
            return  # the ending cannot be noted, but the part exists
        finally:
            engine_part.release_signals(signals)
            _setswitchinterval(interval)

    def _end(self) -> None:
        self.stop()
        argv, environment = self.storer
        if self.root_pid == _getpid() and argv and rights.now() == self.rights:
            self.root_pid = 0
            engine_part.store(argv, environment, self.stderr)

    def note_end_of_main(self, frame: "FrameType") -> None:
        """The program's outermost frame ends: note the exit code, if it can be determined.

        The frame ends by an exception if its last instruction is not a return. The exception is
        not accessible, but a SystemExit being raised is found among all objects (on 3.11 `sys.exit`
        may not have created it yet; the code then remains unknown).
        """
        if self.main_ended or frame.f_back is not None:
            return  # it runs at exit, or was imported before the program
        if self.state.replaced and frame.f_code is not self.main_code:
            return  # it runs at exit, and how the program ended was not seen
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return  # for -m, the interpreter imports runpy
        self.main_ended = True
        self.state.exit_status = 0
        if frame.f_code.co_code[frame.f_lasti] not in RETURNS:
            self.main_raised = True
            self.state.exit_status = None
            exits = [thing for thing in _objects() if issubclass(type(thing), SystemExit)]
            if len(exits) == 1:
                self.state.exit_status = _status_of(_code_of_exit(exits[0]))

    def stop(self) -> None:
        if not self.state.running:
            return
        self.look_after_hooks()
        last = getattr(sys, "last_type", None)
        if self.main_raised and last is not None:  # the interpreter has printed a traceback
            self.state.exit_status = -_SIGINT if issubclass(last, KeyboardInterrupt) else 1
        engine_guard.rest()
        # Our own frames cause events, too: the return of `save` must not write again.
        self.state.due[0] = NEVER
        if not self.waiting:
            self.save("ended")
        self.state.running = False
        current = self.by_ident.get(_get_ident())
        if self.waiting or (current is not None and _getprofile() is current.callback):
            _setprofile(None)
        attributes = _attributes(sys.modules.get("threading"))
        if attributes.get("_profile_hook") == self.begin_thread:
            attributes["_profile_hook"] = None

    def look_after_hooks(self) -> None:
        thread = self.by_ident.get(_get_ident())
        if thread is not None and _getprofile() is not thread.callback:
            self.state.replaced += not thread.replaced
        hook = _attributes(sys.modules.get("threading")).get("_profile_hook")
        if hook is not None and hook != self.begin_thread:
            self.state.threads_replaced = True

    # ------------------------------------------------------------ throttling, forks

    def throttle(self, thread: ThreadTree, row: int, took_ns: int) -> None:
        """TAU's rule: throttle a routine with many short calls, but not while it is open."""
        number = thread.routines[row]
        routines = self.state.routines
        if routines.records[number][3] == "timer":
            return
        routines.calls[number] += 1
        routines.took_ns[number] += took_ns
        calls = routines.calls[number]
        if (
            calls <= self.state.throttle_calls
            or routines.took_ns[number] >= calls * self.state.throttle_ns
        ):
            return
        for other in self.threads:
            if any(other.routines[row] == number for _, row, start in other.stack if start >= 0):
                return
        routines.throttle(number)

    def after_fork(self) -> None:
        if self.state.running:
            self.forked_child()

    def forked_child(self) -> None:
        """In a forked child: begin a part of its own, which contains the open call path."""
        thread = self.by_ident.get(_get_ident())
        self.state.forked = True
        self.state.due[0], self.state.running = (
            NEVER,
            False,
        )  # nothing is written until this is the child's
        self.writing, self.written_last = _allocate_lock(), False
        self.begin_part()
        self.state.exit_status, self.main_ended = None, False
        self.save_every_ns, self.save_cost_ns, self.saved_ns = _SAVE_FIRST_NS, 0, 0
        self.state.reset_counts()
        self.state.metadata.clear()
        self.children.begin()
        self.state.node = None
        self.by_ident.clear()
        self.threads.clear()
        if thread is not None:
            thread.native_id = _get_native_id()
            thread.name, thread.child_began_ns = "MainThread", 0
            self.phases.forked(thread, thread.begin_again())
            thread.is_first = True
            self.by_ident[thread.ident] = thread
            self.threads.append(thread)
            self.first_thread = thread
        self.state.running = True
        if self.path is not None and self.state.real_time:
            self.state.due[0] = 0


def _status_of(code: object) -> int:
    """The exit status for a SystemExit with this code."""
    if code is None:
        return 0
    if issubclass(type(code), int):
        number: int = int.__index__(code)  # type: ignore[arg-type]
        return number & 0xFF if -_LONG <= number < _LONG else 255
    return 1


def _attributes(thing: object) -> "dict[str, Any]":
    """An object's variables, bypassing any `__getattribute__` of its class."""
    if thing is None:
        return {}
    try:
        variables = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return variables if type(variables) is dict else {}
