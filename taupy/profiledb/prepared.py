"""Compute the rows of one thread before the database is locked, and insert them afterwards.

Rows are inserted sorted by the keys of their tables. `prepared_forest.py` does the same with whole
columns, for large threads and for many small ones.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence

from taupy.dataclass import dataclass, replace
from taupy.model.flat import flat_sums
from taupy.model.profile import CallTree, Thread, ThreadProfile, UserEvent
from taupy.profiledb import bulk
from taupy.profiledb.flat_rows import FlatRows
from taupy.profiledb.identity import callpath_ids
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, TypeVar

    from taupy.model.collectives import Collectives, Stretches
    from taupy.profiledb.records import Key

    OfRows = TypeVar("OfRows", "Collectives", "Stretches")

INTO_CALLPATH = "INSERT INTO callpath (id, timer_id, parent_id, depth)"
CALLPATH = "(?, ?, ?, ?)"
_INTO_THREAD = (
    "INSERT INTO thread (id, trial_id, node, context, thread, kind, name, native_id, count,"
    " least_ns, most_ns)"
)
_THREAD = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
IF_NEW = " ON CONFLICT DO NOTHING"


@dataclass(slots=True)
class PreparedThread:
    """A thread whose rows are ready for the database."""

    measured: ThreadProfile
    timers: array[int]  # ids, one per row
    callpaths: array[int]  # ids, one per row
    depth: array[int]
    order: array[int]  # rows by call-path id, the order of the tables' keys
    flat: FlatRows
    of_profile: list[int]  # ids of its profile's timers

    @classmethod
    def of(cls, measured: ThreadProfile, timers: list[int]) -> PreparedThread:
        """Prepare a thread; `timers` are the ids of its profile's timers."""
        tree = measured.tree
        timer_column = array("q", map(timers.__getitem__, tree.timer))
        callpaths = callpath_ids(tree.parent, timer_column)
        if len(set(callpaths)) < len(callpaths):
            tree, moved = _without_duplicate_paths(tree, callpaths)
            once = replace(
                measured,
                tree=tree,
                user_events=[_moved(event, moved) for event in measured.user_events],
                launches=[replace(launch, row=moved[launch.row]) for launch in measured.launches],
                activities=(
                    activity._replace(row=moved[activity.row]) for activity in measured.activities
                ),
                collectives=[_moved_rows(item, moved) for item in measured.collectives],
                stretches=measured.stretches and _moved_rows(measured.stretches, moved),
                inputs=[own._replace(row=moved[own.row]) for own in measured.inputs],
            )
            return cls.of(once, timers)
        on_stream = measured.thread.kind == "stream"
        return cls(
            measured,
            timers=timer_column,
            callpaths=callpaths,
            depth=_depth(tree.parent),
            order=array("q", sorted(range(len(tree)), key=callpaths.__getitem__)),
            flat=FlatRows.of(flat_sums(tree, timer_column), tree.inclusive, on_stream),
            of_profile=timers,
        )

    def add(self, connection: sqlite3.Connection, trial: int, metrics: dict[str, int]) -> None:
        """Insert the thread's rows; its timers must exist; `metrics` maps names to metric ids."""
        measured = self.measured
        (thread,) = add_threads(connection, trial, [measured.thread])
        self._add_callpaths(connection)
        self._insert(
            connection,
            "INSERT INTO call (trial_id, callpath_id, thread_id, calls, subroutines)",
            f"({trial}, ?, {thread}, ?, ?)",
            measured.tree.calls,
            measured.tree.subroutines,
        )
        bulk.insert(
            connection,
            "INSERT INTO timer_call (trial_id, thread_id, timer_id, calls, subroutines)",
            f"({trial}, {thread}, ?, ?, ?)",
            self.flat.counted(),
        )
        self.add_values(connection, trial, thread, metrics)
        add_records(connection, (trial, thread), measured, self.callpaths, self.of_profile)

    def add_values(
        self, connection: sqlite3.Connection, trial: int, thread: int, metrics: dict[str, int]
    ) -> None:
        """Insert the values of all its metrics; `thread` and its calls must exist."""
        tree = self.measured.tree
        for name, inclusive in tree.inclusive.items():
            metric = metrics[name]
            self._insert(
                connection,
                "INSERT INTO interval_value"
                " (trial_id, metric_id, callpath_id, thread_id, inclusive, exclusive)",
                f"({trial}, {metric}, ?, {thread}, ?, ?)",
                inclusive,
                tree.exclusive[name],
            )
            bulk.insert(
                connection,
                "INSERT INTO timer_value"
                " (trial_id, metric_id, thread_id, timer_id, inclusive, exclusive)",
                f"({trial}, {metric}, {thread}, ?, ?, ?)",
                self.flat.measured(name),
            )
            connection.execute(
                "INSERT INTO thread_metric (trial_id, metric_id, thread_id, largest_inclusive)"
                " VALUES (?, ?, ?, ?)",
                (trial, metric, thread, self.flat.largest[name]),
            )

    def _add_callpaths(self, connection: sqlite3.Connection) -> None:
        cells = zip(
            self._sorted(self.callpaths),
            self._sorted(self.timers),
            self._parents(),
            self._sorted(self.depth),
            strict=True,
        )
        bulk.insert(connection, INTO_CALLPATH, CALLPATH, cells, IF_NEW)

    def _insert(
        self,
        connection: sqlite3.Connection,
        insert: str,
        row: str,
        first: array[int],
        second: array[int],
    ) -> None:
        """Insert one row per call path: its id and two values, the `?` in `row`."""
        bulk.insert(connection, insert, row, self._measured_cells(first, second))

    def _measured_cells(
        self, inclusive: array[int], exclusive: array[int]
    ) -> Iterator[tuple[int, float, float]]:
        """Call path, inclusive and exclusive of the rows that have values."""
        cells = zip(
            self._sorted(self.callpaths),
            self._sorted(inclusive),
            self._sorted(exclusive),
            strict=True,
        )
        if inclusive.typecode != "d":
            return cells
        return (cell for cell in cells if not (math.isnan(cell[1]) and math.isnan(cell[2])))

    def _sorted(self, column: array[int]) -> Iterator[int]:
        return map(column.__getitem__, self.order)

    def _parents(self) -> Iterator[int | None]:
        for row in self.order:
            above = self.measured.tree.parent[row]
            yield self.callpaths[above] if above >= 0 else None


