"""The plain-Python engine: exact call paths by `sys.setprofile`, on every Python.

It offers what the compiled engine offers (`taupy._native.engine`), under the same names,
and is held to the same tests. Recording begins with the program's first frame; the part
is written about once a second and at the end (engine_part.py); engine_tree.py keeps the
call paths, engine_routines.py the names.

Threads are reached through `threading._profile_hook`, set as soon as the program imports
threading. Threads made by `_thread` alone or by C are not seen; their number is told.

The interpreter removes a profile function written in Python as soon as it raises, and it
raises without a fault of its own when the program reaches its recursion limit, or when a
signal handler raises in it. Removing it is an audited event, and an audit hook that raises
forbids it: see `_audit`. It is there from the first deep recursion on, not before.

What plain Python cannot give, and the compiled engine does: what was counted in the last
second before a SIGKILL, the exit status, the same depth of recursion (programs reach two
levels less), and a program that finds no function in `sys.getprofile()`.

Runs inside the measured process: built-in modules only.
"""

import _signal  # type: ignore[import-not-found]
import _thread
import atexit
import gc
import posix
import sys
import time

from taupy.instrument import engine_part
from taupy.instrument.engine_routines import Routines, is_ours
from taupy.instrument.engine_tree import ThreadTree
from taupy.instrument.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

_SAVE_EVERY_NS = 1_000_000_000
_NEVER = 1 << 63
_STARTS = ("__main__", "runpy")
_get_ident, _get_native_id = _thread.get_ident, _thread.get_native_id
_getpid, _getframe = posix.getpid, sys._getframe
_setprofile, _getprofile = sys.setprofile, sys.getprofile
_EXITS = (posix._exit, posix.abort)
_EXECS = (posix.execv, posix.execve)
_SETTERS = (_setprofile, getattr(sys, "_setprofileallthreads", _setprofile))
_STARTERS = (
    _thread.start_new_thread,
    getattr(_thread, "start_joinable_thread", _thread.start_new_thread),
)
_set_handler = _signal.signal


