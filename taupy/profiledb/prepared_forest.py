"""A large thread, or many small ones at once, as columns: the same rows as `prepared.py`'s.

A server has thousands of threads that end, with few call paths each. Inserted thread by thread,
each costs a statement per table, and its rows are scattered over the tables, whose keys begin
with the call path.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from taupy.dataclass import dataclass
from taupy.model.profile import CallTree, ThreadProfile
from taupy.profiledb import bulk, columns
from taupy.profiledb.identity import callpath_ids
from taupy.profiledb.prepared import (
    CALLPATH,
    IF_NEW,
    INTO_CALLPATH,
    PreparedThread,
    add_records,
    add_threads,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from taupy.profiledb.columns import Column, FlatColumns

_AT_MOST = 500_000
"""Rows of a forest of several threads, which is held in memory twice."""
_ROWS_A_LEVEL = 50
"""Mean number of rows per level of a tree from which level-wise processing pays off."""


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees of threads with the same metrics, one after the other.

    Attributes:
        first: of each thread, its first row in `tree`; and at last their number.
    """

    measured: Sequence[ThreadProfile]
    tree: CallTree
    first: list[int]

    @classmethod
    def of(cls, measured: Sequence[ThreadProfile]) -> Forest:
        if len(measured) == 1:
            return cls(measured, measured[0].tree, [0, len(measured[0].tree)])
        first = [0]
        joined = CallTree(
            inclusive={name: array("q") for name in measured[0].tree.inclusive},
            exclusive={name: array("q") for name in measured[0].tree.inclusive},
        )
        for tree in (thread.tree for thread in measured):
            joined.parent.extend(above + first[-1] if above >= 0 else -1 for above in tree.parent)
            joined.timer += tree.timer
            joined.calls += tree.calls
            joined.subroutines += tree.subroutines
            for name, inclusive in tree.inclusive.items():
                joined.inclusive[name] += inclusive
                joined.exclusive[name] += tree.exclusive[name]
            first.append(len(joined.timer))
        return cls(measured, joined, first)

    def are_lawful(self, timers: int) -> list[bool]:
        """For each thread, whether its tree is known to satisfy every invariant; row by row, that
        takes longer than the rest of storing."""
        is_lawful = columns.wide(self.tree) and columns.lawful(self.tree, timers, self.first[:-1])
        return [is_lawful] * len(self.measured)


