"""Read a trial as a profile, with timers and rows in a fixed order."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count, groupby

from taupy.model.forest import ascending, parents_in, preorder, taken
from taupy.model.gpu import Activity, Device, Fact
from taupy.model.profile import (
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.profiledb.collectives import read_collectives, read_stretches
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.layers import layers_of
from taupy.profiledb.lines import read_lines
from taupy.profiledb.modules import modules_of
from taupy.profiledb.operator_inputs import read_inputs
from taupy.profiledb.records import (
    read_activities,
    read_launches,
    read_samples,
    read_user_events,
)
from taupy.profiledb.steps import read_steps
from taupy.profiledb.tree import StoredTree, stored_trees

_TIMERS = """
    SELECT timer.id, timer.name, timer.short_name, timer.file, timer.line, trial_timer.path,
           timer_group.name
      FROM trial_timer
      JOIN timer ON timer.id = trial_timer.timer_id
      LEFT JOIN timer_group ON timer_group.timer_id = timer.id
     WHERE trial_timer.trial_id = ?
     ORDER BY timer.name, timer.id, timer_group.name
"""

_METRICS = """
    SELECT id, name, unit FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name, unit
"""

_THREADS = """
    SELECT id, node, context, thread, kind, name, native_id, count, least_ns, most_ns
      FROM thread WHERE trial_id = ? ORDER BY node, context, thread
"""

_THREAD_METRICS = "SELECT thread_id, metric_id FROM thread_metric WHERE trial_id = ?"

_DEVICES = """
    SELECT id, node, ordinal, name, uuid, compute_capability
      FROM device WHERE trial_id = ? ORDER BY node, ordinal
"""

_FACTS = "SELECT name, value, unit FROM device_fact WHERE device_id = ? ORDER BY position"

_METADATA = "SELECT node, name, value FROM metadata WHERE trial_id = ? ORDER BY name"


@of_a_sound_file
def read_profile(db: ProfileDB, trial_id: int) -> Profile:
    """Read a trial.

    Timers are sorted by full name and groups, threads by number, and the rows of a tree in
    preorder with siblings in the order of their timers.

    Raises:
        NoSuchTrial: there is no such trial.
    """
    trial = db.trial(trial_id)
    timers = _timers(db, trial_id)
    metrics = {id: Metric(name, unit) for id, name, unit in db.rows(_METRICS, (trial_id,))}
    measured = set(db.rows(_THREAD_METRICS, (trial_id,)))
    trees = stored_trees(db, trial_id, metrics)
    position = {id: place for place, id in enumerate(timers)}
    threads: dict[int, ThreadProfile] = {}
    rows = _Rows()
    for thread_id, *thread in db.rows(_THREADS, (trial_id,)):
        stored = trees.get(thread_id, StoredTree())
        has = {id: metric.name for id, metric in metrics.items() if (thread_id, id) in measured}
        tree, rows.callpaths[thread_id] = call_tree_of(stored, position, has)
        threads[thread_id] = ThreadProfile(Thread(*thread), tree)
    for thread_id, event in read_user_events(db, trial_id, rows):
        threads[thread_id].user_events.append(event)
    for thread_profile in threads.values():
        thread_profile.user_events.sort(key=_event_order)
    for thread_id, launch in read_launches(db, trial_id, rows):
        threads[thread_id].launches.append(launch)
    activities: dict[int, list[Activity]] = {}
    for thread_id, activity in read_activities(db, trial_id, rows):
        activities.setdefault(thread_id, []).append(activity)
    for thread_id, on_thread in activities.items():
        threads[thread_id].activities = on_thread
    for thread_id, series in read_samples(db, trial_id):
        threads[thread_id].samples.append(series)
    for thread_id, steps in read_steps(db, trial_id):
        threads[thread_id].steps.append(steps)
    for thread_id, collectives, callpaths in read_collectives(db, trial_id):
        collectives.row = array("q", (rows[thread_id][callpath] for callpath in callpaths))
        threads[thread_id].collectives.append(collectives)
    for thread_id, own in read_inputs(db, trial_id, rows):
        threads[thread_id].inputs.append(own)
    for thread_id, stretches, callpaths in read_stretches(db, trial_id):
        stretches.row = array("q", (rows[thread_id][callpath] for callpath in callpaths))
        threads[thread_id].stretches = stretches
    for thread_id, line in read_lines(db, trial_id):
        callee = None if line.callee is None else position[line.callee]
        here = replace(line, timer=position[line.timer], callee=callee)
        threads[thread_id].lines.append(here)
    metadata: dict[str, str] = {}
    node_metadata: dict[int, dict[str, str]] = {}
    for node, name, value in db.rows(_METADATA, (trial_id,)):
        (metadata if node is None else node_metadata.setdefault(node, {}))[name] = value
    return Profile(
        uuid=trial.uuid,
        application=trial.application,
        experiment=trial.experiment,
        started_at=datetime.fromisoformat(trial.started_at).timestamp(),
        duration_ns=trial.duration_ns,
        timers=list(timers.values()),
        threads=list(threads.values()),
        metrics=list(metrics.values()),
        name=trial.name,
        exit_code=trial.exit_code,
        state="complete" if trial.state == "complete" else "incomplete",
        source=trial.source,
        metadata=metadata,
        node_metadata=node_metadata,
        devices=[
            Device(node, ordinal, name, uuid, capability, tuple(map(Fact._make, facts)))
            for id, node, ordinal, name, uuid, capability in db.rows(_DEVICES, (trial_id,))
            for facts in [db.rows(_FACTS, (id,))]
        ],
        layers=[
            replace(layer, timer=position[timer])
            for (_, timer), layer in layers_of(db, trial_id).items()
        ],
        modules=modules_of(db, trial_id),
    )


def _timers(db: ProfileDB, trial_id: int) -> dict[int, Timer]:
    """The trial's timers by id, sorted by full name and groups."""
    timers: dict[int, Timer] = {}
    full_names: dict[int, str] = {}
    for (id, full_name, short_name, file, line, path), rows in groupby(
        db.rows(_TIMERS, (trial_id,)), key=lambda row: row[:-1]
    ):
        groups = tuple(group for *_, group in rows if group is not None)
        timer = Timer(short_name, file, line, groups, path)
        if timer.full_name != full_name:  # without a file: a short name is stored beside it
            timer = timer._replace(name=full_name, short=short_name)
        timers[id], full_names[id] = timer, full_name
    ordered = sorted(timers, key=lambda id: (full_names[id], timers[id].groups))
    return {id: timers[id] for id in ordered}


