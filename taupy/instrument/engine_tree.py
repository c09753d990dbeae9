"""One thread's call paths in the plain-Python engine: columns and a stack.

The tree is columns of equal length; a call path is a row. Beside it is a stack with
an entry for every activation that is open:

    (owner, row, start)
    owner    id of the frame; negative: a C function or a timer that this frame entered
    row      its call path, or its caller's if it is not recorded
    start    the clock at its entry, or one of the marks below: not recorded

Entries are matched by the identity of frames, both of the returning frame and of the caller of a
frame that starts. An event that the interpreter omits (3.13: the end of a closed generator), a
greenlet's switch or a frame that was open before the engine therefore cannot shift other entries.

Runs inside the measured process: built-in modules only.
"""

import sys

# The program may replace built-in functions; these stay what they are.
from builtins import abs, id, len, max, min, range, reversed  # noqa: UP029

from taupy.instrument.engine_routines import FIRST_PHASE_METHOD, OURS
from taupy.instrument.engine_state import EngineState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

Entry = tuple[int, int, int]
_NO_CHILDREN: dict[int, int] = {}  # shared by all leaves, never written to
NOT_PYTHON, NOT_C, NOT_TIMER = -1, -2, -3  # marks of entries that are not recorded
_TRIES = 9
_modules = sys.modules