@dataclass(slots=True)
class PreparedForest:
    """Threads whose rows are ready for the database.

    Attributes:
        owner: of each row, the position of its thread.
        order: rows by call-path id and thread.
        once: the first row of each call path, in this order.
        flat: by thread, then by timer.
    """

    forest: Forest
    owner: Column
    timers: Column
    callpaths: Column
    depth: Column
    order: Column
    once: Column
    flat: FlatColumns
    of_profile: list[int]

    @classmethod
    def of(cls, forest: Forest, timers: list[int]) -> PreparedForest | None:
        """Prepare threads; `timers` are the ids of their profile's timers.

        Returns:
            None if a thread has equal call paths, or they are too many or too deep for columns.
        """
        tree = forest.tree
        if not columns.wide(tree):
            return None
        import numpy as np

        depth = columns.depths(columns.whole(tree.parent))
        if columns.is_deep(depth):
            return None
        owner = np.repeat(np.arange(len(forest.measured)), np.diff(np.array(forest.first)))
        ids, ranks = np.array(timers, "i8"), np.unique(timers, return_inverse=True)[1]
        of_timers = columns.whole(tree.timer)
        callpaths = _callpaths(columns.whole(tree.parent), ids[of_timers], depth)
        order = callpaths.argsort(kind="stable")  # of equal ones, by thread
        is_again = np.diff(callpaths[order], prepend=-1) == 0
        if (is_again & (np.diff(owner[order], prepend=-1) == 0)).any():
            return None
        return cls(
            forest,
            owner=owner,
            timers=ids[of_timers],
            callpaths=callpaths,
            depth=depth,
            order=order,
            once=order[~is_again],
            flat=columns.flat_sums(tree, owner * len(timers) + ranks[of_timers]),
            of_profile=timers,
        )

    def add(self, connection: sqlite3.Connection, trial: int, metrics: dict[str, int]) -> None:
        """Insert the threads' rows; their timers must exist; `metrics` maps names to ids."""
        import numpy as np

        measured, tree, first = self.forest.measured, self.forest.tree, self.forest.first
        ids = add_threads(connection, trial, [of_thread.thread for of_thread in measured])
        threads = np.array(ids, "i8")
        self._add_callpaths(connection)
        flat, whole = self.flat, columns.whole
        of_rows = (self.callpaths, threads[self.owner])
        bulk.insert_columns(
            connection,
            "INSERT INTO call (trial_id, callpath_id, thread_id, calls, subroutines)",
            f"({trial}, ?, ?, ?, ?)",
            (*of_rows, whole(tree.calls), whole(tree.subroutines)),
            self.order,
        )
        of_timers = (threads[self.owner[flat.first]], self.timers[flat.first])
        on_stream = measured[0].thread.kind == "stream"  # see `FlatSums.has_run`
        ran = np.flatnonzero(flat.calls > 0 if on_stream else flat.is_any())
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
        for id, of_thread, (begin, end) in zip(ids, measured, pairwise(first), strict=True):
            add_records(connection, (trial, id), of_thread, callpaths[begin:end], self.of_profile)

    def _add_callpaths(self, connection: sqlite3.Connection) -> None:
        """Insert the call paths of all threads, each once."""
        parent, once = columns.whole(self.forest.tree.parent), self.once
        is_root = parent[once] < 0
        roots = (
            (int(self.callpaths[at]), int(self.timers[at]), None, int(self.depth[at]))
            for at in once[is_root].tolist()
        )
        bulk.insert(connection, INTO_CALLPATH, CALLPATH, roots, IF_NEW)
        table = (self.callpaths, self.timers, self.callpaths[parent], self.depth)
        bulk.insert_columns(connection, INTO_CALLPATH, CALLPATH, table, once[~is_root], IF_NEW)


def prepared(
    forests: Iterable[Forest], timers: list[int]
) -> Iterator[PreparedThread | PreparedForest]:
    """Prepare threads for the database, in their order."""
    for forest in forests:
        ready = PreparedForest.of(forest, timers)
        if ready is not None:
            yield ready
        else:
            yield from (PreparedThread.of(measured, timers) for measured in forest.measured)


def forests_of(threads: Sequence[ThreadProfile]) -> list[Forest]:
    """The threads, in their order."""
    return [Forest.of(group) for group in _groups(threads)]


def _groups(threads: Sequence[ThreadProfile]) -> Iterator[list[ThreadProfile]]:
    """Threads that can be a forest, in their order; others are alone."""
    group: list[ThreadProfile] = []
    rows, are_small = 0, False
    for measured in threads:
        is_small = _is_small(measured)
        if group and not (
            are_small
            and is_small
            and rows + len(measured.tree) <= _AT_MOST
            and measured.tree.inclusive.keys() == group[0].tree.inclusive.keys()
        ):
            yield group
            group, rows = [], 0
        group.append(measured)
        are_small = is_small
        rows += len(measured.tree)
    if group:
        yield group


def _is_small(measured: ThreadProfile) -> bool:
    """Whether it is on the host, has whole rows of integers, and is better not processed alone."""
    tree = measured.tree
    rows = len(tree)
    if measured.thread.kind != "host" or not 0 < rows < columns.ROWS:
        return False
    if tree.inclusive.keys() != tree.exclusive.keys():
        return False
    for column in (*tree.inclusive.values(), *tree.exclusive.values()):
        if column.typecode != "q" or len(column) != rows:
            return False
    return len(tree.parent) == len(tree.calls) == len(tree.subroutines) == rows


def _callpaths(parent: Column, timers: Column, depth: Column) -> Column:
    """The ids of a tree's call paths."""
    if int(depth.max()) * _ROWS_A_LEVEL < len(depth):
        return columns.callpath_ids(parent, timers, depth)
    return columns.whole(callpath_ids(parent.tolist(), timers.tolist()))
