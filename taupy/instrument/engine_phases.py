"""`torch.profiler.record_function` as a phase, in the plain-Python engine.

Its `__enter__` and `__exit__` are recognised by name and file at their first call
(`Routines.add_code`). When `__enter__` returns, a phase begins, with the object's name; when
`__exit__` begins, it ends. Nothing is added to the program, and none of its code is run.

A phase continues after the routine that it began in returns or yields. It ends at `__exit__`, or
when the object is freed, which ends the range in PyTorch, too. `_native/phases.h` does the same.

Runs inside the measured process: built-in modules only.
"""

import _thread
import _weakref
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import (  # noqa: UP029
    AttributeError,
    TypeError,
    any,
    dict,
    id,
    issubclass,
    len,
    object,
    range,
    str,
    type,
)

from taupy.instrument.engine_routines import (
    FIRST_PHASE_METHOD,
    IMPORT,
    PHASE_ENTER,
    PHASE_EXIT,
    RETURNS,
    is_ours,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from taupy.instrument.engine_state import EngineState
    from taupy.instrument.engine_tree import Entry, ThreadTree

GROUP = "PHASE|RECORD_FUNCTION"
_NAMES_AT_MOST = 4096
TIMER = -3  # engine_tree's mark of a timer that is not recorded
_get_ident, _getframe = _thread.get_ident, sys._getframe
_reference = _weakref.ref


class OpenPhase:
    """A phase that has begun.

    Attributes:
        object_id: the id of the record_function object.
        reference: a weak reference to that object; None if it allows none: the phase then ends
            with the routine that it began in.
        thread: the thread that the phase is open on.
        row: its call path on that thread; None if it is no longer open.
    """

    __slots__ = ("object_id", "reference", "row", "thread")

    def __init__(self, thing: object, thread: "ThreadTree", row: int) -> None:
        self.object_id = id(thing)
        self.thread = thread
        self.row: int | None = row
        self.reference: Any = None


class Phases:
    """All open phases of a process, newest last.

    Attributes:
        threads: the process's threads by ident.
    """

    def __init__(self, state: "EngineState", threads: "dict[int, ThreadTree]") -> None:
        self.state = state
        self.threads = threads
        self.open: list[OpenPhase] = []
        self._names: set[str] = set()

    def called(self, thread: "ThreadTree", frame: "FrameType", method: int) -> None:
        """`__enter__` or `__exit__` is called; the caller is the top of the thread's stack."""
        routines = self.state.routines
        kind, number = routines.phase_methods[FIRST_PHASE_METHOD - method]
        if kind == PHASE_EXIT:
            thing = _first_argument(frame)
            if thing is not None:
                self.end(thread, thing)
        row = thread.stack[-1][1]
        child = -1
        routine = self._import_of(frame) if kind == IMPORT else None
        if routine is not None:
            child = thread.child(row, routine)
            if child >= 0:
                thread.imports.add(child)
        elif number >= 0 and not routines.records[number][5]:
            child = thread.child(row, number)
        # A negative owner keeps its return from taking the fast path.
        if child < 0:
            thread.stack.append((-id(frame), row, -1))
        else:
            thread.stack.append((-id(frame), child, self.state.clock()))
            thread.calls[child] += 1

    def _import_of(self, frame: "FrameType") -> "int | None":
        imports = self.state.routines.imports
        if imports is None or "IMPORT" in self.state.disabled:
            return None
        return imports.routine_of(frame)

    def returned(self, thread: "ThreadTree", frame: "FrameType") -> None:
        """The method has returned or raised; it is no longer on the stack."""
        routines = self.state.routines
        method = routines.of_code.get(id(frame.f_code), 0)
        if method > FIRST_PHASE_METHOD:
            return
        kind, _ = routines.phase_methods[FIRST_PHASE_METHOD - method]
        if kind == PHASE_ENTER and frame.f_code.co_code[frame.f_lasti] in RETURNS:
            thing = _first_argument(frame)
            if thing is not None:
                self.begin(thread, frame.f_back, thing)

    def begin(self, thread: "ThreadTree", frame: "FrameType | None", thing: object) -> None:
        """Begin the phase of a record_function, in `frame`."""
        name = _name_of(thing)
        state = self.state
        if name is None or not state.disabled.isdisjoint(("PHASE", "RECORD_FUNCTION")):
            return
        if name not in self._names:
            if len(self._names) >= _NAMES_AT_MOST:
                name = "(other record_functions)"
            self._names.add(name)
        child = thread.child(thread.find_caller(frame), state.routines.of_timer(name, GROUP))
        if child < 0:
            return
        for phase in self.open:  # a phase that was closed with its routine
            if phase.thread is thread and phase.row == child:
                phase.row = None
        phase = OpenPhase(thing, thread, child)
        try:
            phase.reference = _reference(thing, self._died)
        except TypeError:
            phase.reference = None
        self.open.append(phase)
        thread.stack.append((-id(frame), child, state.clock()))
        thread.calls[child] += 1

    def end(self, thread: "ThreadTree", thing: object) -> None:
        """End the newest phase of a record_function: on this thread, if there is one."""
        of_it = [phase for phase in self.open if phase.object_id == id(thing)]
        here = [phase for phase in of_it if phase.thread is thread]
        if of_it:
            self._close(thread, (here or of_it)[-1])

    def _died(self, reference: object) -> None:
        thread = self.threads.get(_get_ident())
        caller = _getframe().f_back
        in_us = caller is not None and is_ours(caller.f_code.co_filename)
        for phase in self.open:
            if phase.reference is reference:
                # While our own code runs, it ends with the routine in which it began.
                self._close(None if in_us else thread, phase)
                return

    def _close(self, thread: "ThreadTree | None", phase: OpenPhase) -> None:
        self.open.remove(phase)
        if thread is None or phase.thread is not thread or phase.row is None:
            return
        thread.in_api += 1  # the interpreter may call this when it frees the object
        try:
            self._cut_out(thread, phase)
        finally:
            thread.in_api -= 1

    def _cut_out(self, thread: "ThreadTree", phase: OpenPhase) -> None:
        stack = thread.stack
        for at in range(len(stack) - 1, 0, -1):
            if stack[at][1] == phase.row and stack[at][2] >= 0:
                now = self.state.clock()
                above = stack[at + 1 :]
                # Timers that began in the phase itself end with it; routines continue.
                in_it = 0
                while in_it < len(above) and self._is_timer(thread, above[in_it]):
                    in_it += 1
                kept = self.carried(thread, above[:in_it])
                self.state.overlaps += in_it - len(kept)
                thread.drop_above(at - 1, now)
                self.go_on(thread, [*kept, *above[in_it:]], now)
                return

    def _is_timer(self, thread: "ThreadTree", entry: "Entry") -> bool:
        _, row, start = entry
        if start < 0:
            return start == TIMER
        records = self.state.routines.records
        return records[thread.routines[row]][3] == "timer"  # type: ignore[no-any-return]

    # ------------------------------------------------------------ phases that continue elsewhere

    def carried(self, thread: "ThreadTree", entries: "list[Entry]") -> "list[Entry]":
        """The phases among entries that are about to be closed; they continue."""
        rows = {
            phase.row
            for phase in self.open
            if phase.thread is thread and phase.reference is not None
        }
        return [entry for entry in entries if entry[1] in rows and entry[2] >= 0]

    def go_on(self, thread: "ThreadTree", entries: "list[Entry]", now: int) -> None:
        """Reopen closed entries under the current top. The call of a phase counts on the path on
        which a routine is first called in it."""
        records = self.state.routines.records
        stack, calls = thread.stack, thread.calls
        for owner, old, start in entries:
            row = stack[-1][1]
            if start < 0:
                stack.append((owner, row, start))
                continue
            routine = thread.routines[old]
            child = thread.child(row, routine)
            kind, group = records[routine][3:5]
            if child < 0:
                stack.append((owner, row, {"c": -2, "timer": TIMER}.get(kind, -1)))
                continue
            called = any(below >= 0 for below in thread.children[old].values())
            if group == GROUP and calls[old] > 0 and not called:
                calls[old] -= 1
                calls[child] += 1
            else:
                thread.resumes[child] += 1
            stack.append((owner, child, now))
            for phase in self.open:
                if phase.thread is thread and phase.row == old:
                    phase.row = child

    def closed(self, thread: "ThreadTree") -> None:
        """The thread's outermost routine has returned: nothing is open."""
        for phase in self.open:
            if phase.thread is thread:
                phase.row = None

    def forked(self, thread: "ThreadTree", row_of: "dict[int, int]") -> None:
        """In a forked child: this thread's call paths have other rows, and it is the only one."""
        for phase in self.open:
            mine = phase.thread is thread and phase.row is not None
            phase.row = row_of.get(phase.row or 0) if mine else None


def _first_argument(frame: "FrameType") -> "Any":
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _name_of(thing: object) -> "str | None":
    try:
        variables = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return None
    name: Any = variables.get("name") if type(variables) is dict else None
    if not issubclass(type(name), str):
        return None
    text: str = str.encode(name, "utf-8", "backslashreplace").decode()
    return text.partition("\0")[0]