class ThreadTree:
    """The record of one thread. Other threads may copy its columns at any time, as they grow by
    appending, `parents` last."""

    def __init__(self, state: EngineState, native_id: int, ident: int, name: str) -> None:
        self.state = state
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
        self.begun_ns: int = state.clock()
        self.ended_ns = 0  # when the last routine returned; 0 while one is open
        self.cpu_start_ns: int = state.cpu_clock()
        self.cpu_ns = 0
        self.stack: list[Entry] = [(0, 0, self.begun_ns)]
        self.parked: dict[int, list[Entry]] = {}  # greenlets' stacks, by the owner of their top
        self.imports: set[int] = set()  # rows of imports
        self.is_first = False  # the program's first thread
        self.replaced = False  # the program has called sys.setprofile here
        self.in_api = 0  # calls of the in-code API under way: see save_now
        self.child_began_ns = 0  # when a process was started that has not been identified yet
        self.callback: Any = None  # the profile function, once it is set

    def _new_row(self, row: int, routine: int) -> int:
        """Add the row of a new call path; -1 if the path is not recorded."""
        state = self.state
        if self.children[row] is _NO_CHILDREN:
            self.children[row] = {}
        depth = self.depths[row] + 1
        if routine < 0 or (state.depth and depth > state.depth):
            self.children[row][routine] = -1
            return -1
        if state.row_count >= state.max_callpaths:
            state.calls_over_limit += 1
            return -1
        state.row_count += 1
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
        """The row of a routine's call path under another; -1 if the path is not recorded."""
        child = self.children[row].get(routine)
        return self._new_row(row, routine) if child is None else child

    def find_caller(self, caller: "FrameType | None") -> int:
        """Make the nearest known frame, from `caller` outwards, the top of the stack.

        Returns:
            Its row; the root's if no frame is known.
        """
        stack, parked = self.stack, self.parked
        frame = caller
        while frame is not None:
            owner = id(frame)
            for at in range(len(stack) - 1, 0, -1):
                if stack[at][0] == owner or stack[at][0] == -owner:
                    if at < len(stack) - 1:
                        self.drop_above(at, self.state.clock())
                    return stack[-1][1]
            if owner in parked:
                self.switch_to(owner, self.state.clock())
                return stack[-1][1]
            frame = frame.f_back
        if len(stack) > 1:
            if "greenlet" in _modules:
                self.switch_to(0, self.state.clock())
            else:
                self.drop_above(0, self.state.clock())
        stack[0] = (-id(caller), 0, stack[0][2])  # makes the next look-up fast
        return 0

    def drop_above(self, at: int, now: int) -> None:
        """Close all entries above position `at`.

        A signal handler or finalizer that ran after `now` was read may have begun entries since:
        they have no time.
        """
        stack, inclusive = self.stack, self.inclusive
        while len(stack) - 1 > at:
            _, row, start = stack.pop()
            if 0 <= start < now:
                inclusive[row] += now - start

    def switch_to(self, owner: int, now: int) -> None:
        """Switch to the greenlet that has `owner` at the top of its stack; 0: to a new greenlet."""
        stack = self.stack
        if len(stack) > 1:
            self.state.greenlets = True
            self.parked[abs(stack[-1][0])] = stack[1:]
            self.drop_above(0, now)
        for other, row, start in self.parked.pop(owner, ()):
            stack.append((other, row, now if start >= 0 else start))

    # ------------------------------------------------------------ the in-code API

    def enter_timer(self, frame: "FrameType | None", routine: int) -> None:
        """Begin a timer in `frame`, the program's own."""
        self.in_api += 1
        try:
            row = self.find_caller(frame)
            child = self.child(row, routine)
            if child < 0:
                self.stack.append((-id(frame), row, NOT_TIMER))
                return
            self.stack.append((-id(frame), child, self.state.clock()))
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
            return self._leave_timer(frame, routine)
        finally:
            self.in_api -= 1

    def _leave_timer(self, frame: "FrameType | None", routine: int) -> bool:
        self.find_caller(frame)
        now = self.state.clock()  # after a greenlet's entries have begun again
        stack, records = self.stack, self.state.routines.records
        if stack[-1][2] == NOT_TIMER:
            stack.pop()
            return True
        for at in range(len(stack) - 1, 0, -1):
            _, row, start = stack[at]
            if start < 0:
                continue
            if self.routines[row] == routine:
                if at < len(stack) - 1:
                    self.state.overlaps += 1
                self.drop_above(at - 1, now)
                return True
            if records[self.routines[row]][3] != "timer":
                break
        self.state.overlaps += 1
        return False

    def sample(self, frame: "FrameType | None", name: str, unit: str, value: float) -> None:
        """Add a value of a user event at the call path of `frame`."""
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

    # ------------------------------------------------------------ snapshots and forks

    def adopt(self, frame: "FrameType | None") -> None:
        """Enter the frames that are open already, outermost first, as if they began now."""
        frames = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        routines = self.state.routines
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
                self.stack.append((id(open_frame), row, NOT_PYTHON))
            else:
                self.calls[child] += 1
                self.stack.append((id(open_frame), child, self.state.clock()))

    def begin_again(self) -> dict[int, int]:
        """In a forked child: forget everything but the open path, which has no calls yet.

        Returns:
            The new row of each row on the open path, and of the root.
        """
        now = self.begun_ns = self.state.clock()
        self.child_began_ns = 0
        self.cpu_start_ns = self.state.cpu_clock()
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
        open_imports = [row_of[row] for row in self.imports if row in row_of]
        self.imports.clear()
        self.imports.update(open_imports)
        return row_of

    def shift(self, cost_ns: int) -> None:
        """Exclude the engine's own time, just spent, from all open entries.

        Entries begun during that time, by a signal handler or in a forked child, begin now.
        """
        now = self.state.clock()
        self.stack[:] = [
            (owner, row, min(start + cost_ns, now) if start >= 0 else start)
            for owner, row, start in self.stack
        ]
        if self.ended_ns:
            self.ended_ns += cost_ns

    def inclusive_now(self, rows: int) -> list[int]:
        """The inclusive times of the first rows, open activations counted up to now."""
        return self.times_now(rows)[0]

    def times_now(self, rows: int) -> tuple[list[int], list[tuple[int, int]]]:
        """The same, and the open rows with the moments of their entry, the outermost first."""
        for _ in range(_TRIES):  # another thread's stack may change meanwhile
            stack, inclusive = self.stack.copy(), self.inclusive[:rows]
            now = self.state.clock()
            if stack == self.stack:
                break
        entered = [(row, start) for _, row, start in stack[1:] if start >= 0 and row < rows]
        for row, start in entered:
            inclusive[row] += max(0, now - start)
        end = now
        if len(stack) == 1 and self.ended_ns and not self.is_first:
            end = self.ended_ns
        inclusive[0] = max(0, end - stack[0][2])
        return inclusive, entered
