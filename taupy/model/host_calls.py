"""Insert separately timed calls of foreign functions under the host call paths that made them.

CUDA's API is C: the engine does not see its functions; the collector times them. Their time is
already part of the calling routine's, so it moves from that routine's exclusive time into rows
of its own: the invariants of `invariants.py` hold, and no time is counted twice.
"""

from __future__ import annotations

from array import array
from typing import Any

from taupy.model.profile import ABSENT, CallTree

_TIMES = ("time", "time_compensated")


class HostCalls:
    """Adds rows to the trees of host threads."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int, int], int] = {}
        self._trees: list[CallTree] = []  # keeps the trees alive, so that each `id` stays unique

    def add(self, tree: CallTree, parent: int, timer: int, calls: int, time_ns: int) -> int:
        """Count calls of a function from one call path; equal ones become one row.

        Args:
            tree: a thread's call paths. Metrics other than time have no value in the
                new row: they were not measured separately for it.
            parent: the row of the calling routine.
            timer: the function, a position in `Profile.timers`.
            time_ns: total; anything beyond the caller's exclusive time is dropped.

        Returns:
            The row of the function under its caller.
        """
        key = (id(tree), parent, timer)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(tree)
            self._trees.append(tree)
            tree.timer.append(timer)
            tree.parent.append(parent)
            tree.calls.append(0)
            tree.subroutines.append(0)
            for name in tree.inclusive:
                for columns in (tree.inclusive, tree.exclusive):
                    columns[name] = _with_one_more(columns[name], name in _TIMES)
        tree.calls[row] += calls
        tree.subroutines[parent] += calls
        for name in _TIMES:
            if name in tree.inclusive:
                moved = max(0, min(time_ns, tree.exclusive[name][parent]))
                tree.exclusive[name][parent] -= moved
                tree.exclusive[name][row] += moved
                tree.inclusive[name][row] += moved
        return row


def _with_one_more(column: array[int], is_time: bool) -> array[int]:
    if is_time:
        column.append(0)
        return column
    absent: Any = ABSENT
    if column.typecode != "d":
        column = array("d", column)  # type: ignore[assignment]
    column.append(absent)
    return column
