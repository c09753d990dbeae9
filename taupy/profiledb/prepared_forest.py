"""Many small threads at once, as the columns of one forest: the same rows as `prepared.py`'s.

A server has thousands of threads that end, with few call paths each. Inserted thread by thread,
each costs a statement per table, and its rows are scattered over the tables, whose keys begin
with the call path.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

from taupy.dataclass import dataclass
from taupy.model.profile import CallTree, ThreadProfile
from taupy.profiledb import bulk, columns
from taupy.profiledb.prepared import (
    PreparedThread,
    add_callpath_columns,
    add_records,
    add_thread,
    callpaths_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.profiledb.columns import Column, FlatColumns

_AT_MOST = 500_000
"""Rows of a forest, which is held in memory twice."""


@dataclass(slots=True)
class PreparedForest:
    """Threads whose rows are ready for the database.

    Attributes:
        first: of each thread, its first row in `tree`; and at last their number.
        owner: of each row, the position of its thread.
        order: rows by call-path id and thread.
        flat: by thread, then by timer.
    """

    measured: Sequence[ThreadProfile]
    tree: CallTree
    first: list[int]
    owner: Column
    timers: Column
    callpaths: Column
    depth: Column
    order: Column
    flat: FlatColumns
    of_profile: list[int]

    @classmethod
    def of(cls, measured: Sequence[ThreadProfile], timers: list[int]) -> PreparedForest | None:
        """Prepare threads with the same metrics; `timers` are the ids of their profile's timers.

        Returns:
            None if a thread has equal call paths, or they are too many or too deep for columns.
        """
        tree, first = _joined([thread.tree for thread in measured])
        if not columns.wide(tree):
            return None
        import numpy as np

        sizes = np.diff(np.array(first))
        owner = np.repeat(np.arange(len(measured)), sizes)
        parent = columns.whole(tree.parent)
        parent = np.where(parent < 0, -1, parent + np.array(first)[owner])
        tree.parent = columns.column(parent)
        timer_ids = np.array(timers, "i8")[columns.whole(tree.timer)]
        depth = columns.depths(parent)
        callpaths = columns.whole(callpaths_of(tree.parent, columns.column(timer_ids), depth))
        order = np.lexsort((owner, callpaths))
        ids, owners = callpaths[order], owner[order]
        if ((ids[1:] == ids[:-1]) & (owners[1:] == owners[:-1])).any():
            return None
        rank = np.unique(timer_ids, return_inverse=True)[1]
        flat = columns.flat_sums(tree, owner * len(timers) + rank, depth)
        if flat is None:
            return None
        return cls(
            measured,
            tree,
            first,
            owner=owner,
            timers=timer_ids,
            callpaths=callpaths,
            depth=depth,
            order=order,
            flat=flat,
            of_profile=timers,
        )

    def add(self, connection: sqlite3.Connection, trial: int, metrics: dict[str, int]) -> None:
        """Insert the threads' rows; their timers must exist; `metrics` maps names to ids."""
        import numpy as np

        ids = [add_thread(connection, trial, measured.thread) for measured in self.measured]
        threads = np.array(ids, "i8")
        self._add_callpaths(connection)
        tree, flat, whole = self.tree, self.flat, columns.whole
        of_rows = (self.callpaths, threads[self.owner])
        bulk.insert_columns(
            connection,
            "INSERT INTO call (trial_id, callpath_id, thread_id, calls, subroutines)",
            f"({trial}, ?, ?, ?, ?)",
            (*of_rows, whole(tree.calls), whole(tree.subroutines)),
            self.order,
        )
        of_timers = (threads[self.owner[flat.first]], self.timers[flat.first])
        ran = np.flatnonzero(flat.is_any())
        bulk.insert_columns(
            connection,
            "INSERT INTO timer_call (trial_id, thread_id, timer_id, calls, subroutines)",
            f"({trial}, ?, ?, ?, ?)",
            (*of_timers, flat.calls, flat.subroutines),
            ran,
        )
        begins = np.flatnonzero(np.diff(self.owner[flat.first], prepend=-1))
        for name, inclusive in tree.inclusive.items():
            metric = metrics[name]
            bulk.insert_columns(
                connection,
                "INSERT INTO interval_value"
                " (trial_id, metric_id, callpath_id, thread_id, inclusive, exclusive)",
                f"({trial}, {metric}, ?, ?, ?, ?)",
                (*of_rows, whole(inclusive), whole(tree.exclusive[name])),
                self.order,
            )
            bulk.insert_columns(
                connection,
                "INSERT INTO timer_value"
                " (trial_id, metric_id, thread_id, timer_id, inclusive, exclusive)",
                f"({trial}, {metric}, ?, ?, ?, ?)",
                (*of_timers, flat.inclusive[name], flat.exclusive[name]),
                ran,
            )
            largest = np.maximum.reduceat(flat.inclusive[name], begins)
            bulk.insert_columns(
                connection,
                "INSERT INTO thread_metric (trial_id, metric_id, thread_id, largest_inclusive)",
                f"({trial}, {metric}, ?, ?)",
                (threads, largest),
                np.arange(len(threads)),
            )
        callpaths = columns.column(self.callpaths)
        for id, measured, (begin, end) in zip(
            ids, self.measured, pairwise(self.first), strict=True
        ):
            of_thread = callpaths[begin:end]
            add_records(connection, (trial, id), measured, of_thread, self.of_profile)

    def _add_callpaths(self, connection: sqlite3.Connection) -> None:
        """Insert the call paths of all threads, each once."""
        import numpy as np

        once = np.unique(self.callpaths, return_index=True)[1]
        parent = columns.whole(self.tree.parent)
        add_callpath_columns(connection, self.callpaths, self.timers, parent, self.depth, once)