def add_threads(connection: sqlite3.Connection, trial: int, threads: Sequence[Thread]) -> range:
    """Insert threads; returns their ids."""
    ((last,),) = connection.execute("SELECT ifnull(max(id), 0) FROM thread")
    ids = range(last + 1, last + 1 + len(threads))
    rows = (
        (
            id,
            trial,
            thread.node,
            thread.context,
            thread.thread,
            thread.kind,
            storable(thread.name),
            thread.native_id,
            thread.count,
            thread.least_ns,
            thread.most_ns,
        )
        for id, thread in zip(ids, threads, strict=True)
    )
    bulk.insert(connection, _INTO_THREAD, _THREAD, rows)
    return ids


def add_records(
    connection: sqlite3.Connection,
    key: Key,
    measured: ThreadProfile,
    callpaths: Sequence[int],
    timers: Sequence[int],
) -> None:
    """Insert what a thread has beside its call paths.

    Args:
        callpaths: the ids of the rows of its tree.
        timers: the ids of its profile's timers.
    """
    # What small programs' threads have not: their prompt does not wait for these imports.
    if measured.user_events:
        from taupy.profiledb.records import add_user_events

        add_user_events(connection, key, measured.user_events, callpaths)
    if measured.launches:
        from taupy.profiledb.records import add_launches

        add_launches(connection, key, measured.launches, callpaths)
    if measured.activities:  # an iterator is true
        from taupy.profiledb.records import add_activities

        add_activities(connection, key, measured.activities, callpaths)
    if measured.samples:
        from taupy.profiledb.records import add_samples

        add_samples(connection, key, measured.samples)
    if measured.steps:
        from taupy.profiledb.steps import add_steps

        for series in measured.steps:
            add_steps(connection, key, series)
    if measured.collectives or measured.stretches is not None:
        from taupy.profiledb.collectives import add_collectives, add_stretches

        for in_communicator in measured.collectives:
            add_collectives(connection, key, in_communicator, callpaths)
        if measured.stretches is not None:
            add_stretches(connection, key, measured.stretches, callpaths)
    if measured.inputs:
        from taupy.profiledb.operator_inputs import add_inputs

        add_inputs(connection, key, measured.inputs, callpaths)
    if measured.lines:
        from taupy.profiledb.lines import add_lines

        add_lines(connection, key, measured.lines, timers)


def thread_ids(connection: sqlite3.Connection, trial: int) -> dict[tuple[int, int, int], int]:
    """The ids of the trial's threads by `Thread.place`."""
    rows = connection.execute(
        "SELECT id, node, context, thread FROM thread WHERE trial_id = ?", (trial,)
    )
    return {(node, context, thread): id for id, node, context, thread in rows}


def _depth(parent: array[int]) -> array[int]:
    depth: array[int] = array("q")
    for above in parent:
        depth.append(depth[above] + 1 if above >= 0 else 0)
    return depth


def _without_duplicate_paths(
    tree: CallTree, callpaths: array[int]
) -> tuple[CallTree, dict[int, int]]:
    """The tree with rows of equal call paths summed, and the new position of each row."""
    position: dict[int, int] = {}
    moved = {row: position.setdefault(id, len(position)) for row, id in enumerate(callpaths)}
    first = {new: row for row, new in reversed(moved.items())}

    def summed(column: array[int]) -> array[int]:
        sums: list[float | None] = [None] * len(position)
        for row, value in enumerate(column):
            if value == value:  # false for NaN: the row has no value
                sums[moved[row]] = (sums[moved[row]] or 0) + value
        values: list[Any] = [math.nan if value is None else value for value in sums]
        return array(column.typecode, values)

    rows = [first[new] for new in range(len(position))]
    parents = [tree.parent[row] for row in rows]
    return (
        CallTree(
            timer=array("q", [tree.timer[row] for row in rows]),
            parent=array("q", [moved[above] if above >= 0 else -1 for above in parents]),
            calls=summed(tree.calls),
            subroutines=summed(tree.subroutines),
            inclusive={name: summed(column) for name, column in tree.inclusive.items()},
            exclusive={name: summed(column) for name, column in tree.exclusive.items()},
        ),
        moved,
    )


def _moved_rows(of_rows: OfRows, moved: dict[int, int]) -> OfRows:
    return replace(of_rows, row=array("q", (moved[row] for row in of_rows.row)))


def _moved(event: UserEvent, moved: dict[int, int]) -> UserEvent:
    return event if event.row is None else replace(event, row=moved[event.row])
