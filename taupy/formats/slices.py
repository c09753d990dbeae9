"""Convert the slices of a thread's timeline to call paths.

A timeline consists of intervals with a name, a start and an end; an interval within another was
entered from it. `Timeline` adds them up in order of their start. Some overlap without nesting: a
range that begins in one routine and ends in a later one, or two tasks on the same thread. The one
that began first is then split where the other begins: its remainder is placed within the other,
without counting another call. Each slice thus keeps all of its time, no time is counted twice
under one parent, and the invariants of summed values hold. Nothing here reads files.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from taupy.formats import limits
from taupy.model.forest import subroutines
from taupy.model.profile import CallTree
from taupy.model.streams import Owner

_NEVER: Final = 1 << 62


class Timeline:
    """Adds up one thread's slices by call path; a slice is identified by its row.

    Args:
        root: position of the root's timer among the profile's timers.
        slack_ns: how long a slice may outlast its parent because of rounded timestamps; it is
            shortened to its parent's end.

    Attributes:
        cut_off: number of slices that overlapped too many others; their remainder counts at the
            top level.
        tree: the call paths, once `finish` has been called.
    """

    def __init__(self, root: int, slack_ns: int = 0) -> None:
        self._slack_ns = slack_ns
        self._timer = [root]
        self._parent = [-1]
        self._calls = [1]
        self._inclusive = [0]
        self._exclusive = [0]
        self._rows = [0]
        self._ends = [_NEVER]
        self._children: dict[int, int] = {}
        self.cut_off = 0
        self._splits = 0
        self.tree = CallTree()

    def place(self, start: int, end: int, timer: int, frames: Sequence[int] = ()) -> int:
        """Add a slice. Slices must be in order of their start, the longest first if equal.

        Frames are timers between the slice and its parent that were not timed themselves: they get
        the slice's time and no calls.

        Returns:
            The slice's row.
        """
        ends = self._ends
        while ends[-1] <= start:
            ends.pop()
            self._rows.pop()
        if end > ends[-1]:
            if end > ends[-1] + self._slack_ns:
                return self._splitting(start, end, timer, frames)
            end = ends[-1]
        row = self._enter(start, end, timer, frames)
        self._calls[row] += 1
        return row

    def restart(self) -> None:
        """Leave all slices that are active: those to come have nothing to do with them."""
        del self._rows[1:], self._ends[1:]

    def here(self, moment: int) -> int:
        """The row of the innermost slice that is active at a moment."""
        while self._ends[-1] <= moment:
            self._ends.pop()
            self._rows.pop()
        return self._rows[-1]

    def timer(self, row: int) -> int:
        return self._timer[row]

    def finish(self) -> None:
        """Build the tree; the root's inclusive time is its children's sum, its exclusive time 0."""
        self._inclusive[0] = -self._exclusive[0]
        self._exclusive[0] = 0
        self.tree = CallTree(
            timer=array("q", self._timer),
            parent=array("q", self._parent),
            calls=array("q", self._calls),
            subroutines=subroutines(self._parent, self._calls),
            inclusive={"time": array("q", self._inclusive)},
            exclusive={"time": array("q", self._exclusive)},
        )

    def owner(self, row: int) -> Owner:
        """The host call path of a slice."""
        return Owner(self.tree, row)

    def _enter(self, start: int, end: int, timer: int, frames: Sequence[int] = ()) -> int:
        above = self._rows[-1]
        took = end - start
        self._exclusive[above] -= took
        for frame in frames:
            above = self._child(above, frame)
            self._inclusive[above] += took
        row = self._child(above, timer)
        self._inclusive[row] += took
        self._exclusive[row] += took
        self._rows.append(row)
        self._ends.append(end)
        return row

    def _child(self, above: int, timer: int) -> int:
        key = above << 32 | timer
        row = self._children.get(key)
        if row is None:
            row = self._children[key] = len(self._timer)
            self._timer.append(timer)
            self._parent.append(above)
            self._calls.append(0)
            self._inclusive.append(0)
            self._exclusive.append(0)
        return row

    def _splitting(self, start: int, end: int, timer: int, frames: Sequence[int]) -> int:
        """Add a slice that outlasts active ones, whose remainders are placed within it."""
        rows, ends = self._rows, self._ends
        level = len(ends) - 1
        while ends[level] < end:
            level -= 1
        rest: list[tuple[int, int]] = []
        for at in range(level + 1, len(ends)):
            left = ends[at] - start
            row, around = rows[at], rows[at - 1]
            self._exclusive[row] -= left
            self._exclusive[around] += left
            while row != around:
                self._inclusive[row] -= left
                row = self._parent[row]
            rest.append((self._timer[rows[at]], ends[at]))
        del rows[level + 1 :], ends[level + 1 :]
        placed = self._enter(start, end, timer, frames)
        self._calls[placed] += 1
        most = limits.SPLIT if self._splits < limits.SPLITS else 2
        self._splits += len(rest)
        for nested_timer, until in rest[:most]:
            self._enter(start, until, nested_timer)
        for nested_timer, until in rest[most:]:
            self.cut_off += 1
            row = self._child(0, nested_timer)
            self._inclusive[row] += until - start
            self._exclusive[row] += until - start
            self._exclusive[0] -= until - start
        return placed


def overlaps(timeline: Timeline) -> list[str]:
    """Notes on slices that overlapped without nesting."""
    if not timeline.cut_off:
        return []
    return [
        f"{timeline.cut_off} slices overlapped more than {limits.SPLIT} others: the remainder "
        "counts at the top level"
    ]