class _Rows(dict[int, dict[int, int]]):
    """The row of each call path, by thread, of which most trials need none.

    Attributes:
        callpaths: the id of each row, by thread.
    """

    def __init__(self) -> None:
        self.callpaths: dict[int, array[int]] = {}

    def __missing__(self, thread: int) -> dict[int, int]:
        self[thread] = dict(zip(self.callpaths[thread], count()))
        return self[thread]


def call_tree_of(
    stored: StoredTree, position: dict[int, int], metrics: dict[int, str]
) -> tuple[CallTree, array[int]]:
    """The tree, and the call path of each of its rows."""
    parent = array("q", stored.parents())
    timer = array("q", map(position.__getitem__, stored.timer))
    order = preorder(parent, ascending(timer))
    tree = CallTree(
        timer=taken(timer, order),
        parent=parents_in(order, parent),
        calls=taken(stored.calls, order),
        subroutines=taken(stored.subroutines, order),
        inclusive={
            name: _column(stored.inclusive.get(id, []), order) for id, name in metrics.items()
        },
        exclusive={
            name: _column(stored.exclusive.get(id, []), order) for id, name in metrics.items()
        },
    )
    return tree, taken(stored.callpath, order)


def _column(values: Sequence[float], order: Sequence[int]) -> array[int]:
    """Integers remain integers; a column without values is all NaN."""
    if not len(values):
        return array("d", [math.nan] * len(order))  # type: ignore[return-value]
    try:
        return taken(array("q", values), order)  # type: ignore[arg-type]
    except TypeError:
        return taken(array("d", values), order)  # type: ignore[arg-type]


def _event_order(event: UserEvent) -> tuple[str, str, int]:
    return event.name, event.unit, -1 if event.row is None else event.row
