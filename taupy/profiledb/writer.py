"""Store a profile as a trial, in one transaction.

Ids, sort orders and the flat profile are computed before the lock is taken
(`prepared.py`). A profile that violates an invariant of `model/invariants.py` is stored
nevertheless, with the invariant named in its metadata.
"""

from __future__ import annotations

import time
from array import array

from taupy.model import invariants, job
from taupy.model.forest import ascending
from taupy.model.profile import Profile, Timer
from taupy.profiledb import bulk
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import groups_of, timer_ids
from taupy.profiledb.modules import add_modules
from taupy.profiledb.prepared_forest import forests_of, prepared
from taupy.profiledb.source_texts import add_sources
from taupy.profiledb.text import all_storable, storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from typing import TypeVar

    from taupy.model.gpu import Device

    _Cell = TypeVar("_Cell")

INVARIANTS = "taupy.invariants"
"""Name of the metadata that lists the invariants a profile violates, one per line."""

HEALTH = "taupy.health."
"""Prefix of metadata that are remarks on a measurement: they accumulate, others never change."""

RUNNING = "taupy.health.running"
"""Metadata of a trial whose processes will deliver more later; removed once they have."""

CUT_OFF = "taupy.health.cut_off"
"""Metadata of a trial one of whose processes was killed."""

LOST = "taupy.health.lost"
"""Metadata that describe which part of the measurement is lost, and how much."""

CLOCKS = "taupy.health.clocks"
"""Metadata that name the hosts of a job whose clocks differ."""

INCOMPLETE = (CUT_OFF, LOST)
"""A trial with one of these stays incomplete permanently."""

_FACT = """
    INSERT INTO metadata (trial_id, node, name, value) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

_REMARK = """
    INSERT INTO metadata (trial_id, node, name, value) VALUES (?, ?, ?, ?)
    ON CONFLICT (trial_id, name, ifnull(node, -1)) DO UPDATE
       SET value = value || char(10) || excluded.value
     WHERE value <> excluded.value
"""

_IF_NEW = " ON CONFLICT DO NOTHING"

_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
"""Seconds from the epoch to their first instants: the calendar's range."""


def add_profile(db: ProfileDB, profile: Profile) -> int:
    """Store a profile.

    A trial without a name gets a number: one more than the largest in
    its experiment. If the database has a trial with the same uuid, the profile's nodes are
    added to it, such as a late child or another rank. Existing nodes are left alone, so that
    storing the same profile again changes nothing.

    Returns:
        The trial's id.

    Raises:
        DatabaseError: it could not be stored; the database is unchanged.
    """
    forests = forests_of(profile.threads)
    timer_count = len(profile.timers)
    lawful = [is_lawful for forest in forests for is_lawful in forest.are_lawful(timer_count)]
    broken = invariants.check(profile, lawful)
    if broken:
        profile = invariants.mended(profile)
        forests = forests_of(profile.threads)
    timers = timer_ids(profile.timers)
    ready = list(prepared(forests, timers))
    with db.transaction() as connection:
        trial, new_nodes = _trial(connection, profile)
        if any(measured.thread.node not in new_nodes for measured in profile.threads):
            new = [thread for thread in profile.threads if thread.thread.node in new_nodes]
            ready = list(prepared(forests_of(new), timers))
        _add_metadata(connection, trial, profile, broken, new_nodes)
        settle_exit_code(connection, trial)
        settle_duration(connection, trial)
        if ready:
            add_timers(connection, trial, profile.timers, timers)
            metrics = _metric_ids(connection, profile)
            for threads in ready:
                threads.add(connection, trial, metrics)
        if ready and profile.layers:
            from taupy.profiledb.layers import add_layers

            add_layers(connection, trial, profile.layers, timers, new_nodes)
        for device in profile.devices:
            if device.node in new_nodes:
                _add_device(connection, trial, device)
        add_modules(connection, trial, profile.modules, new_nodes)
        add_sources(connection, trial, profile.sources)
    return trial