class Engine:
    """The state of one measurement; the interpreter's hooks make it the process's only one.

    Attributes:
        due: one number, the time after which the part is written again.
    """

    def __init__(self, options: "dict[str, Any]") -> None:
        self.clock: Any = options.get("clock") or time.perf_counter_ns
        self.cpu_clock: Any = options.get("cpu_clock") or time.thread_time_ns
        self.real_time = options.get("clock") is None
        self.c_calls = bool(options.get("c_calls"))
        self.depth = int(options.get("depth") or 0)
        self.max_callpaths = int(options.get("max_callpaths") or 8 << 20)
        self.throttling = bool(options.get("throttle"))
        self.throttle_calls = int(options.get("throttle_calls") or 100_000)
        self.throttle_ns = int(options.get("throttle_ns_per_call") or 10_000)
        self.wants_cpu_time = bool(options.get("cpu_time"))
        self.samples_memory = bool(options.get("sample_ms"))
        self.resident_kib = 0
        self.waiting = bool(options.get("wait_for_main"))
        self.root_pid = int(options.get("root_pid") or 0)
        self.storer = options.get("storer_argv"), options.get("storer_env") or []
        self.folder: bytes | None = options.get("run_folder")
        self.path: bytes | None = options.get("part_path")
        include, exclude = options.get("include") or [], options.get("exclude") or []
        selection = Selection(include, exclude) if include or exclude else None
        self.routines = Routines(selection)
        self.routines.on_new_code = self.reach_threads
        self.ways_out = frozenset(
            (*_EXITS, *_EXECS, *_SETTERS, *_STARTERS, _set_handler, posix.kill)
        )
        self.stderr = engine_part.identity_of_stderr()
        self.threads: list[ThreadTree] = []
        self.first_thread: ThreadTree | None = None
        self.by_ident: dict[int, ThreadTree] = {}
        self.disabled: set[str] = set()
        self.metadata: dict[str, str] = {}
        self.due = [_NEVER]
        self.running = True
        self.guard_depth = _NEVER if _guarded else sys.getrecursionlimit() // 4
        self.replaced = 0
        self.lost_events = self.overlaps = self.row_count = self.calls_over_limit = 0
        self.unseen_threads = self.snapshots = 0
        self.unwritten = self.greenlets = self.threads_replaced = False
        self.exit_status: int | None = None
        self.node: int | None = None
        self.forked = False
        self.begin_part()

    def begin_part(self) -> None:
        self.pid = _getpid()
        self.process_start = engine_part.process_start_time()
        self.started_at = time.time()
        self.start_ns = self.clock()
        if self.folder is not None:
            self.path = self.folder + b"/%d-%x.pypart" % (self.pid, self.start_ns)
        elif self.forked and self.path is not None:
            self.path += b".%d" % self.pid

    # ------------------------------------------------------------ threads and hooks

    def guard(self) -> None:
        """Let an audit hook keep our profile function where it is. It costs as much as all
        the rest, since the interpreter audits every look at a frame's code: only where it
        is needed."""
        global _guarded
        self.guard_depth = _NEVER
        if not _guarded:
            _guarded = True
            try:
                sys.addaudithook(_audit)
            except Exception:
                return  # the program's own audit hook refuses it

    def wait(self, frame: "FrameType", event: str, arg: object) -> None:
        """Profile function until the program's first frame starts."""
        if event == "call" and dict.get(frame.f_globals, "__name__") in _STARTS:
            self.waiting = False
            self.begin_first_thread()(frame, event, arg)

    def begin_first_thread(self) -> "Any":
        self.started_at, self.start_ns = time.time(), self.clock()
        thread = self.first_thread = self.add_thread("MainThread")
        _setprofile(thread.callback)
        self.reach_threads()
        if self.path is not None and self.real_time:
            self.due[0] = 0  # the first part is written at once
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
        thread = ThreadTree(self, _get_native_id(), ident, name)
        self.by_ident[ident] = thread
        self.threads.append(thread)
        return thread

    def reach_threads(self) -> None:
        """Have the threads to come begin with us. Asked at every new routine: `threading`
        itself has many, so that the first thread cannot start before."""
        threading = sys.modules.get("threading")
        if threading is not None and self.first_thread is not None:
            attributes = _attributes(threading)
            if attributes.get("_profile_hook", self) is None and not self.threads_replaced:
                attributes["_profile_hook"] = self.begin_thread
                self.routines.on_new_code = lambda: None

    def name_thread(self, thread: ThreadTree) -> None:
        """A living thread's name, read without running the program's code."""
        known = _attributes(sys.modules.get("threading")).get("_active")
        if type(known) is dict and self.by_ident.get(thread.ident) is thread:
            name = _attributes(known.get(thread.ident)).get("_name")
            if type(name) is str:
                thread.name = name

    # ------------------------------------------------------------ what is written when

    def save(self, state: str = "running") -> None:
        if _getpid() != self.pid:
            self.forked_child()  # a fork that Python does not know of
        for thread in self.threads.copy():
            self.name_thread(thread)
        current = self.by_ident.get(_get_ident())
        if current is not None and self.samples_memory:
            self.sample_memory(current)
        if current is not None and state == "ended":
            current.cpu_ns = self.cpu_clock() - current.cpu_start_ns
        if self.path is not None and not engine_part.write(self, self.path, state):
            self.unwritten = True

    def sample_memory(self, thread: ThreadTree) -> None:
        """Resident memory of the process, and its growth where it is noticed."""
        kib = engine_part.resident_kib()
        if kib:
            thread.add_sample("Resident Memory", "KiB", 0, kib)
            if 0 < self.resident_kib < kib:
                row = thread.stack[-1][1]
                thread.add_sample("Resident Memory Growth", "KiB", row, kib - self.resident_kib)
            self.resident_kib = kib

    def save_now(self, thread: ThreadTree) -> None:
        """From a callback: write, and take the time it took out of all that is open."""
        if not self.running:
            return
        before = self.clock()
        self.due[0] = _NEVER  # other threads go on counting meanwhile
        self.save()
        cost = self.clock() - before
        thread.shift(cost)
        self.due[0] = before + cost + max(_SAVE_EVERY_NS, 20 * cost)

    def way_out(self, function: object, frame: "FrameType") -> None:
        """The program is about to call a C function that we must know of: most of them
        leave without Python's own end."""
        if function in _EXITS:
            self.end()
        elif function in _SETTERS:
            thread = self.by_ident.get(_get_ident())
            if thread is not None and self.running:
                thread.replaced = True
                self.replaced += 1
        elif function in _STARTERS:
            # `threading` is the one that starts threads for all others.
            if frame.f_globals is not _attributes(sys.modules.get("threading")):
                self.unseen_threads += 1
        elif function is _set_handler:
            if _set_again not in gc.callbacks:
                gc.callbacks.append(_set_again)
        elif self.running:
            # After a successful exec nobody closes this part; a failed one writes it anew.
            self.save("ended" if function in _EXECS else "running")
            self.due[0] = self.clock() + _SAVE_EVERY_NS if self.real_time else _NEVER

    def end(self) -> None:
        """Stop, and store the run if this is the process that was launched."""
        self.stop()
        argv, environment = self.storer
        if self.root_pid == _getpid() and argv:
            self.root_pid = 0
            engine_part.store(argv, environment, self.stderr)

    def stop(self) -> None:
        if not self.running:
            return
        self.look_after_hooks()
        if not self.waiting:
            self.save("ended")
        self.running = False
        self.due[0] = _NEVER
        ours = [thread.callback for thread in self.threads]
        if _getprofile() in [*ours, self.wait]:
            _setprofile(None)
        attributes = _attributes(sys.modules.get("threading"))
        if attributes.get("_profile_hook") == self.begin_thread:
            attributes["_profile_hook"] = None

    def look_after_hooks(self) -> None:
        thread = self.by_ident.get(_get_ident())
        if thread is not None and _getprofile() is not thread.callback:
            if _getprofile() is None and not thread.replaced:
                self.replaced += 1
            self.replaced = max(self.replaced, 1)
        hook = _attributes(sys.modules.get("threading")).get("_profile_hook")
        if hook is not None and hook != self.begin_thread:
            self.threads_replaced = True

    def health(self) -> dict[str, str]:
        """What was missed, in words."""
        found = {}
        if self.replaced:
            found["profile_hook"] = (
                f"our profile function was replaced or taken away {self.replaced} times, by the "
                "program, another profiler, or an exception of a signal handler: what ran "
                "meanwhile is missing (the compiled engine does not need it)"
            )
        if self.threads_replaced:
            found["threading_hook"] = (
                "the program called threading.setprofile: threads that it started afterwards "
                "are missing (the compiled engine does not need that hook)"
            )
        if self.unseen_threads:
            found["threads"] = (
                f"{self.unseen_threads} threads were started past the module threading and are "
                "missing (the compiled engine sees them)"
            )
        if self.lost_events:
            found["recursion"] = (
                f"{self.lost_events} events at the recursion limit were not counted"
            )
        if self.calls_over_limit:
            found["callpaths"] = (
                f"{self.calls_over_limit} calls on call paths beyond the limit were folded into "
                "their callers; raise it with --max-callpaths"
            )
        if self.overlaps:
            found["timers"] = (
                f"{self.overlaps} timers were stopped out of order or without having been started"
            )
        if self.greenlets:
            found["greenlets"] = (
                "greenlets switched stacks: call paths were followed, the times of a switch "
                "may stand at its other side"
            )
        if self.wants_cpu_time:
            found["cpu_time"] = "cpu_time needs the compiled engine: it is not measured"
        if self.unwritten:
            found["part"] = "the profile could not be written at some time while it ran"
        return found

    # ------------------------------------------------------------ throttling, forks

    def throttle(self, thread: ThreadTree, row: int, took_ns: int) -> None:
        """TAU's rule: many calls, little time each. Not while the routine is open."""
        number = thread.routines[row]
        routines = self.routines
        if routines.records[number][3] == "timer":
            return
        routines.calls[number] += 1
        routines.took_ns[number] += took_ns
        calls = routines.calls[number]
        if calls <= self.throttle_calls or routines.took_ns[number] >= calls * self.throttle_ns:
            return
        for other in self.threads:
            if any(other.routines[row] == number for _, row, start in other.stack if start >= 0):
                return
        routines.throttle(number)

    def forked_child(self) -> None:
        """We are a forked child: begin a part of our own, with the open path in it."""
        thread = self.by_ident.get(_get_ident())
        self.forked = True
        self.begin_part()
        self.exit_status = None
        self.lost_events = self.overlaps = self.row_count = self.calls_over_limit = 0
        self.replaced = self.unseen_threads = self.snapshots = 0
        self.metadata.clear()
        self.node = None
        self.by_ident.clear()
        self.threads.clear()
        if thread is not None:
            thread.native_id = _get_native_id()
            thread.name = "MainThread"
            thread.begin_again()
            self.by_ident[thread.ident] = thread
            self.threads.append(thread)
            self.first_thread = thread
            if self.path is not None and self.real_time:
                self.due[0] = 0


