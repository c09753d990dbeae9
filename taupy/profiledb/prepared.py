"""Compute the rows of one thread before the database is locked, and insert them afterwards.

Rows are inserted sorted by the keys of their tables.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from taupy.model.collectives import Collectives, Stretches
from taupy.model.flat import flat_sums
from taupy.model.gpu import Activity, Launch
from taupy.model.profile import CallTree, Samples, Steps, Thread, ThreadProfile, UserEvent
from taupy.profiledb import bulk, columns
from taupy.profiledb.collectives import add_collectives, add_stretches
from taupy.profiledb.flat_rows import FlatRows
from taupy.profiledb.identity import callpath_ids, user_event_id
from taupy.profiledb.steps import add_steps
from taupy.profiledb.text import storable

OfRows = TypeVar("OfRows", Collectives, Stretches)
_ROWS_A_LEVEL = 50
"""Mean number of rows per level of a tree from which level-wise processing pays off."""


@dataclass(slots=True)
class PreparedThread:
    """A thread's rows, ready for the database."""

    thread: Thread
    tree: CallTree
    timers: array[int]  # ids, one per row
    callpaths: array[int]  # ids, one per row
    depth: array[int]
    order: array[int]  # rows by call-path id, the order of the tables' keys
    flat: FlatRows
    is_wide: bool  # inserted as whole columns
    user_events: list[UserEvent]
    launches: list[Launch]
    activities: Iterable[Activity]
    samples: list[Samples]
    steps: list[Steps]
    collectives: list[Collectives]
    stretches: Stretches | None

    @classmethod
    def of(cls, measured: ThreadProfile, timers: list[int]) -> PreparedThread:
        """Prepare a thread; `timers` are the ids of its profile's timers."""
        tree, user_events = measured.tree, measured.user_events
        timer_column = array("q", map(timers.__getitem__, tree.timer))
        is_wide = columns.wide(tree)
        depth = _depth(tree.parent, is_wide)
        callpaths = _callpaths(tree.parent, timer_column, depth, is_wide)
        order = columns.ascending(callpaths, is_wide)
        if _repeats(callpaths, order, is_wide):
            tree, moved = _without_duplicate_paths(tree, callpaths)
            once = replace(
                measured,
                tree=tree,
                user_events=[_moved(event, moved) for event in user_events],
                launches=[replace(launch, row=moved[launch.row]) for launch in measured.launches],
                activities=(
                    activity._replace(row=moved[activity.row]) for activity in measured.activities
                ),
                collectives=[_moved_rows(item, moved) for item in measured.collectives],
                stretches=measured.stretches and _moved_rows(measured.stretches, moved),
            )
            return cls.of(once, timers)
        return cls(
            measured.thread,
            tree,
            timer_column,
            callpaths,
            depth,
            order,
            _flat(tree, timer_column, measured.thread.kind == "stream", is_wide),
            is_wide,
            user_events,
            measured.launches,
            measured.activities,
            measured.samples,
            measured.steps,
            measured.collectives,
            measured.stretches,
        )

    def add(self, connection: sqlite3.Connection, trial: int, metrics: dict[str, int]) -> None:
        """Insert the thread's rows; its timers must exist; `metrics` maps names to metric ids."""
        thread = self._add_thread(connection, trial)
        self._add_callpaths(connection)
        self._insert(
            connection,
            "INSERT INTO call (trial_id, callpath_id, thread_id, calls, subroutines)",
            f"({trial}, ?, {thread}, ?, ?)",
            self.tree.calls,
            self.tree.subroutines,
        )
        bulk.insert(
            connection,
            "INSERT INTO timer_call (trial_id, thread_id, timer_id, calls, subroutines)",
            f"({trial}, {thread}, ?, ?, ?)",
            self.flat.counted(),
        )
        self.add_values(connection, trial, thread, metrics)
        self._add_user_events(connection, trial, thread)
        self._add_launches(connection, trial, thread)
        self._add_activities(connection, trial, thread)
        self._add_samples(connection, trial, thread)
        for series in self.steps:
            add_steps(connection, (trial, thread), series)
        for of_group in self.collectives:
            add_collectives(connection, (trial, thread), of_group, self.callpaths)
        if self.stretches is not None:
            add_stretches(connection, (trial, thread), self.stretches, self.callpaths)

    def add_values(
        self, connection: sqlite3.Connection, trial: int, thread: int, metrics: dict[str, int]
    ) -> None:
        """Insert the values of all its metrics; `thread` and its calls must exist."""
        for name, inclusive in self.tree.inclusive.items():
            metric = metrics[name]
            self._insert(
                connection,
                "INSERT INTO interval_value"
                " (trial_id, metric_id, callpath_id, thread_id, inclusive, exclusive)",
                f"({trial}, {metric}, ?, {thread}, ?, ?)",
                inclusive,
                self.tree.exclusive[name],
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
        insert = "INSERT INTO callpath (id, timer_id, parent_id, depth)"
        row, ending = "(?, ?, ?, ?)", " ON CONFLICT DO NOTHING"
        if not self.is_wide:
            cells = zip(
                self._sorted(self.callpaths),
                self._sorted(self.timers),
                self._parents(),
                self._sorted(self.depth),
                strict=True,
            )
            bulk.insert(connection, insert, row, cells, ending)
            return
        ids, parent = columns.whole(self.callpaths), columns.whole(self.tree.parent)
        order = columns.whole(self.order)
        is_root = parent[order] < 0
        roots = (
            (self.callpaths[at], self.timers[at], None, self.depth[at])
            for at in order[is_root].tolist()
        )
        bulk.insert(connection, insert, row, roots, ending)
        table = (ids, columns.whole(self.timers), ids[parent], columns.whole(self.depth))
        bulk.insert_columns(connection, insert, row, table, order[~is_root], ending)

    def _insert(
        self,
        connection: sqlite3.Connection,
        insert: str,
        row: str,
        first: array[int],
        second: array[int],
    ) -> None:
        """Insert one row per call path: its id and two values, the `?` in `row`."""
        if self.is_wide:
            table = tuple(map(columns.whole, (self.callpaths, first, second)))
            order = columns.whole(self.order)
            bulk.insert_columns(connection, insert, row, table, order)
        else:
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
            above = self.tree.parent[row]
            yield self.callpaths[above] if above >= 0 else None

    def _add_thread(self, connection: sqlite3.Connection, trial: int) -> int:
        thread = self.thread
        cursor = connection.execute(
            "INSERT INTO thread (trial_id, node, context, thread, kind, name, native_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                trial,
                thread.node,
                thread.context,
                thread.thread,
                thread.kind,
                storable(thread.name),
                thread.native_id,
            ),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _add_user_events(self, connection: sqlite3.Connection, trial: int, thread: int) -> None:
        ids = [user_event_id(event.name, event.unit) for event in self.user_events]
        connection.executemany(
            "INSERT INTO user_event (id, name, unit) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (
                (id, storable(event.name), storable(event.unit))
                for id, event in zip(ids, self.user_events, strict=True)
            ),
        )
        connection.executemany(
            "INSERT INTO user_event_value (trial_id, thread_id, user_event_id, callpath_id,"
            " count, minimum, maximum, mean, sum_squares)"
            f" VALUES ({trial}, {thread}, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    id,
                    None if event.row is None else self.callpaths[event.row],
                    event.count,
                    event.minimum,
                    event.maximum,
                    event.mean,
                    event.sum_squares,
                )
                for id, event in zip(ids, self.user_events, strict=True)
            ),
        )

    def _add_launches(self, connection: sqlite3.Connection, trial: int, thread: int) -> None:
        nowhere = (None, None, None)
        connection.executemany(
            "INSERT INTO launch (trial_id, thread_id, callpath_id, count, untimed, time_ns,"
            " minimum_ns, maximum_ns, sum_squares_ns2, grid_x, grid_y, grid_z, block_x, block_y,"
            " block_z, registers, shared_static_bytes, shared_dynamic_bytes, local_bytes,"
            " occupancy, limiter, bytes)"
            f" VALUES ({trial}, {thread}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?)",
            (
                (
                    self.callpaths[launch.row],
                    launch.count,
                    launch.untimed,
                    launch.time_ns,
                    launch.minimum_ns,
                    launch.maximum_ns,
                    launch.sum_squares_ns2,
                    *(launch.configuration.grid or nowhere),
                    *(launch.configuration.block or nowhere),
                    *launch.configuration[2:],
                    launch.bytes,
                )
                for launch in self.launches
            ),
        )

    def _add_activities(self, connection: sqlite3.Connection, trial: int, thread: int) -> None:
        connection.executemany(
            "INSERT INTO activity (trial_id, thread_id, callpath_id, kind, start_ns, end_ns,"
            f" correlation, bytes, graph_node) VALUES ({trial}, {thread}, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    self.callpaths[activity.row],
                    activity.kind,
                    activity.start_ns,
                    activity.end_ns,
                    activity.correlation,
                    activity.bytes,
                    activity.graph_node,
                )
                for activity in self.activities
            ),
        )

    def _add_samples(self, connection: sqlite3.Connection, trial: int, thread: int) -> None:
        for sample in sorted(
            self.samples, key=lambda sample: user_event_id(sample.name, sample.unit)
        ):
            event = user_event_id(sample.name, sample.unit)
            connection.execute(
                "INSERT INTO user_event (id, name, unit) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (event, storable(sample.name), storable(sample.unit)),
            )
            connection.executemany(
                "INSERT INTO sample (trial_id, thread_id, user_event_id, start_ns, end_ns, count,"
                f" mean, minimum, maximum) VALUES ({trial}, {thread}, {event}, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                zip(
                    sample.start_ns,
                    sample.end_ns,
                    sample.count,
                    sample.mean,
                    sample.minimum,
                    sample.maximum,
                    strict=True,
                ),
            )


def _repeats(callpaths: array[int], order: array[int], is_wide: bool) -> bool:
    if is_wide:
        return columns.repeats(columns.whole(callpaths), columns.whole(order))
    return len(set(callpaths)) < len(callpaths)


def _callpaths(
    parent: array[int], timers: array[int], depth: array[int], is_wide: bool
) -> array[int]:
    if is_wide and max(depth) * _ROWS_A_LEVEL < len(depth):
        ids = columns.callpath_ids(*map(columns.whole, (parent, timers, depth)))
        return array("q", ids.tobytes())
    return callpath_ids(parent, timers)


def _flat(tree: CallTree, timers: array[int], on_stream: bool, is_wide: bool) -> FlatRows:
    rows = columns.flat_rows(tree, timers, on_stream) if is_wide else None
    return FlatRows.of(flat_sums(tree, timers), tree.inclusive, on_stream) if rows is None else rows


def _depth(parent: array[int], is_wide: bool) -> array[int]:
    if is_wide:
        return array("q", columns.depths(columns.whole(parent)).tobytes())
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
