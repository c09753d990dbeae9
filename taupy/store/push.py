"""Copy trials of a database into a store.

The files of a trial are written first, under unique names; then one transaction of the catalogue
adds its rows and its files' names. That transaction is the commit: a push interrupted before it
leaves files that are never read, and a later push finds the trial if it was committed. A trial
that has grown since (more ranks, more metrics) is joined with the store's copy, written again, and
replaces it in one transaction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from taupy.errors import DatabaseError
from taupy.model.identifier import is_uuid
from taupy.model.progress import SILENT, Progress
from taupy.model.rows import TrialRow
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.identity import user_event_id
from taupy.profiledb.kernel_codes import PARTS, WHOLE
from taupy.profiledb.merge import merge
from taupy.profiledb.writer import free_among
from taupy.store.catalogue import Catalogue, Store, Unfit
from taupy.store.files import TrialKey
from taupy.store.layout import StoredTable, in_files, spread, tables
from taupy.store.local import LocalCopy, temporary_folder
from taupy.store.manifest import StoredFile
from taupy.store.roles import OF_OWN_TIMERS

_ATTEMPTS = 5
"""How often a push is retried because another one changed the same trial."""

_USED = {
    "metric": "SELECT metric_id FROM thread_metric WHERE trial_id = :trial",
    "timer": "SELECT timer_id FROM trial_timer WHERE trial_id = :trial",
    "callpath": "SELECT callpath_id FROM call WHERE trial_id = :trial",
    "user_event": "SELECT user_event_id FROM user_event_value WHERE trial_id = :trial"
    " UNION SELECT user_event_id FROM sample WHERE trial_id = :trial",
}
"""The rows of shared tables that a trial refers to."""

_REALS = """
    SELECT DISTINCT metric_id FROM {table}
     WHERE trial_id = ? AND (typeof(inclusive) NOT IN ('integer', 'null')
                             OR typeof(exclusive) NOT IN ('integer', 'null'))