def complete_trial(db: ProfileDB, uuid: str, lost: str = "") -> int | None:
    """Mark a trial complete if it only waited for running processes, which deliver nothing more.

    Args:
        lost: which of their measurements are lost; if any, the trial stays incomplete.

    Returns:
        The trial's id; None if there is no such trial.
    """
    trial: int | None = None
    with db.transaction() as connection:
        for (trial,) in connection.execute(
            "SELECT id FROM trial WHERE uuid = ?", (uuid,)
        ).fetchall():
            if lost:
                connection.execute(_REMARK, (trial, None, LOST, storable(lost)))
            connection.execute(
                "DELETE FROM metadata WHERE trial_id = ? AND name = ?", (trial, RUNNING)
            )
            connection.execute(
                "UPDATE trial SET state = 'complete' WHERE id = ? AND NOT EXISTS"
                " (SELECT * FROM metadata WHERE trial_id = trial.id AND name IN (?, ?))",
                (trial, *INCOMPLETE),
            )
    return trial


def _trial(connection: sqlite3.Connection, profile: Profile) -> tuple[int, set[int]]:
    """The profile's trial, new or existing, and the nodes that are new to it."""
    nodes = {measured.thread.node for measured in profile.threads} | profile.node_metadata.keys()
    uuid = storable(profile.uuid)
    row = connection.execute(
        "SELECT id, started_at, duration_ns, exit_code, state FROM trial WHERE uuid = ?", (uuid,)
    ).fetchone()
    if row is None:
        return _new_trial(connection, profile, uuid), nodes
    trial, started_at, duration_ns, exit_code, state = row
    stored_nodes = connection.execute(
        "SELECT node FROM thread WHERE trial_id = :trial"
        " UNION SELECT node FROM metadata WHERE trial_id = :trial",
        {"trial": trial},
    )
    nodes -= {node for (node,) in stored_nodes}
    if nodes:
        state = _joint_state(connection, trial, state, profile)
        start, duration_ns = joint_span(
            (started_at, duration_ns), (_instant(profile.started_at), profile.duration_ns)
        )
        connection.execute(
            "UPDATE trial SET started_at = ?, duration_ns = ?, exit_code = ?, state = ?"
            " WHERE id = ?",
            (
                start,
                duration_ns,
                profile.exit_code if exit_code is None else exit_code,
                state,
                trial,
            ),
        )
    return trial, nodes


def is_of_another_process(db: ProfileDB, profile: Profile) -> bool:
    """Whether a node of the profile is another process in the stored trial with its uuid."""
    stored: dict[int, dict[str, str]] = {}
    for node, name, value in db.rows(
        "SELECT node, metadata.name, value FROM metadata JOIN trial ON trial.id = trial_id"
        " WHERE uuid = ? AND node IS NOT NULL AND metadata.name IN (?, ?, ?)",
        (storable(profile.uuid), *job.PROCESS),
    ):
        stored.setdefault(node, {})[name] = value
    return any(
        job.are_others(stored[node], facts)
        for node, facts in profile.node_metadata.items()
        if node in stored
    )


