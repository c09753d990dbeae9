"""Questions to a trial, answered as the rows of `model/rows.py`.

Values come as they are stored, thread by thread; sums and means over threads are
made by whoever shows them. Free SQL of users is in `sql.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from taupy.errors import MissingMetric, NoSuchTrial
from taupy.model.profile import Metric
from taupy.model.rows import EventRow, FlatRow, ThreadRow, TreeRow
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.schema import LONGEST_PATH
from taupy.profiledb.text import shown
from taupy.profiledb.tree import preorder

_METRICS = """
    SELECT id, name, unit FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name <> 'time', name, unit
"""

_THREADS = """
    SELECT id, node, context, thread, kind, name
      FROM thread WHERE trial_id = ? ORDER BY node, context, thread
"""

_TIMERS = """
    SELECT timer.id, timer.name, timer.short_name, timer.file, timer.line,
           (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
             WHERE timer_group.timer_id = timer.id)
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ?
"""

_FLAT = """
    SELECT value.thread_id, value.timer_id, timer_call.calls, timer_call.subroutines,
           value.inclusive, value.exclusive
      FROM timer_value AS value
      CROSS JOIN timer_call
              ON timer_call.trial_id = value.trial_id
             AND timer_call.thread_id = value.thread_id
             AND timer_call.timer_id = value.timer_id
     WHERE value.trial_id = ? AND value.metric_id = ?
"""

_TREE = """
    SELECT value.callpath_id, callpath.parent_id, callpath.timer_id,
           call.calls, call.subroutines, value.inclusive, value.exclusive, value.thread_id
      FROM interval_value AS value
      CROSS JOIN callpath ON callpath.id = value.callpath_id
      CROSS JOIN call
              ON call.trial_id = value.trial_id
             AND call.callpath_id = value.callpath_id
             AND call.thread_id = value.thread_id
     WHERE value.trial_id = :trial AND value.metric_id = :metric
       AND (:thread IS NULL OR value.thread_id = :thread)
       AND (:least IS NULL OR value.inclusive >= :least)
       AND (:deepest IS NULL OR callpath.depth <= :deepest)
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

_CALLPATH = """
    SELECT timer.name, callpath.parent_id
      FROM callpath JOIN timer ON timer.id = callpath.timer_id
     WHERE callpath.id = ?
"""


class MetadataRow(NamedTuple):
    """One fact of a trial, or of one of its nodes."""

    node: int | None
    name: str
    value: str


@of_a_sound_file
def metrics(db: ProfileDB, trial_id: int) -> list[Metric]:
    """The metrics that some thread of the trial has, `time` first."""
    db.trial(trial_id)
    return [Metric(name, unit) for _, name, unit in db.rows(_METRICS, (trial_id,))]


@of_a_sound_file
def threads(db: ProfileDB, trial_id: int) -> list[ThreadRow]:
    """The trial's threads, by place."""
    db.trial(trial_id)
    return [ThreadRow(*row) for _, *row in db.rows(_THREADS, (trial_id,))]


@of_a_sound_file
def trial_metadata(db: ProfileDB, trial_id: int) -> list[MetadataRow]:
    """The trial's metadata, then that of its nodes, by name."""
    db.trial(trial_id)
    return [MetadataRow(*row) for row in db.rows(_METADATA, (trial_id,))]


@of_a_sound_file
def flat_profile(db: ProfileDB, trial_id: int, metric: str = "time") -> list[FlatRow]:
    """Each timer on each thread that has the metric.

    By place of the thread, then inclusive from large to small, then name.

    Raises:
        NoSuchTrial: there is no such trial.
        MissingMetric: no thread of the trial has the metric.
    """
    metric_id = _metric_id(db, trial_id, metric)
    facts = _timer_facts(db, trial_id)
    places = _places(db, trial_id)
    found = [
        FlatRow._make(
            (*places[thread], *facts[timer], calls, subroutines, _number(one), _number(other))
        )
        for thread, timer, calls, subroutines, one, other in db.stream(_FLAT, (trial_id, metric_id))
    ]
    found.sort(key=lambda row: (row.node, row.context, row.thread, -row.inclusive, row.timer))
    return found


@of_a_sound_file
def call_tree(
    db: ProfileDB,
    trial_id: int,
    metric: str = "time",
    thread: tuple[int, int, int] | None = None,
    *,
    least: float | None = None,
    deepest: int | None = None,
) -> list[TreeRow]:
    """Each call path on each thread that has the metric, or on one thread.

    A row stands directly before its descendants; siblings come with inclusive from
    large to small, then by name. A million rows take seconds; `least` and `deepest`
    are for whoever shows only the important ones.

    Args:
        thread: node, context, thread; None for all.
        least: leave out call paths whose inclusive is below.
        deepest: leave out call paths further than this from their root, which is at 0.

    Raises:
        NoSuchTrial: there is no such trial, or it has no such thread.
        MissingMetric: no thread of the trial has the metric.
    """
    metric_id = _metric_id(db, trial_id, metric)
    places = _places(db, trial_id)
    which = {
        "trial": trial_id,
        "metric": metric_id,
        "thread": None if thread is None else _thread_id(trial_id, places, thread),
        "least": least,
        "deepest": deepest,
    }
    by_thread: dict[int, list[Any]] = {id: [] for id in places}
    for path in db.stream(_TREE, which):
        by_thread[path[-1]].append(path)
    facts = _timer_facts(db, trial_id)
    names = sorted(facts, key=lambda timer: (facts[timer][0], timer))
    ranks = {timer: rank for rank, timer in enumerate(names)}
    found: list[TreeRow] = []
    for thread_id, place in places.items():
        found += _tree_rows(by_thread.pop(thread_id), place, facts, ranks)
    return found