def prepared(
    threads: Sequence[ThreadProfile], timers: list[int]
) -> Iterator[PreparedThread | PreparedForest]:
    """Prepare threads for the database, in their order."""
    for group in _groups(threads):
        forest = PreparedForest.of(group, timers) if len(group) > 1 else None
        if forest is not None:
            yield forest
        else:
            yield from (PreparedThread.of(measured, timers) for measured in group)


def _groups(threads: Sequence[ThreadProfile]) -> Iterator[list[ThreadProfile]]:
    """Threads that can be a forest, in their order; others are alone."""
    group: list[ThreadProfile] = []
    rows = 0
    for measured in threads:
        if group and not (
            rows + len(measured.tree) <= _AT_MOST
            and _is_small(measured)
            and _is_small(group[0])
            and measured.tree.inclusive.keys() == group[0].tree.inclusive.keys()
        ):
            yield group
            group, rows = [], 0
        group.append(measured)
        rows += len(measured.tree)
    if group:
        yield group


def _is_small(measured: ThreadProfile) -> bool:
    """Whether it is on the host, has rows of integers, and is better not processed alone."""
    tree = measured.tree
    values = (*tree.inclusive.values(), *tree.exclusive.values())
    return (
        measured.thread.kind == "host"
        and 0 < len(tree) < columns.ROWS
        and all(column.typecode == "q" for column in values)
    )


def _joined(trees: Sequence[CallTree]) -> tuple[CallTree, list[int]]:
    """The trees one after the other, with parents still counted from the tree's first row; and
    each tree's first row, and at last the number of rows."""
    first = [0]
    joined = CallTree(
        inclusive={name: array("q") for name in trees[0].inclusive},
        exclusive={name: array("q") for name in trees[0].inclusive},
    )
    for tree in trees:
        joined.timer += tree.timer
        joined.parent += tree.parent
        joined.calls += tree.calls
        joined.subroutines += tree.subroutines
        for name, inclusive in tree.inclusive.items():
            joined.inclusive[name] += inclusive
            joined.exclusive[name] += tree.exclusive[name]
        first.append(len(joined.timer))
    return joined, first
