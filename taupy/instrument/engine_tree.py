"""One thread's call paths in the plain-Python engine: the profile callback and its tree.

The tree is columns of equal length, a call path is a row. Beside it stands a stack with
an entry for every activation that is open:

    (owner, row, start)
    owner    id of the frame; negative: a C function or a timer that this frame entered
    row      its call path, or its caller's if it is not recorded
    start    the clock at its entry, or one of the marks below: not recorded

Frames are compared by identity, both with the returning frame and with the caller of a
frame that starts, so an event that the interpreter leaves out (3.13: the end of a closed
generator), a greenlet's switch or a frame that was open before us cannot shift the rest.

Runs inside the measured process: built-in modules only.
"""

import sys

# The program may replace built-in functions; these stay what they are.
from builtins import BaseException, RecursionError, abs, id, len, max, min, range, reversed  # noqa: UP029

from taupy.instrument.engine_routines import FIRST_PHASE_METHOD, OURS, RESUMABLE, Routines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from taupy.instrument.engine_process import Engine

Entry = tuple[int, int, int]
_NO_CHILDREN: dict[int, int] = {}  # shared by all leaves, never written to
_PYTHON, _C, _TIMER = -1, -2, -3  # marks of entries that are not recorded
_ENTERED = -2  # instead of a row: the call has been entered already
_TRIES = 9
_getframe = sys._getframe
_modules = sys.modules


