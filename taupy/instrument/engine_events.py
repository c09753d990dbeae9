"""The plain-Python engine's profile function, which receives every event.

The interpreter reports calls and returns of Python and C functions on one thread. `ThreadEvents`
finds the call path of each and keeps the thread's tree up to date.

Runs inside the measured process: built-in modules only.
"""

# The program may replace built-in functions; these stay what they are.
from builtins import BaseException, RecursionError, id, len, range  # noqa: UP029

from taupy.instrument.engine_children import Children
from taupy.instrument.engine_phases import Phases
from taupy.instrument.engine_routines import FIRST_PHASE_METHOD, OURS, RESUMABLE, is_ours
from taupy.instrument.engine_state import EngineState
from taupy.instrument.engine_tree import NOT_C, NOT_PYTHON, ThreadTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Protocol

    class Process(Protocol):
        """What a thread's events need from the process."""

        def guard(self) -> None: ...
        def is_refused(self, frame: FrameType) -> bool: ...
        def throttle(self, thread: ThreadTree, row: int, took_ns: int) -> None: ...
        def note_end_of_main(self, frame: FrameType) -> None: ...
        def save_now(self, thread: ThreadTree) -> None: ...
        def name_thread(self, thread: ThreadTree) -> None: ...
        def way_out(self, function: object, frame: FrameType) -> None: ...


