"""Slices of a thread's timeline become its call paths.

A timeline holds intervals with a name, a start and an end; those that lie within
another were entered from it. `Timeline` adds them up as they come by, in order of their
start. Some overlap without lying in each other: a range that opens in a routine and
closes in a later one, two tasks drawn on one thread. There the one that began first is
split where the other begins: its rest lies in the other, without a further call. So
each slice keeps all of its time, no moment is counted twice under one parent, and the
laws of summed values hold. Reading files is left to others.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from taupy.formats import limits
from taupy.model.profile import CallTree
from taupy.model.streams import Owner

_NEVER: Final = 1 << 62


class Timeline:
    """One thread's slices on their way to call paths; a slice is known by its row.

    Args:
        root: the place of the root's timer among the profile's.
        slack_ns: how long a slice may outlast the one around it, since timestamps may be
            rounded: it is cut off there.

    Attributes:
        cut_off: how many lost their place because too many overlapped: their rest counts
            at the top.
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
        """Count a slice; they come in order of start, of equal starts the longest first.

        Frames are timers between the slice and the one around it, that were seen but not
        timed: they get its time and no calls.

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

    def here(self, moment: int) -> int:
        """The row of the innermost slice that is open at a moment."""
        while self._ends[-1] <= moment:
            self._ends.pop()
            self._rows.pop()
        return self._rows[-1]

    def finish(self) -> None:
        """Make the tree; the root has the sum of what stands under it and nothing itself."""
        self._inclusive[0] = -self._exclusive[0]
        self._exclusive[0] = 0
        parent, calls = self._parent, self._calls
        subroutines = array("q", [0] * len(parent))
        for row in range(1, len(parent)):
            subroutines[parent[row]] += calls[row]
        self.tree = CallTree(
            timer=array("q", self._timer),
            parent=array("q", parent),
            calls=array("q", calls),
            subroutines=subroutines,
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
        """Count a slice that outlasts open ones: the rest of those goes into it."""
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
