"""Slices of a thread's timeline become its call paths.

A timeline holds intervals with a name, a start and an end; those that lie within
another were entered from it. `Timeline` adds them up as they come by, in order of their
start. What overlaps its neighbours without lying in one of them (two tasks drawn on one
thread) goes to a further *lane*, a thread of its own: each slice keeps all of its time,
and on each lane the laws of summed values hold. Reading files is left to others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from taupy.model.profile import CallTree, Thread, ThreadProfile
from taupy.model.streams import Owner

LANE_BITS: Final = 6
MOST_LANES: Final = 1 << LANE_BITS
"""What overlaps more often than that is cut off where the slice around it ends."""

_LANE_MASK: Final = MOST_LANES - 1
_NEVER: Final = 1 << 62

LARGEST_STAMP: Final = 1 << 61
"""Nanoseconds; a stamp beyond is none."""

LONGEST_NS: Final = 1 << 53
"""104 days; a longer slice is none."""


class Lane:
    """The slices of one thread that lie side by side or in each other, added up."""

    __slots__ = ("_children", "calls", "ends", "exclusive", "inclusive", "parent", "rows", "timer")

    def __init__(self, root: int) -> None:
        self.timer = [root]
        self.parent = [-1]
        self.calls = [1]
        self.inclusive = [0]
        self.exclusive = [0]
        self.rows = [0]
        self.ends = [_NEVER]
        self._children: dict[tuple[int, int], int] = {}

    def enter(self, start: int, end: int, timer: int, frames: Sequence[int] = ()) -> int:
        """Count a slice under the one that is open; returns its row.

        Frames are timers between the two that were seen around the slice but not timed:
        they get its time and no calls.
        """
        above = self.rows[-1]
        took = end - start
        self.exclusive[above] -= took
        for frame in frames:
            above = self.child(above, frame)
            self.inclusive[above] += took
        row = self.child(above, timer)
        self.calls[row] += 1
        self.inclusive[row] += took
        self.exclusive[row] += took
        self.rows.append(row)
        self.ends.append(end)
        return row

    def child(self, above: int, timer: int) -> int:
        """The row of a timer under a row, made if need be."""
        key = (above, timer)
        row = self._children.get(key)
        if row is None:
            row = self._children[key] = len(self.timer)
            self.timer.append(timer)
            self.parent.append(above)
            self.calls.append(0)
            self.inclusive.append(0)
            self.exclusive.append(0)
        return row

    def tree(self) -> CallTree:
        """The call paths; the root has the sum of what stands under it and nothing itself."""
        self.inclusive[0] = -self.exclusive[0]
        self.exclusive[0] = 0
        subroutines = array("q", [0] * len(self.timer))
        for row in range(1, len(self.timer)):
            subroutines[self.parent[row]] += self.calls[row]
        return CallTree(
            timer=array("q", self.timer),
            parent=array("q", self.parent),
            calls=array("q", self.calls),
            subroutines=subroutines,
            inclusive={"time": array("q", self.inclusive)},
            exclusive={"time": array("q", self.exclusive)},
        )


class Timeline:
    """One thread's slices on their way to call paths.

    Args:
        root: the place of the root's timer among the profile's.
        slack_ns: so much a slice may outlast the one around it, for stamps that were
            rounded: it is cut off there.
    """

    def __init__(self, root: int, slack_ns: int = 0) -> None:
        self._root = root
        self._slack_ns = slack_ns
        self._first = Lane(root)
        self.lanes = [self._first]
        self.cut_off = 0
        self._trees: list[CallTree] = []

    def place(self, start: int, end: int, timer: int, frames: Sequence[int] = ()) -> int:
        """Count a slice; they come in order of start, of equal starts the longest first.

        Returns:
            A code for `owner`: where the slice stands.
        """
        lane = self._first
        ends = lane.ends
        while ends[-1] <= start:
            ends.pop()
            lane.rows.pop()
        if end <= ends[-1]:
            return lane.enter(start, end, timer, frames) << LANE_BITS
        return self._overlapping(start, end, timer, frames)

    def here(self, moment: int) -> int:
        """The code of the innermost slice of the first lane that is open at a moment."""
        lane = self._first
        while lane.ends[-1] <= moment:
            lane.ends.pop()
            lane.rows.pop()
        return lane.rows[-1] << LANE_BITS

    def _overlapping(self, start: int, end: int, timer: int, frames: Sequence[int]) -> int:
        for number, lane in enumerate(self.lanes):
            while lane.ends[-1] <= start:
                lane.ends.pop()
                lane.rows.pop()
            if end <= lane.ends[-1] + self._slack_ns:
                return (
                    lane.enter(start, min(end, lane.ends[-1]), timer, frames) << LANE_BITS | number
                )
        number = len(self.lanes)
        if number < MOST_LANES:
            self.lanes.append(Lane(self._root))
            return self.lanes[-1].enter(start, end, timer, frames) << LANE_BITS | number
        self.cut_off += 1
        return self._first.enter(start, self._first.ends[-1], timer, frames) << LANE_BITS

    def finish(self) -> list[CallTree]:
        """The trees of the lanes; `owner` can be asked from here on."""
        self._trees = [lane.tree() for lane in self.lanes]
        return self._trees

    def owner(self, code: int) -> Owner:
        """The host call path of a slice."""
        return Owner(self._trees[code & _LANE_MASK], code >> LANE_BITS)

    def threads(self, place: Callable[[], Thread]) -> list[ThreadProfile]:
        """A thread for each lane; `place` gives them their numbers, one after the other."""
        found = []
        for number, tree in enumerate(self._trees):
            thread = place()
            if number:
                thread = Thread(
                    thread.node,
                    thread.context,
                    thread.thread,
                    thread.kind,
                    f"{thread.name} (overlapping {number})".strip(),
                    thread.native_id,
                )
            found.append(ThreadProfile(thread, tree))
        return found