"""


@dataclass(slots=True)
class Pushed:
    """What a push did.

    Attributes:
        added, replaced: trials that are new in the store, or were completed there (they had grown,
            or their files were lost): their numbers in the database and in the store.
        present: trials that the store already had, likewise.
        renamed: names that were taken in the store, and their replacements.
        ceilings, derived, kernels: how many of these were new in the store.
        bytes: written to files.
    """

    added: list[tuple[int, int]] = field(default_factory=list)
    replaced: list[tuple[int, int]] = field(default_factory=list)
    present: list[tuple[int, int]] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    ceilings: int = 0
    derived: int = 0
    kernels: int = 0
    bytes: int = 0


class _Changed(Exception):
    """Another push changed the trial in the meantime."""


def push(
    database: str,
    address: str,
    selectors: Sequence[str] = (),
    progress: Progress = SILENT,
    *,
    with_source: bool = False,
) -> Iterator[Pushed]:
    """Copy trials into a store, one after the other; existing trials that have grown are completed.

    Args:
        database: a trial database; it is only read.
        address: of the store.
        selectors: only trials that match one of these.
        with_source: also copy the text of the programs' source files.

    Yields:
        What has been done so far, after each trial and at the end.

    Raises:
        NoSuchTrial: a selector matches no trial.
        DatabaseError: the store cannot be reached or written, or cannot hold a trial, which is
            named after the others have been pushed. Trials that were yielded are stored.
    """
    result, unfit = Pushed(), list[str]()
    with (
        ProfileDB.open(database) as db,
        Store.open(address) as store,
        store.catalogue.pushing(),
    ):
        trials = selector.many(db, selectors) if selectors else db.trials()
        progress.begin("pushing", len(trials), "trials")
        for trial in trials:
            try:
                _push_trial(_Rows(db, trial, with_source), store, result)
            except Unfit as problem:
                unfit.append(f"trial {trial.id} was not pushed: {problem}")
            progress.advance()
            yield result
        try:
            _push_unattached(db, store.catalogue, result)
        except Unfit as problem:
            unfit.append(f"ceilings, derived metrics and kernels were not pushed: {problem}")
        yield result
    if unfit:
        raise DatabaseError(f"{address}: {'; '.join(unfit)}")


def push_unattached(database: str, address: str, modules: Collection[str] = ()) -> Pushed:
    """Copy what belongs to no trial: ceilings, derived metrics, code of kernels.

    Args:
        modules: the code of these is replaced in the store.

    Raises:
        DatabaseError: the store cannot be reached or written; it is unchanged.
    """
    result = Pushed()
    with (
        ProfileDB.open(database) as db,
        Store.open(address) as store,
        store.catalogue.pushing(),
    ):
        _push_unattached(db, store.catalogue, result, modules)
    return result


def _push_trial(rows: _Rows, store: Store, result: Pushed) -> None:
    catalogue, trial = store.catalogue, rows.trial
    if not is_uuid(trial.uuid):
        raise Unfit(f"its uuid, '{trial.uuid}', is none: see `taupy doctor {rows.db.path}`")
    for _ in range(_ATTEMPTS):
        present = catalogue.rows("SELECT id, content FROM trial WHERE uuid = %s", (trial.uuid,))
        try:
            if not present:
                number = _write(rows, store, result, "")
                result.added.append((trial.id, number))
                return
            ((number, content),) = present
            if content != rows.content:
                changed = _join(rows, store, result, (number, content))
            else:
                changed = bool(store.lost_files(number))
                if changed:
                    _write(rows, store, result, content)
            (result.replaced if changed else result.present).append((trial.id, number))
            return
        except _Changed:
            continue
    raise DatabaseError(
        f"{catalogue.address}: trial {trial.uuid} is being changed by others; try again later"
    )


def _join(rows: _Rows, store: Store, result: Pushed, present: tuple[int, str]) -> bool:
    """Join the trial with the store's copy; False if that is already complete."""
    number, content = present
    with temporary_folder("taupy-push-") as place:
        path = os.path.join(place, "joined.db")
        with ProfileDB.open(path, create=True) as copied, copied.transaction() as connection:
            copy = LocalCopy(connection, store)
            copy.add_trials([number])
            copy.add_all([number])
            before = _Rows(copied, copied.trial(number), True).content
        merge(path, [rows.db.path], [rows.trial.uuid], with_source=rows.with_source)
        with ProfileDB.open(path) as joined:
            whole = _Rows(joined, selector.trial(joined, rows.trial.uuid), True)
            if whole.content == before:
                store.catalogue.connection.execute(
                    "UPDATE trial SET content = %s WHERE (id, content) = (%s, %s)",
                    (rows.content, number, content),
                )
                return False
            _write(whole, store, result, content)
    return True


def _write(rows: _Rows, store: Store, result: Pushed, replaces: str) -> int:
    """Write the trial; returns its number in the store.

    Args:
        replaces: the content hash of the trial that it replaces; "" if it is new.
    """
    catalogue, folder = store.catalogue, store.folder
    trial = rows.trial
    key = TrialKey(trial.uuid, trial.application, trial.started_at)
    files: list[StoredFile] = []
    try:
        for table in tables().values():
            if table.in_files:
                written = folder.write(table, key, rows.of(in_files(table)))
                files += [written] if written else []
        old: list[tuple[str, str]] = []
        replaced = None
        with catalogue.transaction() as connection:
            if replaces:
                replaced, old = _make_way(connection, trial, replaces)
            number = _catalogued(catalogue, rows, replaced, result)
            connection.cursor().executemany(
                "INSERT INTO file (trial_id, name, holds, rows, bytes, sha256)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                [(number, f.name, f.holds, f.rows, f.bytes, f.sha256) for f in files],
            )
    except BaseException:
        # If the connection was lost, the server may have committed the transaction.
        if not catalogue.is_lost:
            folder.remove(file.name for file in files)
        raise
    store.remove_unused((*file, trial.uuid, trial.application) for file in old)
    result.bytes += sum(file.bytes for file in files)
    return number


