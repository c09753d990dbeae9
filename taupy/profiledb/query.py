"""Queries about a trial that return the rows of `model/rows.py`.

Threads, metadata, user events. For values of timers and call paths see `values.py` and
`metrics.py`; for the user's own SQL see `sql.py`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from taupy.model.profile import Metric
from taupy.model.rows import EventRow, ThreadRow
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.schema import LONGEST_PATH

_METRICS = """
    SELECT id, name, unit FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name <> 'time', name, unit
"""

_THREADS = """
    SELECT id, node, context, thread, kind, name
      FROM thread WHERE trial_id = ? ORDER BY node, context, thread
"""

_EVENTS = """
    SELECT value.thread_id, user_event.name, user_event.unit, value.callpath_id,
           value.count, value.minimum, value.maximum, value.mean, value.sum_squares
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ?
"""

_METADATA = """
    SELECT node, name, value FROM metadata WHERE trial_id = ?
     ORDER BY ifnull(node, -1), name COLLATE NOCASE, name
"""


class MetadataRow(NamedTuple):
    """One metadata entry of a trial, or of one of its nodes."""

    node: int | None
    name: str
    value: str


@of_a_sound_file
def metrics(db: ProfileDB, trial_id: int) -> list[Metric]:
    """The metrics that any thread of the trial has, `time` first."""
    db.trial(trial_id)
    return [Metric(name, unit) for _, name, unit in db.rows(_METRICS, (trial_id,))]


@of_a_sound_file
def threads(db: ProfileDB, trial_id: int) -> list[ThreadRow]:
    """The trial's threads, sorted."""
    db.trial(trial_id)
    return [ThreadRow(*row) for _, *row in db.rows(_THREADS, (trial_id,))]


@of_a_sound_file
def trial_metadata(db: ProfileDB, trial_id: int) -> list[MetadataRow]:
    """The trial's metadata, then that of its nodes, by name."""
    db.trial(trial_id)
    return [MetadataRow(*row) for row in db.rows(_METADATA, (trial_id,))]


TIMELINE_COLUMNS = ("node", "context", "thread", "event", "unit", "start_s", "end_s", "mean",
                    "minimum", "maximum", "count")  # fmt: skip


@of_a_sound_file
def timeline(db: ProfileDB, trial_id: int) -> list[tuple[Any, ...]]:
    """User events over time with `TIMELINE_COLUMNS`, sorted by event and time."""
    columns = ", ".join(TIMELINE_COLUMNS)
    return db.rows(
        f"SELECT {columns} FROM timeline WHERE trial_id = ? ORDER BY node, event, unit, start_s",
        (db.trial(trial_id).id,),
    )


@of_a_sound_file
def user_events(db: ProfileDB, trial_id: int) -> list[EventRow]:
    """The trial's user events, sorted by thread, event, call path.

    Of a call path deeper than `LONGEST_PATH` only the end is given, after `... => `.
    """
    db.trial(trial_id)
    places = _places(db, trial_id)
    rows = db.rows(_EVENTS, (trial_id,))
    above = Ancestry.of(db, (callpath for _, _, _, callpath, *_ in rows))
    events = []
    for thread, name, unit, callpath, count, *values in rows:
        minimum, maximum, mean, sum_squares = map(_number, values)
        events.append(
            EventRow(
                *places[thread],
                name,
                unit,
                None if callpath is None else " => ".join(above.names(callpath, LONGEST_PATH)),
                count,
                minimum,
                maximum,
                mean,
                math.sqrt(abs(sum_squares / count - mean * mean)) if count else 0.0,
            )
        )
    events.sort(key=lambda row: (row[:3], row.event, row.callpath or ""))
    return events


def _places(db: ProfileDB, trial_id: int) -> dict[int, tuple[int, int, int]]:
    """Thread id -> node, context, thread, sorted."""
    rows = db.rows(_THREADS, (trial_id,))
    return {id: (node, context, thread) for id, node, context, thread, _, _ in rows}


def _number(value: float | None) -> float:
    """NaN is stored as NULL."""
    return math.nan if value is None else value
