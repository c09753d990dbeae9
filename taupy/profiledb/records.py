"""Store and read what a thread has beside its call paths: user events, launches, activities,
samples over time. Each table's columns stand here once."""

from __future__ import annotations

from _operator import attrgetter
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat

from taupy.model.absent import nan_if_none
from taupy.model.gpu import Activity, Configuration, Launch
from taupy.model.profile import Samples, UserEvent
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import user_event_id
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

Key = tuple[int, int]
"""The trial and the thread, which exist."""

Rows = Mapping[int, Mapping[int, int]]
"""For each thread's id, the rows of its tree by call-path id."""

_NUMBERS = ("count", "minimum", "maximum", "mean", "sum_squares")
_LAUNCHES = ("count", "time_ns", "minimum_ns", "maximum_ns", "sum_squares_ns2", "untimed")
_EXTENTS = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_LAUNCH = (*_LAUNCHES, *_EXTENTS, *Configuration._fields[2:], "bytes")
_ACTIVITY = Activity._fields[1:]
_SAMPLE = ("start_ns", "end_ns", "count", "mean", "minimum", "maximum")


def _add(
    connection: sqlite3.Connection,
    table: str,
    key: Key,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    ending: str = "",
) -> None:
    # The key is bound, not written: SQLite compiles one statement for all threads.
    connection.executemany(
        f"INSERT INTO {table} (trial_id, thread_id, {', '.join(columns)})"
        f" VALUES (?, ?{', ?' * len(columns)}){ending}",
        ((*key, *row) for row in rows),
    )


def _add_names(connection: sqlite3.Connection, events: Iterable[UserEvent | Samples]) -> None:
    """Add the names of user events that are new."""
    connection.executemany(
        "INSERT INTO user_event (id, name, unit) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (
            (user_event_id(name, unit), storable(name), storable(unit))
            for name, unit in dict.fromkeys((event.name, event.unit) for event in events)
        ),
    )


def add_user_events(
    connection: sqlite3.Connection, key: Key, events: Sequence[UserEvent], callpaths: Sequence[int]
) -> None:
    """Insert a thread's user events; `callpaths` are the ids of the rows of its tree."""
    numbers = attrgetter(*_NUMBERS)
    _add_names(connection, events)
    rows = (
        (
            user_event_id(event.name, event.unit),
            None if event.row is None else callpaths[event.row],
            *numbers(event),
        )
        for event in events
    )
    _add(connection, "user_event_value", key, ("user_event_id", "callpath_id", *_NUMBERS), rows)


def read_user_events(db: ProfileDB, trial: int, rows_of: Rows) -> Iterator[tuple[int, UserEvent]]:
    """The id of each user event's thread, and the event."""
    sql = f"""
        SELECT value.thread_id, user_event.name, user_event.unit, value.callpath_id,
               {", ".join(f"value.{name}" for name in _NUMBERS)}
          FROM user_event_value AS value
          JOIN user_event ON user_event.id = value.user_event_id
         WHERE value.trial_id = ?
         ORDER BY value.id
    """
    for thread, name, unit, callpath, count, *numbers in db.rows(sql, (trial,)):
        row = None if callpath is None else rows_of[thread].get(callpath)
        minimum, maximum, mean, sum_squares = map(nan_if_none, numbers)
        yield thread, UserEvent(name, unit, count, minimum, maximum, mean, sum_squares, row)


def add_launches(
    connection: sqlite3.Connection, key: Key, launches: Iterable[Launch], callpaths: Sequence[int]
) -> None:
    """Insert a thread's launches; `callpaths` are the ids of the rows of its tree."""
    nowhere = (None, None, None)
    numbers = attrgetter(*_LAUNCHES)
    rows = (
        (
            callpaths[launch.row],
            *numbers(launch),
            *(launch.configuration.grid or nowhere),
            *(launch.configuration.block or nowhere),
            *launch.configuration[2:],
            launch.bytes,
        )
        for launch in launches
    )
    _add(connection, "launch", key, ("callpath_id", *_LAUNCH), rows)


def read_launches(db: ProfileDB, trial: int, rows_of: Rows) -> Iterator[tuple[int, Launch]]:
    """The id of each launch's thread, and the launch."""
    sql = f"""
        SELECT thread_id, callpath_id, {", ".join(_LAUNCH)}
          FROM launch WHERE trial_id = ? ORDER BY id
    """
    for thread, callpath, *cells, moved in db.rows(sql, (trial,)):
        numbers, configuration = cells[: len(_LAUNCHES)], cells[len(_LAUNCHES) :]
        yield (
            thread,
            Launch(
                **dict(zip(_LAUNCHES, numbers, strict=True)),
                row=rows_of[thread][callpath],
                configuration=Configuration.of_columns(*configuration),
                bytes=moved,
            ),
        )


def add_activities(
    connection: sqlite3.Connection,
    key: Key,
    activities: Iterable[Activity],
    callpaths: Sequence[int],
) -> None:
    """Insert a thread's activities; `callpaths` are the ids of the rows of its tree."""
    rows = ((callpaths[activity.row], *activity[1:]) for activity in activities)
    _add(connection, "activity", key, ("callpath_id", *_ACTIVITY), rows)


def read_activities(db: ProfileDB, trial: int, rows_of: Rows) -> Iterator[tuple[int, Activity]]:
    """The id of each activity's thread, and the activity."""
    sql = f"""
        SELECT thread_id, callpath_id, {", ".join(_ACTIVITY)}
          FROM activity WHERE trial_id = ? ORDER BY thread_id, start_ns, id
    """
    for thread, callpath, *cells in db.stream(sql, (trial,)):
        yield thread, Activity(rows_of[thread][callpath], *cells)


def add_samples(connection: sqlite3.Connection, key: Key, samples: Sequence[Samples]) -> None:
    """Insert a thread's samples over time."""
    columns, ending = ("user_event_id", *_SAMPLE), " ON CONFLICT DO NOTHING"
    _add_names(connection, samples)
    for sample in sorted(samples, key=lambda sample: user_event_id(sample.name, sample.unit)):
        event = user_event_id(sample.name, sample.unit)
        rows = zip(repeat(event), *attrgetter(*_SAMPLE)(sample), strict=False)
        _add(connection, "sample", key, columns, rows, ending)


def read_samples(db: ProfileDB, trial: int) -> Iterator[tuple[int, Samples]]:
    """The id of each series' thread, and the series."""
    sql = f"""
        SELECT sample.thread_id, user_event.name, user_event.unit,
               {", ".join(f"sample.{name}" for name in _SAMPLE)}
          FROM sample JOIN user_event ON user_event.id = sample.user_event_id
         WHERE sample.trial_id = ?
         ORDER BY sample.thread_id, user_event.name, user_event.unit, sample.start_ns
    """
    for (thread, name, unit), rows in groupby(db.stream(sql, (trial,)), key=lambda row: row[:3]):
        samples = Samples(
            name,
            unit,
            start_ns=array("q"),
            end_ns=array("q"),
            count=array("q"),
            mean=array("d"),
            minimum=array("d"),
            maximum=array("d"),
        )
        columns = attrgetter(*_SAMPLE)(samples)
        for row in rows:
            for column, value in zip(columns, row[3:], strict=True):
                column.append(nan_if_none(value))
        yield thread, samples