def _make_way(connection: Any, trial: TrialRow, content: str) -> tuple[int, list[tuple[str, str]]]:
    """Delete everything of the trial except its row and its tags, which may have been added in the
    store; returns its number and its files' names, each with its table."""
    row = connection.execute(
        "SELECT id, content FROM trial WHERE uuid = %s FOR UPDATE", (trial.uuid,)
    ).fetchone()
    if row is None and (pusher := pusher_of(connection, trial.uuid)):
        raise Unfit(f"it was pushed by {pusher}, and only {pusher} or an owner may change it")
    if row is None or row[1] != content:
        raise _Changed
    for table in tables().values():
        if table.of_a_trial and not table.in_files and table.name != "tag":
            connection.execute(f"DELETE FROM {table.name} WHERE trial_id = %s", (row[0],))
    files = connection.execute(
        "DELETE FROM file WHERE trial_id = %s RETURNING name, holds", (row[0],)
    ).fetchall()
    return int(row[0]), files


def pusher_of(connection: Any, uuid: str) -> str:
    """Who pushed a trial of the store, if that is another user; "" otherwise."""
    row = connection.execute(
        "SELECT pushed_by FROM trial WHERE uuid = %s AND pushed_by <> current_user", (uuid,)
    ).fetchone()
    return str(row[0]) if row else ""


def _catalogued(catalogue: Catalogue, rows: _Rows, replaced: int | None, result: Pushed) -> int:
    """Add the trial's rows to the catalogue; returns its number.

    Args:
        replaced: the number of the trial that it replaces; None if it is new.
    """
    connection, trial = catalogue.connection, rows.trial
    place = (trial.application, trial.experiment)
    name = free_among(catalogue.names_taken(*place, trial.uuid), trial.name)
    facts = (
        *(trial.started_at, trial.duration_ns, trial.exit_code, trial.state),
        *(rows.content, rows.real_metrics()),
    )
    if replaced is None:
        row = connection.execute(
            "INSERT INTO trial (uuid, application, experiment, name, source, started_at,"
            " duration_ns, exit_code, state, content, real_metrics)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (uuid) DO NOTHING"
            " RETURNING id",
            (trial.uuid, *place, name, trial.source, *facts),
        ).fetchone()
        if row is None:
            raise _Changed
        replaced = int(row[0])
    else:
        connection.execute(
            "UPDATE trial SET (started_at, duration_ns, exit_code, state, content, real_metrics,"
            " pushed_at, pushed_by) = (%s, %s, %s, %s, %s, %s, now(), current_user) WHERE id = %s",
            (*facts, replaced),
        )
    if name != trial.name:
        result.renamed.append((trial.name, name))
    for table in tables().values():
        if table.in_files or not (table.of_a_trial or table.shared):
            continue
        numbered = (replaced,) if table.of_a_trial else ()
        where = OF_OWN_TIMERS if table.name == "timer_group" else "true"
        added = (spread(table, (*numbered, *row)) for row in rows.of(table))
        catalogue.insert(table, added, where=where)
    return replaced


def _push_unattached(
    db: ProfileDB, catalogue: Catalogue, result: Pushed, modules: Collection[str] = ()
) -> None:
    """See `push_unattached`. A kernel is added with all its code, or left as it is."""
    new: dict[str, set[tuple[Any, ...]]] = {}
    with catalogue.transaction() as connection:
        for name in (WHOLE, *PARTS) if modules else ():
            connection.execute(f"DELETE FROM {name} WHERE module = ANY(%s)", (list(modules),))
        for table in tables().values():
            if not (table.in_files or table.of_a_trial or table.shared):
                columns = ", ".join(column.name for column in table.columns)
                rows = db.stream(f"SELECT {columns} FROM {table.name}")
                if table.name in PARTS:
                    rows = (row for row in rows if row[:2] in new[WHOLE])
                spread_rows = (spread(table, row) for row in rows)
                new[table.name] = set(catalogue.insert(table, spread_rows, tell=True))
    result.ceilings, result.derived, result.kernels = (
        len(new[name]) for name in ("ceiling", "derived_metric", WHOLE)
    )