def _node_facts(
    connection: sqlite3.Connection, trial: int, names: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Some metadata of each node that has any of them."""
    facts: dict[int, dict[str, str]] = {}
    for node, name, value in connection.execute(
        "SELECT node, name, value FROM metadata WHERE trial_id = ? AND node IS NOT NULL"
        f" AND name IN ({', '.join('?' * len(names))})",
        (trial, *names),
    ):
        facts.setdefault(node, {})[name] = value
    return facts


def settle_exit_code(connection: sqlite3.Connection, trial: int) -> None:
    """Set a job's exit code from its ranks, in whatever order they were stored."""
    facts = _node_facts(connection, trial, (job.ATTEMPT, job.EXIT))
    if (code := job.exit_code(facts)) is not None:
        connection.execute("UPDATE trial SET exit_code = ? WHERE id = ?", (code, trial))


def settle_duration(connection: sqlite3.Connection, trial: int) -> None:
    """Set the duration of a job of several hosts from its processes, in whatever order they were
    stored, and note clocks that cannot agree."""
    hosts = "SELECT DISTINCT value FROM metadata WHERE trial_id = ? AND name = ? LIMIT 2"
    if len(connection.execute(hosts, (trial, job.HOST)).fetchall()) < 2:
        return
    from taupy.model import host_clocks

    facts = _node_facts(connection, trial, host_clocks.NAMES)
    if (duration := host_clocks.duration_ns(facts)) is not None:
        connection.execute("UPDATE trial SET duration_ns = ? WHERE id = ?", (duration, trial))
        connection.execute("DELETE FROM metadata WHERE trial_id = ? AND name = ?", (trial, CLOCKS))
        if remark := host_clocks.remark(facts):
            connection.execute(_FACT, (trial, None, CLOCKS, storable(remark)))


def _joint_state(connection: sqlite3.Connection, trial: int, state: str, profile: Profile) -> str:
    """Incomplete if either is, except for a trial that only waited for running processes."""
    remarks = {
        name
        for (name,) in connection.execute("SELECT name FROM metadata WHERE trial_id = ?", (trial,))
    }
    if RUNNING in remarks and RUNNING not in profile.metadata:
        connection.execute("DELETE FROM metadata WHERE trial_id = ? AND name = ?", (trial, RUNNING))
        if remarks.isdisjoint(INCOMPLETE):
            state = "complete"
    return "complete" if state == profile.state == "complete" else "incomplete"


def _new_trial(connection: sqlite3.Connection, profile: Profile, uuid: str) -> int:
    application = _id_of(connection, "application", {"name": storable(profile.application)})
    experiment = _id_of(
        connection,
        "experiment",
        {"application_id": application, "name": storable(profile.experiment)},
    )
    name = next_name(connection, experiment) if profile.name is None else storable(profile.name)
    cursor = connection.execute(
        "INSERT INTO trial (uuid, experiment_id, name, started_at, duration_ns, exit_code,"
        " state, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            uuid,
            experiment,
            name,
            _instant(profile.started_at),
            profile.duration_ns,
            profile.exit_code,
            profile.state,
            storable(profile.source),
        ),
    )
    return _row_id(cursor)


def next_name(connection: sqlite3.Connection, experiment: int) -> str:
    """One more than the largest number among the experiment's trial names."""
    return next_number(_names(connection, experiment))


def free_name(connection: sqlite3.Connection, experiment: int, name: str) -> str:
    """The name, or a variant that no trial of the experiment has."""
    return free_among(_names(connection, experiment), name)


def free_among(taken: set[str], name: str) -> str:
    """The name, or a variant that is not taken.

    A number becomes the next number, another name gets ` (2)`.
    """
    free, number = name, 2
    if name in taken and name.isascii() and name.isdigit():
        free = next_number(taken)
    while free in taken:
        free = f"{name} ({number})"
        number += 1
    return free


def _names(connection: sqlite3.Connection, experiment: int) -> set[str]:
    rows = connection.execute("SELECT name FROM trial WHERE experiment_id = ?", (experiment,))
    return {name for (name,) in rows}


def next_number(names: set[str]) -> str:
    numbers = [int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 19]
    return str(max(numbers, default=0) + 1)


def unclashing_name(db: ProfileDB, profile: Profile) -> str | None:
    """The profile's name, or a free variant if another trial of its experiment has it."""
    if profile.name is None:
        return None
    key = (storable(profile.application), storable(profile.experiment))
    for _ in db.rows("SELECT 1 FROM trial WHERE uuid = ?", (storable(profile.uuid),)):
        return profile.name
    for (experiment,) in db.rows(
        "SELECT experiment.id FROM experiment JOIN application"
        " ON application.id = experiment.application_id"
        " WHERE application.name = ? AND experiment.name = ?",
        key,
    ):
        name = storable(profile.name)
        free = free_name(db.connection, int(experiment), name)
        return profile.name if free == name else free
    return profile.name