class ThreadEvents:
    """The events of one thread."""

    def __init__(
        self,
        state: EngineState,
        thread: ThreadTree,
        phases: Phases,
        children: Children,
        process: "Process",
    ) -> None:
        self.state, self.thread, self.process = state, thread, process
        self.phases, self.processes_started = phases, children
        # Columns and tables keep their identity; these names save a look-up per event.
        self.stack, self.children = thread.stack, thread.children
        self.calls, self.resumes, self.inclusive = thread.calls, thread.resumes, thread.inclusive
        self.of_code, self.start_of = state.routines.of_code, state.routines.start_of
        self.imports, self.known_imports = thread.imports, state.routines.imports
        self.clock, self.due, self.ways_out = state.clock, state.due, state.ways_out

    def on_event(self, frame: "FrameType", event: str, arg: object) -> None:
        """The function for `sys.setprofile`."""
        try:
            if event == "call":
                self.enter(frame)
            elif event == "return":
                self.leave(frame)
            elif event == "c_call":
                self.enter_c(frame, arg)
            else:
                if event == "c_exception" and self.thread.child_began_ns:
                    self.processes_started.failed(self.thread, arg)
                self.leave_c(frame, arg)
        except RecursionError:
            self.state.lost_events += 1  # at the program's recursion limit we cannot call either
        except BaseException as error:
            # A signal handler of the program raised while this function was running. Our frames
            # must not appear in the program's traceback.
            if self.process.is_refused(frame):
                return
            self.process.guard()
            trace = error.__traceback__
            while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
                trace = trace.tb_next
            error.__traceback__ = trace
            raise

    def enter(self, frame: "FrameType") -> None:
        """A Python routine starts or resumes."""
        if self.imports and self._is_in_import(frame):
            return
        code = frame.f_code
        routine = self.of_code.get(id(code))
        if routine is None:
            routine = self.state.routines.add_code(code, frame)
        if routine == OURS:
            return
        resumed = False
        if code.co_flags & RESUMABLE:
            at, start = frame.f_lasti, self.start_of[id(code)]
            if at < start:
                return  # an exception was thrown into it before it began, so its body never runs
            resumed = at > start
        stack = self.stack
        owner, row, _ = stack[-1]
        caller = id(frame.f_back)
        if owner != caller and owner != -caller:
            row = self.thread.find_caller(frame.f_back)
        child = self.children[row].get(routine)
        if child is None:
            if routine <= FIRST_PHASE_METHOD:
                self.phases.called(self.thread, frame, routine)
                return
            child = self._new_child(row, routine)
        if child < 0:
            stack.append((id(frame), row, NOT_PYTHON))
            if len(stack) > self.state.guard_depth:
                self.process.guard()
            return
        stack.append((id(frame), child, self.clock()))
        if resumed:
            self.resumes[child] += 1
        else:
            self.calls[child] += 1

    def _is_in_import(self, frame: "FrameType") -> bool:
        """Whether it is library code, inside an import."""
        return (
            self.known_imports is not None
            and self.stack[-1][1] in self.imports
            and self.known_imports.skips(frame)
        )

    def leave(self, frame: "FrameType") -> None:
        """A Python routine returns, yields, or is left by an exception."""
        now = self.clock()
        stack, thread = self.stack, self.thread
        owner, row, start = stack[-1]
        if owner != id(frame):
            self._close(frame, now)
        else:
            stack.pop()
            if 0 <= start <= now:  # later than `now` only by a signal handler or finalizer
                self.inclusive[row] += now - start
                if self.state.throttling:
                    self.process.throttle(thread, row, now - start)
        if len(stack) == 1:
            thread.ended_ns = now
            thread.cpu_ns = self.state.cpu_clock() - thread.cpu_start_ns
            if thread.is_first:
                self.process.note_end_of_main(frame)
        if now > self.due[0]:
            self.process.save_now(thread)

    def enter_c(self, frame: "FrameType", function: object) -> None:
        """`frame` calls a C function."""
        if function in self.ways_out:
            self.process.way_out(function, frame)
        if not self.state.c_calls:
            return
        stack = self.stack
        owner, row, _ = stack[-1]
        if row in self.imports:
            return
        caller = id(frame)
        if owner != caller and owner != -caller:
            if self.of_code.get(id(frame.f_code)) == OURS:
                return
            row = self.thread.find_caller(frame)
        routine = self.state.routines.of_c_function(function, frame)
        child = self.children[row].get(routine)
        if child is None:
            child = self._new_child(row, routine)
        if child < 0:
            stack.append((-caller, row, NOT_C))
            return
        stack.append((-caller, child, self.clock()))
        self.calls[child] += 1

    def leave_c(self, frame: "FrameType", function: object) -> None:
        """A C function returns to `frame`, or raises."""
        if self.state.c_calls:
            now = self.clock()
            if self.of_code.get(id(frame.f_code)) != OURS:
                self._close_c(frame, now)
        if self.thread.child_began_ns:
            self.processes_started.look(self.thread, function)

    def _new_child(self, row: int, routine: int) -> int:
        if len(self.stack) > self.state.guard_depth:
            self.process.guard()
        if routine >= 0 and self.state.routines.records[routine][0] == "Thread._delete":
            self.process.name_thread(self.thread)  # before `threading` forgets it
        return self.thread.child(row, routine)

    def _close(self, frame: "FrameType", now: int) -> None:
        """Close a frame that is not the top, with everything above it. Frames that began
        before the engine are not open."""
        stack, owner = self.stack, id(frame)
        if owner in self.thread.parked:
            self.thread.switch_to(owner, now)
        position = 0
        for at in range(len(stack) - 1, 0, -1):
            if stack[at][0] == owner:
                position = at
                break
            if stack[at][0] == -owner:
                position = at  # its timers are open, or it was never entered
        if position:
            self._drop_but_phases(position, now, frame.f_back)
            self.phases.returned(self.thread, frame)

    def _drop_but_phases(self, at: int, now: int, frame: "FrameType | None") -> None:
        """Close an entry and all above it. Phases of record_function continue in `frame`."""
        phases, stack, thread = self.phases, self.stack, self.thread
        carried = phases.carried(thread, stack[at + 1 :]) if phases.open else None
        thread.drop_above(at - 1, now)
        if carried is not None and len(stack) == 1:
            phases.closed(thread)
        elif carried:
            phases.go_on(thread, [(-id(frame), row, start) for _, row, start in carried], now)

    def _close_c(self, frame: "FrameType", now: int) -> None:
        """A C function returns to `frame`."""
        stack, records = self.stack, self.state.routines.records
        owner = -id(frame)
        for at in range(len(stack) - 1, 0, -1):
            entry_owner, row, start = stack[at]
            if entry_owner == -owner:
                return  # it was entered before we began
            if entry_owner == owner and (
                start == NOT_C or (start >= 0 and records[self.thread.routines[row]][3] == "c")
            ):
                self._drop_but_phases(at, now, frame)
                return