class _Rows:
    """The rows of a trial, table by table, with the store's numbering.

    Args:
        with_source: with the text of its source files, not only which they are.
    """

    def __init__(self, db: ProfileDB, trial: TrialRow, with_source: bool) -> None:
        self.db, self.trial, self.with_source = db, trial, with_source
        self._numbers = {
            "thread": self._ranked("thread", "node, context, thread"),
            "device": self._ranked("device", "node, ordinal"),
            "metric": {
                id: user_event_id(name, unit)
                for id, name, unit in db.rows("SELECT id, name, unit FROM metric")
            },
        }

    def _ranked(self, table: str, order: str) -> dict[int, int]:
        ids = self.db.rows(
            f"SELECT id FROM {table} WHERE trial_id = ? ORDER BY {order}", (self.trial.id,)
        )
        return {id: number for number, (id,) in enumerate(ids, 1)}

    @cached_property
    def content(self) -> str:
        """A hash that is equal if two databases hold the same content of the trial.

        It covers row counts, metadata, tags, state, duration and exit code: measurements are only
        added, never changed.
        """
        db, trial = self.db, self.trial
        counts = [
            (
                table.name,
                *db.rows(f"SELECT count(*) FROM {table.name} WHERE trial_id = ?", (trial.id,)),
            )
            for table in tables().values()
            if table.of_a_trial and table.name != "device_fact"
        ]
        facts = db.rows(
            "SELECT node, name, value FROM metadata WHERE trial_id = ? ORDER BY name, node",
            (trial.id,),
        )
        if self.with_source:
            texts = "SELECT count(text) FROM source WHERE trial_id = ?"
            counts.append(("text", *db.rows(texts, (trial.id,))))
        whole = [counts, facts, sorted(trial.tags), trial.state, trial.duration_ns, trial.exit_code]
        return sha256(json.dumps(whole).encode()).hexdigest()

    def real_metrics(self) -> list[int]:
        """Metrics with non-integer values, by their ids in the store."""
        ids = {
            id
            for table in ("interval_value", "timer_value")
            for (id,) in self.db.rows(_REALS.format(table=table), (self.trial.id,))
        }
        return sorted(self._numbers["metric"][id] for id in ids)

    def of(self, table: StoredTable) -> Iterator[tuple[Any, ...]]:
        """The table's rows, without the trial's number, in the order of the key."""
        columns = [column for column in table.columns if column.name != "trial_id"]
        renumbered = [
            (at, self._numbers[owner])
            for at, column in enumerate(columns)
            for owner in [column.refers or (table.name if column.name == "id" else "")]
            if owner in self._numbers
        ]
        names = ", ".join(
            "NULL"
            if (table.name, column.name) == ("source", "text") and not self.with_source
            else f"{column.of or table.name}.{column.name}"
            for column in columns
        )
        tables = table.name
        if any(column.of for column in columns):
            tables = f"{table.name} JOIN callpath ON callpath.id = {table.name}.callpath_id"
        condition, order = _which(table)
        sql = f"SELECT {names} FROM {tables} WHERE {condition} ORDER BY {order}"
        for row in self.db.stream(sql, {"trial": self.trial.id}):
            if renumbered:
                cells = list(row)
                for at, numbers in renumbered:
                    cells[at] = numbers[cells[at]]
                row = tuple(cells)
            yield row


def _which(table: StoredTable) -> tuple[str, str]:
    """The condition that selects a trial's rows, and their order."""
    if table.name == "timer_group":
        return f"timer_id IN ({_USED['timer']})", "timer_id, name"
    if table.shared:
        return f"id IN ({_USED[table.name]})", "id"
    if table.name == "device_fact":
        devices = "SELECT id FROM device WHERE trial_id = :trial"
        return f"device_id IN ({devices})", "device_id, position"
    key = ", ".join(f"{table.name}.{name}" for name in table.key if name != "trial_id")
    return f"{table.name}.trial_id = :trial", key