def _attributes(thing: object) -> "dict[str, Any]":
    """An object's variables, past a `__getattribute__` that its class may have."""
    if thing is None:
        return {}
    try:
        variables = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return variables if type(variables) is dict else {}


_engine: "Engine | None" = None
_hooked = _guarded = False


def _audit(event: str, arguments: "tuple[Any, ...]") -> None:
    # All in one frame, which is easily taken out of a traceback, and with as few calls as
    # can be: at the recursion limit there is no room for them. If one fails that is well:
    # to raise is what we are here for then.
    try:
        if event == "sys.setprofile" and _engine is not None:
            thread = _engine.by_ident.get(_get_ident())
            if thread is not None and thread.passing is not None:
                error, thread.passing = thread.passing, None
                if _getprofile() is thread.callback:
                    raise error
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise


def _set_again(phase: str, information: object) -> None:
    """Called by every garbage collection once the program has a signal handler.

    A handler that raises in our callback's very first instruction, where that cannot catch
    it, takes the hook away. Handlers run on the main thread only.
    """
    engine = _engine
    if engine is None or not engine.running or engine.first_thread is None:
        return
    thread = engine.first_thread
    if thread.ident == _get_ident() and not thread.replaced and _getprofile() is None:
        engine.replaced += 1
        _setprofile(thread.callback)