def _id_of(connection: sqlite3.Connection, table: str, key: dict[str, object]) -> int:
    condition = " AND ".join(f"{name} = :{name}" for name in key)
    row = connection.execute(f"SELECT id FROM {table} WHERE {condition}", key).fetchone()
    if row is not None:
        return int(row[0])
    names = ", ".join(key)
    values = ", ".join(f":{name}" for name in key)
    return _row_id(connection.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", key))


def _row_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _add_metadata(
    connection: sqlite3.Connection,
    trial: int,
    profile: Profile,
    broken: list[str],
    new_nodes: set[int],
) -> None:
    """Add metadata of the trial and its new nodes: existing values stay, remarks accumulate."""
    values: list[tuple[int | None, str, str]] = [
        (None, name, value) for name, value in profile.metadata.items()
    ]
    if broken and new_nodes:
        values.append((None, INVARIANTS, "\n".join(broken)))
    for new in new_nodes:
        facts = profile.node_metadata.get(new, {})
        values += [(new, name, value) for name, value in facts.items()]
    for node, name, value in values:
        row = (trial, node, storable(name), storable(value))
        if new_nodes and node is None and (name.startswith(HEALTH) or name == INVARIANTS):
            connection.execute(_REMARK, row)
        else:
            connection.execute(_FACT, row)


def add_timers(
    connection: sqlite3.Connection, trial: int, timers: list[Timer], ids: list[int]
) -> None:
    timer_of = dict(zip(ids, timers, strict=True))
    timers = list(timer_of.values())
    unsorted = array("q", timer_of)
    order = ascending(unsorted)
    ids = [unsorted[at] for at in order]

    def in_order(column: list[_Cell]) -> list[_Cell]:
        return [column[at] for at in order]

    with bulk.index_afterwards(connection, "timer_by_name", "timer", len(ids)):
        bulk.insert(
            connection,
            "INSERT INTO timer (id, name, short_name, file, line)",
            "(?, ?, ?, ?, ?)",
            zip(
                ids,
                in_order(all_storable([timer.full_name for timer in timers])),
                in_order(all_storable([timer.short or timer.name for timer in timers])),
                in_order(_stored([timer.file for timer in timers])),
                in_order([timer.line for timer in timers]),
                strict=True,
            ),
            _IF_NEW,
        )
    groups = in_order([groups_of(timer) for timer in timers])
    bulk.insert(
        connection,
        "INSERT INTO timer_group (timer_id, name)",
        "(?, ?)",
        ((id, group) for id, of_timer in zip(ids, groups, strict=True) for group in of_timer),
        _IF_NEW,
    )
    bulk.insert(
        connection,
        "INSERT INTO trial_timer (trial_id, timer_id, path)",
        f"({trial}, ?, ?)",
        zip(ids, in_order(_stored([timer.path for timer in timers])), strict=True),
        _IF_NEW,
    )


def _add_device(connection: sqlite3.Connection, trial: int, device: Device) -> None:
    cursor = connection.execute(
        "INSERT INTO device (trial_id, node, ordinal, name, uuid, compute_capability)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            trial,
            device.node,
            device.ordinal,
            storable(device.name),
            storable(device.uuid),
            storable(device.compute_capability),
        ),
    )
    if not cursor.rowcount:
        return
    id = _row_id(cursor)
    connection.executemany(
        "INSERT INTO device_fact (device_id, position, name, value, unit) VALUES (?, ?, ?, ?, ?)",
        (
            (
                id,
                position,
                storable(fact.name),
                storable(fact.value) if isinstance(fact.value, str) else fact.value,
                storable(fact.unit),
            )
            for position, fact in enumerate(device.facts)
        ),
    )


def _stored(texts: list[str | None]) -> list[str | None]:
    """Each text in its storable form; few of them change."""
    stored = {text: None if text is None else storable(text) for text in set(texts)}
    return [stored[text] for text in texts]


def _metric_ids(connection: sqlite3.Connection, profile: Profile) -> dict[str, int]:
    """Ids of the metrics that any thread has; one that the profile does not list has no unit."""
    units = {metric.name: metric.unit for metric in profile.metrics}
    measured = {name for thread in profile.threads for name in thread.tree.inclusive}
    return {
        name: _id_of(
            connection, "metric", {"name": storable(name), "unit": storable(units.get(name, ""))}
        )
        for name in sorted(measured)
    }


def _instant(seconds: float) -> str:
    """ISO 8601, UTC, to the microsecond; times outside the calendar's range become the epoch."""
    if not _YEAR_1 <= seconds < _YEAR_10000:  # nor is nan
        seconds = 0
    whole, fraction = divmod(seconds, 1)
    later, microseconds = divmod(round(fraction * 1e6), 1_000_000)
    year, month, day, hour, minute, second, *_ = time.gmtime(whole + later)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}Z"


def joint_span(first: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    """Combine two (start, duration) pairs: the earlier start, and the time to the later end."""
    starts = [_nanoseconds(first[0]), _nanoseconds(other[0])]
    end = max(starts[0] + first[1], starts[1] + other[1])
    return min(first[0], other[0]), end - min(starts)


def _nanoseconds(text: str) -> int:
    from datetime import UTC, datetime

    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