def _tree_rows(
    paths: list[Any],
    place: tuple[int, int, int],
    facts: dict[int, tuple[Any, ...]],
    ranks: dict[int, int],
) -> Iterator[TreeRow]:
    """One thread's call paths, in order.

    Args:
        paths: rows of `_TREE`.
        ranks: where timers stand among their names.
    """
    row_of = {path[0]: row for row, path in enumerate(paths)}
    parent = [row_of.get(path[1], -1) for path in paths]
    del row_of
    rank = [ranks[path[2]] for path in paths]
    inclusive = [_number(path[5]) for path in paths]
    order = sorted(range(len(paths)), key=rank.__getitem__)
    order.sort(key=inclusive.__getitem__, reverse=True)  # keeps the order of equals
    depth = [0] * len(paths)
    for row in preorder(parent, order):
        callpath, above, timer, calls, subroutines, _, exclusive, _ = paths[row]
        if parent[row] >= 0:
            depth[row] = depth[parent[row]] + 1
        yield TreeRow._make(
            (
                *place,
                callpath,
                above if parent[row] >= 0 else None,
                depth[row],
                *facts[timer],
                calls,
                subroutines,
                inclusive[row],
                _number(exclusive),
            )
        )


TIMELINE_COLUMNS = ("node", "context", "thread", "event", "unit", "start_s", "end_s", "mean",
                    "minimum", "maximum", "count")  # fmt: skip


@of_a_sound_file
def timeline(db: ProfileDB, trial_id: int) -> list[tuple[Any, ...]]:
    """User events over time, as `TIMELINE_COLUMNS` names them; by event, in order of time."""
    columns = ", ".join(TIMELINE_COLUMNS)
    return db.rows(
        f"SELECT {columns} FROM timeline WHERE trial_id = ? ORDER BY node, event, unit, start_s",
        (db.trial(trial_id).id,),
    )


@of_a_sound_file
def user_events(db: ProfileDB, trial_id: int) -> list[EventRow]:
    """The trial's user events: by place of the thread, event, call path.

    A call path deeper than `LONGEST_PATH` is given by its end, after `... => `.
    """
    db.trial(trial_id)
    places = _places(db, trial_id)
    paths = _Paths(db)
    found = []
    for thread, name, unit, callpath, count, *values in db.rows(_EVENTS, (trial_id,)):
        minimum, maximum, mean, sum_squares = map(_number, values)
        found.append(
            EventRow(
                *places[thread],
                name,
                unit,
                None if callpath is None else paths.text(callpath),
                count,
                minimum,
                maximum,
                mean,
                math.sqrt(abs(sum_squares / count - mean * mean)) if count else 0.0,
            )
        )
    found.sort(key=lambda row: (row[:3], row.event, row.callpath or ""))
    return found


class _Paths:
    """Call paths as text, each call path read once."""

    def __init__(self, db: ProfileDB) -> None:
        self._db = db
        self._known: dict[int, tuple[str, int | None]] = {}

    def text(self, callpath: int) -> str:
        names: list[str] = []
        here: int | None = callpath
        while here is not None and len(names) < LONGEST_PATH:
            name, here = self._step(here)
            names.append(name)
        if here is not None:
            names.append("...")
        return " => ".join(reversed(names))

    def _step(self, callpath: int) -> tuple[str, int | None]:
        if callpath not in self._known:
            found = self._db.rows(_CALLPATH, (callpath,))
            self._known[callpath] = found[0] if found else ("(missing)", None)
        return self._known[callpath]


def _metric_id(db: ProfileDB, trial_id: int, metric: str) -> int:
    db.trial(trial_id)
    there = {name: id for id, name, _ in db.rows(_METRICS, (trial_id,))}
    if metric not in there:
        names = ", ".join(map(shown, there)) or "none"
        raise MissingMetric(f"trial {trial_id} has no metric '{shown(metric)}' (it has: {names})")
    return int(there[metric])


def _thread_id(
    trial_id: int, places: dict[int, tuple[int, int, int]], wanted: tuple[int, int, int]
) -> int:
    for thread_id, place in places.items():
        if place == tuple(wanted):
            return thread_id
    there = ", ".join(".".join(map(str, place)) for place in places.values())
    asked = ".".join(map(str, wanted))
    raise NoSuchTrial(f"trial {trial_id} has no thread {asked} (it has: {there})")


def _places(db: ProfileDB, trial_id: int) -> dict[int, tuple[int, int, int]]:
    """Thread id -> node, context, thread, in the order of places."""
    rows = db.rows(_THREADS, (trial_id,))
    return {id: (node, context, thread) for id, node, context, thread, _, _ in rows}


def _timer_facts(db: ProfileDB, trial_id: int) -> dict[int, tuple[Any, ...]]:
    """Timer id -> timer, short_name, file, line, groups."""
    return {id: tuple(facts) for id, *facts in db.rows(_TIMERS, (trial_id,))}


def _number(value: float | None) -> float:
    """What is not a number is stored as NULL."""
    return math.nan if value is None else value