def _after_fork() -> None:
    if _engine is not None and _engine.running:
        _engine.forked_child()


def _at_exit() -> None:
    if _engine is not None:
        _engine.end()


# ---------------------------------------------------------------- the engine's face


def start(options: "dict[str, Any]") -> None:
    """Begin to record.

    Args:
        options: as of the compiled engine: run_folder (bytes), root_pid, c_calls, depth,
            include, exclude, throttle, throttle_calls, throttle_ns_per_call,
            max_callpaths, wait_for_main, storer_argv, storer_env. Also part_path (bytes),
            one file instead of a run folder, and for tests clock, cpu_clock: functions
            that give nanoseconds.

    Raises:
        RuntimeError: it is running already.
    """
    global _engine, _hooked
    if _engine is not None and _engine.running:
        raise RuntimeError("the engine is running already")
    engine = _engine = Engine(options)
    if not _hooked:
        _hooked = True
        posix.register_at_fork(after_in_child=_after_fork)
        atexit.register(_at_exit)
    if engine.waiting:
        _setprofile(engine.wait)
    else:
        engine.begin_first_thread()


def stop() -> None:
    """Stop recording and close the part; nothing is stored."""
    if _engine is not None:
        _engine.stop()


def active() -> bool:
    """Is the engine recording?"""
    return _engine is not None and _engine.running