class ThreadTree:
    """What is recorded on one thread. Columns may be copied by other threads any time:
    they grow by appending, `parents` last."""

    def __init__(self, engine: "Engine", native_id: int, ident: int, name: str) -> None:
        self.engine = engine
        self.native_id = native_id
        self.ident = ident
        self.name = name
        self.routines: list[int] = [-1]
        self.calls: list[int] = [1]
        self.resumes: list[int] = [0]
        self.inclusive: list[int] = [0]
        self.depths: list[int] = [0]
        self.children: list[dict[int, int]] = [_NO_CHILDREN]
        self.parents: list[int] = [-1]
        self.events: dict[tuple[str, str, int], list[float]] = {}
        self.begun_ns: int = engine.clock()
        self.ended_ns = 0  # when the last routine returned; 0 while one is open
        self.cpu_start_ns: int = engine.cpu_clock()
        self.cpu_ns = 0
        self.stack: list[Entry] = [(0, 0, self.begun_ns)]
        self.parked: dict[int, list[Entry]] = {}  # of greenlets: owner of the top -> stack
        self.passing: BaseException | None = None  # on its way from our callback
        self.replaced = False  # the program has called sys.setprofile here
        self.in_api = 0  # calls of the in-code API under way: see save_now
        self.child_began_ns = 0  # when a process was started of which nothing is known yet
        self.callback = self._make_callback()

    def _make_callback(self) -> "Any":
        """The function for `sys.setprofile`. What it needs is local to it, for speed."""
        engine = self.engine
        routines: Routines = engine.routines
        clock, due, ways_out = engine.clock, engine.due, engine.ways_out
        of_code, start_of = routines.of_code, routines.start_of
        add_code, of_c_function = routines.add_code, routines.of_c_function
        stack, children = self.stack, self.children
        calls, resumes, inclusive = self.calls, self.resumes, self.inclusive
        new_row, find_caller, close = self._new_row, self.find_caller, self._close
        c_calls, throttling = engine.c_calls, engine.throttling
        resumable = RESUMABLE

        def on_event(
            frame: "FrameType", event: str, arg: object, id: "Any" = id, len: "Any" = len
        ) -> None:
            try:
                if event == "call":
                    code = frame.f_code
                    routine = of_code.get(id(code))
                    if routine is None:
                        routine = add_code(code, frame)
                    if routine == OURS:
                        return
                    resumed = False
                    if code.co_flags & resumable:
                        at, start = frame.f_lasti, start_of[id(code)]
                        if at < start:
                            return  # thrown into before it began: nothing of it runs
                        resumed = at > start
                    owner, row, _ = stack[-1]
                    caller = id(frame.f_back)
                    if owner != caller and owner != -caller:
                        row = find_caller(frame.f_back)
                    child = children[row].get(routine)
                    if child is None:
                        child = new_row(row, routine)
                    if child < 0:
                        if child == _ENTERED:
                            return
                        stack.append((id(frame), row, _PYTHON))
                        if len(stack) > engine.guard_depth:
                            engine.guard()
                        return
                    stack.append((id(frame), child, clock()))
                    if resumed:
                        resumes[child] += 1
                    else:
                        calls[child] += 1
                elif event == "return":
                    now = clock()
                    owner, row, start = stack[-1]
                    if owner != id(frame):
                        close(frame, now)
                    else:
                        stack.pop()
                        if start >= 0:
                            inclusive[row] += now - start
                            if throttling:
                                engine.throttle(self, row, now - start)
                    if len(stack) == 1:
                        self.ended_ns = now
                        self.cpu_ns = engine.cpu_clock() - self.cpu_start_ns
                        if self is engine.first_thread:
                            engine.note_end_of_main(frame)
                    if now > due[0]:
                        engine.save_now(self)
                elif c_calls:
                    if event == "c_call":
                        if arg in ways_out:
                            engine.way_out(arg, frame)
                        owner, row, _ = stack[-1]
                        caller = id(frame)
                        if owner != caller and owner != -caller:
                            if of_code.get(id(frame.f_code)) == OURS:
                                return
                            row = find_caller(frame)
                        routine = of_c_function(arg, frame)
                        child = children[row].get(routine)
                        if child is None:
                            child = new_row(row, routine)
                        if child < 0:
                            stack.append((-caller, row, _C))
                            return
                        stack.append((-caller, child, clock()))
                        calls[child] += 1
                    else:
                        now = clock()
                        if of_code.get(id(frame.f_code)) != OURS:
                            self._close_c(frame, now)
                        if self.child_began_ns:
                            engine.children.look(self, arg)
                elif event == "c_call":
                    if arg in ways_out:
                        engine.way_out(arg, frame)
                elif self.child_began_ns:
                    engine.children.look(self, arg)
            except RecursionError:
                engine.lost_events += 1  # the program is at its recursion limit: so are we
            except BaseException as error:
                # A signal handler of the program has raised while we were running. Our
                # frame is not for its traceback.
                if engine.is_refused(frame):
                    return
                engine.guard()
                self.passing = error
                error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
                raise

        return on_event

    def _new_row(self, row: int, routine: int) -> int:
        """The row of a call path that is new, -1 if it is not to be recorded, _ENTERED if all
        is done (then our caller is the callback)."""
        engine = self.engine
        if routine <= FIRST_PHASE_METHOD:
            engine.phases.called(self, _getframe(2), routine)
            return _ENTERED
        if len(self.stack) > engine.guard_depth:
            engine.guard()
        if self.children[row] is _NO_CHILDREN:
            self.children[row] = {}
        depth = self.depths[row] + 1
        if routine < 0 or (engine.depth and depth > engine.depth):
            self.children[row][routine] = -1
            return -1
        if engine.row_count >= engine.max_callpaths:
            engine.calls_over_limit += 1
            return -1
        engine.row_count += 1
        child = len(self.parents)
        self.routines.append(routine)
        self.calls.append(0)
        self.resumes.append(0)
        self.inclusive.append(0)
        self.depths.append(depth)
        self.children.append(_NO_CHILDREN)
        self.parents.append(row)
        self.children[row][routine] = child
        return child

    def child(self, row: int, routine: int) -> int:
        """The row of a routine's call path under another; -1 if it is not to be recorded."""
        child = self.children[row].get(routine)
        return self._new_row(row, routine) if child is None else child

    def find_caller(self, caller: "FrameType | None") -> int:
        """Make the nearest known frame, from `caller` outwards, the top of the stack.

        Returns:
            the row it stands on; the root's if none of them is known.
        """
        stack, parked = self.stack, self.parked
        frame = caller
        while frame is not None:
            owner = id(frame)
            for at in range(len(stack) - 1, 0, -1):
                if stack[at][0] == owner or stack[at][0] == -owner:
                    if at < len(stack) - 1:
                        self.drop_above(at, self.engine.clock())
                    return stack[-1][1]
            if owner in parked:
                self._switch_to(owner)
                return stack[-1][1]
            frame = frame.f_back
        if len(stack) > 1:
            if "greenlet" in _modules:
                self._switch_to(0)
            else:
                self.drop_above(0, self.engine.clock())
        stack[0] = (-id(caller), 0, stack[0][2])  # the next one is found at once
        return 0

    def drop_above(self, at: int, now: int) -> None:
        """Close all entries above position `at`."""
        stack, inclusive = self.stack, self.inclusive
        while len(stack) - 1 > at:
            _, row, start = stack.pop()
            if start >= 0:
                inclusive[row] += now - start

    def _switch_to(self, owner: int) -> None:
        """Another greenlet goes on: the one with `owner` at its top; 0: a new one."""
        stack, now = self.stack, self.engine.clock()
        if len(stack) > 1:
            self.engine.greenlets = True
            self.parked[abs(stack[-1][0])] = stack[1:]
            self.drop_above(0, now)
        for other, row, start in self.parked.pop(owner, ()):
            stack.append((other, row, now if start >= 0 else start))

    def _close(self, frame: "FrameType", now: int) -> None:
        """A frame returns that is not the top: close it with what is above it, if it is
        open at all. Frames that began before us are not."""
        stack, owner = self.stack, id(frame)
        if owner in self.parked:
            self._switch_to(owner)
        found = 0
        for at in range(len(stack) - 1, 0, -1):
            if stack[at][0] == owner:
                found = at
                break
            if stack[at][0] == -owner:
                found = at  # its timers are open, or it is not known itself
        if found:
            self._drop_but_phases(found, now, frame.f_back)
            self.engine.phases.returned(self, frame)

    def _drop_but_phases(self, at: int, now: int, frame: "FrameType | None") -> None:
        """Close an entry and all above it. Phases of record_function go on in `frame`."""
        phases, stack = self.engine.phases, self.stack
        carried = phases.carried(self, stack[at + 1 :]) if phases.open else None
        self.drop_above(at - 1, now)
        if carried is not None and len(stack) == 1:
            phases.closed(self)
        elif carried:
            phases.go_on(self, [(-id(frame), row, start) for _, row, start in carried], now)

    def _close_c(self, frame: "FrameType", now: int) -> None:
        """A C function returns to `frame`."""
        stack, routines, records = self.stack, self.routines, self.engine.routines.records
        owner = -id(frame)
        for at in range(len(stack) - 1, 0, -1):
            entry_owner, row, start = stack[at]
            if entry_owner == -owner:
                return  # it was entered before we began
            if entry_owner == owner and (
                start == _C or (start >= 0 and records[routines[row]][3] == "c")
            ):
                self._drop_but_phases(at, now, frame)
                return

    # ------------------------------------------------------------ the in-code API

    def enter_timer(self, frame: "FrameType | None", routine: int) -> None:
        """Begin a timer in `frame`, the program's own."""
        self.in_api += 1
        try:
            row = self.find_caller(frame)
            child = self.child(row, routine)
            if child < 0:
                self.stack.append((-id(frame), row, _TIMER))
                return
            self.stack.append((-id(frame), child, self.engine.clock()))
            self.calls[child] += 1
        finally:
            self.in_api -= 1

    def leave_timer(self, frame: "FrameType | None", routine: int) -> bool:
        """End a timer and all timers that began after it.

        Returns:
            False if it is not open, or if a routine that began later is.
        """
        self.in_api += 1
        try:
            return self._leave_timer(frame, routine, self.engine.clock())
        finally:
            self.in_api -= 1

    def _leave_timer(self, frame: "FrameType | None", routine: int, now: int) -> bool:
        self.find_caller(frame)
        stack, records = self.stack, self.engine.routines.records
        if stack[-1][2] == _TIMER:
            stack.pop()
            return True
        for at in range(len(stack) - 1, 0, -1):
            _, row, start = stack[at]
            if start < 0:
                continue
            if self.routines[row] == routine:
                if at < len(stack) - 1:
                    self.engine.overlaps += 1
                self.drop_above(at - 1, now)
                return True
            if records[self.routines[row]][3] != "timer":
                break
        self.engine.overlaps += 1
        return False

    def sample(self, frame: "FrameType | None", name: str, unit: str, value: float) -> None:
        """One value of a user event, at the call path of `frame`."""
        self.in_api += 1
        try:
            self.add_sample(name, unit, self.find_caller(frame), value)
        finally:
            self.in_api -= 1

    def add_sample(self, name: str, unit: str, row: int, value: float) -> None:
        key = (name, unit, row)
        sums = self.events.get(key)
        if sums is None:
            self.events[key] = [1, value, value, value, value * value]
            return
        sums[0] += 1
        sums[1] = min(sums[1], value)
        sums[2] = max(sums[2], value)
        sums[3] += value
        sums[4] += value * value

    # ------------------------------------------------------------ life and afterlife

    def adopt(self, frame: "FrameType | None") -> None:
        """Enter the frames that are open already, outermost first, as if they began now."""
        frames = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        routines = self.engine.routines
        for open_frame in reversed(frames):
            code = open_frame.f_code
            routine = routines.of_code.get(id(code))
            if routine is None:
                routine = routines.add_code(code, open_frame)
            if routine == OURS:
                continue
            if routine <= FIRST_PHASE_METHOD:
                routine = routines.phase_methods[FIRST_PHASE_METHOD - routine][1]
            row = self.stack[-1][1]
            child = self.child(row, routine)
            if child < 0:
                self.stack.append((id(open_frame), row, _PYTHON))
            else:
                self.calls[child] += 1
                self.stack.append((id(open_frame), child, self.engine.clock()))

    def begin_again(self) -> None:
        """In a forked child: forget everything but the open path, which has no calls yet."""
        now = self.begun_ns = self.engine.clock()
        self.child_began_ns = 0
        self.cpu_start_ns = self.engine.cpu_clock()
        path = []
        row = self.stack[-1][1]
        while row > 0:
            path.append((row, self.routines[row]))
            row = self.parents[row]
        for column in (
            self.routines,
            self.calls,
            self.resumes,
            self.inclusive,
            self.depths,
            self.children,
            self.parents,
        ):
            del column[1:]
        self.children[0] = _NO_CHILDREN
        self.inclusive[0] = self.ended_ns = 0
        self.events.clear()
        self.parked.clear()
        row_of = {0: 0}
        last = 0
        for old, routine in reversed(path):
            last = row_of[old] = self._new_row(last, routine)
        self.stack[:] = [
            (owner, row_of[row], now if start >= 0 else start) for owner, row, start in self.stack
        ]
        self.engine.phases.forked(self, row_of)

    def shift(self, cost_ns: int) -> None:
        """What we have just spent on ourselves is nobody's time."""
        self.stack[:] = [
            (owner, row, start + cost_ns if start >= 0 else start)
            for owner, row, start in self.stack
        ]
        if self.ended_ns:
            self.ended_ns += cost_ns

    def inclusive_now(self, rows: int) -> list[int]:
        """The inclusive times of the first rows, open activations counted up to now."""
        for _ in range(_TRIES):  # another thread's stack may change under our hands
            stack, inclusive = self.stack.copy(), self.inclusive[:rows]
            now = self.engine.clock()
            if stack == self.stack:
                break
        for _, row, start in stack[1:]:
            if start >= 0 and row < rows:
                inclusive[row] += max(0, now - start)
        end = now
        if len(stack) == 1 and self.ended_ns and self is not self.engine.first_thread:
            end = self.ended_ns
        inclusive[0] = max(0, end - stack[0][2])
        return inclusive
