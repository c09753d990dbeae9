"""A trial's call trees as columns, directly from the tables.

One pass over the calls and one over each metric's values, whatever the number of
threads.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from taupy.profiledb.database import ProfileDB

_CALLS = """
    SELECT call.thread_id, call.callpath_id, callpath.timer_id, callpath.parent_id,
           call.calls, call.subroutines
      FROM call CROSS JOIN callpath
     WHERE call.trial_id = :trial AND callpath.id = call.callpath_id
     ORDER BY call.callpath_id, call.thread_id
"""

_VALUES = """
    SELECT thread_id, callpath_id, inclusive, exclusive
      FROM interval_value
     WHERE trial_id = :trial AND metric_id = :metric
     ORDER BY callpath_id, thread_id
"""


@dataclass(slots=True)
class StoredTree:
    """The call paths of one thread, in no particular order.

    Attributes:
        callpath, timer: ids.
        parent_id: id of the parent call path, None for a root.
        row: call-path id -> row.
        inclusive, exclusive: by metric id, one column per requested metric; NaN
            where a row has no value.
    """

    callpath: array[int] = field(default_factory=lambda: array("q"))
    timer: array[int] = field(default_factory=lambda: array("q"))
    parent_id: list[int | None] = field(default_factory=list)
    calls: array[int] = field(default_factory=lambda: array("q"))
    subroutines: array[int] = field(default_factory=lambda: array("q"))
    row: dict[int, int] = field(default_factory=dict)
    inclusive: dict[int, list[float]] = field(default_factory=dict)
    exclusive: dict[int, list[float]] = field(default_factory=dict)

    def parents(self) -> list[int]:
        """Each row's parent row, -1 for a root or if the parent is missing."""
        find = self.row.get
        return [-1 if above is None else find(above, -1) for above in self.parent_id]


def stored_trees(db: ProfileDB, trial_id: int, metrics: Iterable[int]) -> dict[int, StoredTree]:
    """The trees of a trial's threads, by thread id."""
    trees: dict[int, StoredTree] = {}
    for thread, callpath, timer, parent, calls, subroutines in db.stream(
        _CALLS, {"trial": trial_id}
    ):
        tree = trees.get(thread)
        if tree is None:
            tree = trees[thread] = StoredTree()
        tree.row[callpath] = len(tree.callpath)
        tree.callpath.append(callpath)
        tree.timer.append(timer)
        tree.parent_id.append(parent)
        tree.calls.append(calls)
        tree.subroutines.append(subroutines)
    for metric in metrics:
        which = {"trial": trial_id, "metric": metric}
        for thread, callpath, inclusive, exclusive in db.stream(_VALUES, which):
            tree = trees[thread]
            if metric not in tree.inclusive:
                tree.inclusive[metric] = [math.nan] * len(tree.callpath)
                tree.exclusive[metric] = [math.nan] * len(tree.callpath)
            row = tree.row[callpath]
            tree.inclusive[metric][row] = math.nan if inclusive is None else inclusive
            tree.exclusive[metric][row] = math.nan if exclusive is None else exclusive
    return trees