def describe() -> dict[str, str]:
    """The hook and the clock in use."""
    return {"hook": "sys.setprofile", "clock": "CLOCK_MONOTONIC"}


def read_clock() -> tuple[int, int]:
    """(ticks, CLOCK_MONOTONIC ns) of one moment; here a tick is a nanosecond."""
    now = time.perf_counter_ns()
    return now, now


def _here() -> "ThreadTree | None":
    engine = _engine
    if engine is None or not engine.running or engine.waiting:
        return None
    thread = engine.by_ident.get(_get_ident())
    return thread if thread is not None else engine.add_thread("")


def _program_frame() -> "FrameType | None":
    """The innermost frame that is not ours."""
    frame: FrameType | None = _getframe(2)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def timer_enter(name: str, group: str) -> None:
    """Begin a timer at the current call path."""
    thread = _here()
    if thread is not None and group not in thread.engine.disabled:
        thread.enter_timer(_program_frame(), thread.engine.routines.of_timer(name, group))


def timer_leave(name: str, group: str) -> bool:
    """End a timer.

    Returns:
        False if it is not open here, or not the innermost: a routine that began later
        has not returned. It then ends with the routine that it began in.
    """
    thread = _here()
    if thread is None or group in thread.engine.disabled:
        return True
    return thread.leave_timer(_program_frame(), thread.engine.routines.of_timer(name, group))


def event(name: str, unit: str, value: float) -> None:
    """Sample a user event at the current call path."""
    thread = _here()
    if thread is not None:
        thread.sample(_program_frame(), name, unit, float(value))


def set_metadata(name: str, value: str) -> None:
    """A name and value of this process."""
    if _here() is not None and _engine is not None:
        _engine.metadata[str(name)] = str(value)


def set_node(number: int) -> None:
    """This process's node.

    Raises:
        ValueError: the number is negative.
    """
    if number < 0:
        raise ValueError("a node number is 0 or more")
    if _here() is not None and _engine is not None:
        _engine.node = number


def set_group(group: str, enabled: bool) -> None:
    """Record a group of timers, or no longer. The group PYTHON is all Python routines."""
    if _engine is not None and _engine.running:
        if group == "PYTHON":
            _engine.routines.enable(bool(enabled))
        elif enabled:
            _engine.disabled.discard(group)
        else:
            _engine.disabled.add(group)


def snapshot(label: str) -> None:
    """Keep a copy of the part as it stands."""
    engine = _engine
    if _here() is None or engine is None or engine.folder is None:
        return
    engine.snapshots += 1
    engine.metadata["taupy.snapshot"] = label
    path = engine.folder + b"/%d-%d.pysnapshot" % (engine.pid, engine.snapshots)
    if not engine_part.write(engine, path, "ended"):
        engine.metadata["taupy.health.snapshot"] = "a snapshot could not be written"


def flat() -> list[tuple[str, int, int, int]]:
    """[(name, calls, inclusive_ns, exclusive_ns)] of all threads so far.

    A routine inside itself counts its outermost activations' inclusive time; open
    activations count up to now.
    """
    if _engine is None or not _engine.running:
        return []
    now = _engine.clock()
    sums: dict[str, list[int]] = {}
    for thread in _engine.threads.copy():
        rows = len(thread.parents)
        inclusive = thread.inclusive_until(now, rows)
        exclusive = inclusive.copy()
        above: list[frozenset[int]] = [frozenset()]
        for row in range(1, rows):
            parent, number = thread.parents[row], thread.routines[row]
            exclusive[parent] -= inclusive[row]
            known = above[parent]
            above.append(known if number in known else known | {number})
        for row in range(1, rows):
            number = thread.routines[row]
            entry = sums.setdefault(_engine.routines.records[number][0], [0, 0, 0])
            entry[0] += thread.calls[row]
            if number not in above[thread.parents[row]]:
                entry[1] += inclusive[row]
            entry[2] += exclusive[row]
    return [(name, calls, total, own) for name, (calls, total, own) in sums.items()]
