"""Queries about a trial that return the rows of `model/rows.py`.

Threads, metadata, user events. For values of timers and call paths see `values.py` and
`metrics.py`; for the user's own SQL see `sql.py`.
"""

from __future__ import annotations

import math

from taupy.dataclass import NamedTuple
from taupy.model import host_clocks
from taupy.model.absent import nan_if_none
from taupy.model.metric import Metric
from taupy.model.rows import EventRow, ThreadRow, TimelineRow
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.database import ProfileDB, of_a_sound_file, refuse_infinite
from taupy.profiledb.schema_views import LONGEST_PATH

_METRICS = """
    SELECT id, name, unit FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name <> 'time', name, unit
"""

_THREADS = """
    SELECT id, node, context, thread, kind, name, count, ifnull(least_ns, 0), ifnull(most_ns, 0)
      FROM thread WHERE trial_id = ? ORDER BY node, context, thread
"""

_EVENTS = """
    SELECT value.thread_id, user_event.name, user_event.unit, value.callpath_id,
           value.count, value.minimum, value.maximum, value.mean, value.sum_squares
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ?
"""

_TIMELINE = """
    SELECT thread.node, thread.context, thread.thread, user_event.name, user_event.unit,
           sample.start_ns, sample.end_ns, sample.mean, sample.minimum, sample.maximum,
           sample.count
      FROM sample
      JOIN thread ON thread.id = sample.thread_id
      JOIN user_event ON user_event.id = sample.user_event_id
     WHERE sample.trial_id = ?{only}
     ORDER BY thread.node, user_event.name, user_event.unit, sample.start_ns
"""

_METADATA = """
    SELECT node, name, value FROM metadata WHERE trial_id = ?
     ORDER BY ifnull(node, -1), name COLLATE NOCASE, name
"""


_GROUP_NAMES = """
    SELECT DISTINCT timer_group.name
      FROM trial_timer JOIN timer_group USING (timer_id)
     WHERE trial_timer.trial_id = ?
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
def group_names(db: ProfileDB, trial_id: int) -> set[str]:
    """The groups that any timer of the trial is in."""
    return {name for (name,) in db.rows(_GROUP_NAMES, (trial_id,))}


@of_a_sound_file
def threads(db: ProfileDB, trial_id: int) -> list[ThreadRow]:
    """The trial's threads, sorted."""
    return list(threads_by_id(db, trial_id).values())


@of_a_sound_file
def threads_by_id(db: ProfileDB, trial_id: int) -> dict[int, ThreadRow]:
    """The trial's threads by id, sorted by node, context and thread."""
    db.trial(trial_id)
    rows = db.rows(_THREADS, (trial_id,))
    for row in rows:
        refuse_infinite(row)
    return {id: ThreadRow(*row) for id, *row in rows}


@of_a_sound_file
def trial_metadata(db: ProfileDB, trial_id: int) -> list[MetadataRow]:
    """The trial's metadata, then that of its nodes, by name."""
    db.trial(trial_id)
    return [MetadataRow(*row) for row in db.rows(_METADATA, (trial_id,))]


def node_facts(db: ProfileDB, trial_id: int) -> dict[int, dict[str, str]]:
    """The metadata of each of the trial's nodes that has some."""
    facts = metadata_by_node(db, trial_id)
    return {node: own for node, own in facts.items() if node is not None}


def metadata_by_node(db: ProfileDB, trial_id: int) -> dict[int | None, dict[str, str]]:
    """The metadata of the trial itself, under None, and of each node; of those that have some."""
    facts: dict[int | None, dict[str, str]] = {}
    for node, name, value in trial_metadata(db, trial_id):
        facts.setdefault(node, {})[name] = value
    return facts


@of_a_sound_file
def timeline(db: ProfileDB, trial_id: int, event: str | None = None) -> list[TimelineRow]:
    """User events over time, all or those with this name, sorted by node, event and time.

    If a host's clock cannot agree with the first one's, its times are since its own start.
    """
    begun = begun_ns(db, trial_id)
    ahead = host_clocks.offsets_ns(node_facts(db, trial_id))
    only = "" if event is None else " AND user_event.name = ?"
    names = () if event is None else (event,)
    rows = []
    for row in db.rows(_TIMELINE.replace("{only}", only), (trial_id, *names)):
        start, end = (moment - begun - ahead.get(row[0], 0) for moment in row[5:7])
        rows.append(TimelineRow._make((*row[:5], start / 1e9, end / 1e9, *row[7:])))
    return rows


@of_a_sound_file
def begun_ns(db: ProfileDB, trial_id: int) -> int:
    """A trial's start in nanoseconds since the epoch."""
    from datetime import UTC, datetime, timedelta

    since = datetime.fromisoformat(db.trial(trial_id).started_at) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1) * 1000


@of_a_sound_file
def user_events(db: ProfileDB, trial_id: int) -> list[EventRow]:
    """The trial's user events, sorted by thread, event and call path.

    Of a call path deeper than `LONGEST_PATH` only the end is shown, after `... => `.
    """
    places = {id: thread[:3] for id, thread in threads_by_id(db, trial_id).items()}
    rows = db.rows(_EVENTS, (trial_id,))
    above = Ancestry.of(db, (callpath for _, _, _, callpath, *_ in rows))
    events = []
    for thread, name, unit, callpath, count, *values in rows:
        refuse_infinite((count,))  # the values are the program's
        minimum, maximum, mean, sum_squares = map(nan_if_none, values)
        events.append(
            EventRow(
                *places[thread],
                event=name,
                unit=unit,
                callpath=None
                if callpath is None
                else " => ".join(above.names(callpath, LONGEST_PATH)),
                count=count,
                minimum=minimum,
                maximum=maximum,
                mean=mean,
                stddev=math.sqrt(abs(sum_squares / count - mean * mean)) if count else 0.0,
            )
        )
    events.sort(key=lambda row: (row[:3], row.event, row.callpath or ""))
    return events
