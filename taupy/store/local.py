"""A trial database filled from a store, table by table and trial by trial."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from taupy.errors import DatabaseError
from taupy.model.progress import SILENT, Progress
from taupy.profiledb.files import refusing
from taupy.store.catalogue import Store
from taupy.store.layout import Column, StoredTable, gathered, tables
from taupy.store.manifest import StoredFile, checked_file
from taupy.store.needs import THREAD_BITS

_ROWS_AT_ONCE = 10_000

_ABOVE = """id IN (
    WITH RECURSIVE above (id) AS (
        SELECT unnest(%s::bigint[])
        UNION
        SELECT callpath.parent_id FROM above JOIN callpath ON callpath.id = above.id
         WHERE callpath.parent_id IS NOT NULL
    )
    SELECT id FROM above)"""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """A temporary folder for copies.

    Raises:
        DatabaseError: it cannot be created.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise DatabaseError(f"no space left for temporary files (TMPDIR): {error}") from error
    with folder as place:
        yield place


class LocalCopy:
    """What has been copied from a store into a database so far. Trials keep the store's numbers.

    Args:
        connection: to an empty database of the current schema.
    """

    def __init__(self, connection: sqlite3.Connection, store: Store) -> None:
        self._connection, self._store = connection, store
        self._trials: dict[int, None] = {}
        self._copied: dict[str, set[int]] = {}
        self._progress: Progress = SILENT
        self._shared: dict[str, set[int]] = {}
        (_, _, self._place) = connection.execute("PRAGMA database_list").fetchone()
        connection.execute("PRAGMA foreign_keys = OFF")

    def add_trials(self, trials: Sequence[int] | None = None) -> None:
        """Add names and numbers of these trials, or of all; no values."""
        rows = self._store.catalogue.rows(
            "SELECT id, uuid, application, experiment, name, started_at, duration_ns, exit_code,"
            " state, source FROM trial WHERE %s OR id = ANY(%s) ORDER BY id",
            (trials is None, list(trials or ())),
        )
        with refusing(self._place):
            self._add_names(rows)

    def _add_names(self, rows: Iterable[Any]) -> None:
        execute = self._connection.execute
        for id, uuid, application, experiment, *facts in rows:
            execute("INSERT OR IGNORE INTO application (name) VALUES (?)", (application,))
            execute(
                "INSERT OR IGNORE INTO experiment (application_id, name)"
                " SELECT id, ? FROM application WHERE name = ?",
                (experiment, application),
            )
            execute(
                "INSERT INTO trial (id, uuid, experiment_id, name, started_at, duration_ns,"
                " exit_code, state, source) SELECT ?, ?, experiment.id, ?, ?, ?, ?, ?, ?"
                " FROM experiment JOIN application ON application.id = experiment.application_id"
                " WHERE application.name = ? AND experiment.name = ?",
                (id, uuid, *facts, application, experiment),
            )
            self._trials[id] = None

    def add_all(self, trials: Sequence[int], progress: Progress = SILENT) -> None:
        """Add everything of these trials, and the tables that belong to no trial."""
        self._progress = progress
        sql = "SELECT coalesce(sum(bytes), 0) FROM file WHERE trial_id = ANY(%s)"
        size = int(self._store.catalogue.row(sql, (list(trials),))[0])
        progress.begin("pulling", size, "B")
        for table in tables().values():
            if not table.shared:
                self.add(table, trials)

    def add(self, table: StoredTable, trials: Iterable[int] | None = None) -> None:
        """Add the table's rows of these trials, or of all, with the rows that they refer to.

        Raises:
            DatabaseError: a file is missing or damaged.
        """
        copied = self._copied.setdefault(table.name, set())
        if not table.of_a_trial:
            if not copied and not table.shared:
                copied.add(0)
                self._insert(table, self._store.catalogue.select(table, "true", ()))
            return
        wanted = self._trials.keys() if trials is None else self._trials.keys() & {*trials}
        lacking = sorted(wanted - copied)
        if not lacking:
            return
        copied.update(lacking)
        if table.in_files:
            self._add_files(table, lacking)
        else:
            condition = "trial_id = ANY(%s)"
            self._insert(table, self._store.catalogue.select(table, condition, (lacking,)))

    def rows_of(self, table: StoredTable, trials: Iterable[int] | None) -> int:
        """How many rows `add` would copy, from files or from tables of trials."""
        wanted = self._trials.keys() if trials is None else self._trials.keys() & {*trials}
        lacking = list(wanted - self._copied.get(table.name, set()))
        if not (lacking and table.of_a_trial):
            return 0
        sql = f"SELECT count(*) FROM {table.name} WHERE trial_id = ANY(%s)"
        if table.in_files:
            sql = "SELECT coalesce(sum(rows), 0) FROM file WHERE trial_id = ANY(%s) AND holds = %s"
        parameters = (lacking, table.name) if table.in_files else (lacking,)
        return int(self._store.catalogue.row(sql, parameters)[0])

    def _add_files(self, table: StoredTable, trials: Sequence[int]) -> None:
        open_ends = self._files(table, trials)
        while open_ends:
            trial, uuid, stored = open_ends.pop()
            rows = self._store.folder.read(stored, table, uuid)
            try:
                self._insert_rows(table, _counted(([trial, *row] for row in rows), uuid, stored))
            except DatabaseError:
                others = self._files(table, [trial])
                if any(file.name == stored.name for _, _, file in others):
                    raise
                open_ends += others  # the files that have replaced it
            self._progress.advance(stored.bytes)

    def _files(
        self, table: StoredTable, trials: Sequence[int]
    ) -> list[tuple[int, str, StoredFile]]:
        rows = self._store.catalogue.rows(
            "SELECT trial_id, application, trial.uuid, file.name, holds, rows, bytes, sha256"
            "  FROM file JOIN trial ON trial.id = file.trial_id"
            " WHERE holds = %s AND trial_id = ANY(%s) ORDER BY trial_id DESC, file.name",
            (table.name, list(trials)),
        )
        return [
            (trial, uuid, checked_file(StoredFile(*file), uuid, application))
            for trial, application, uuid, *file in rows
        ]

    def _insert(self, table: StoredTable, rows: Iterator[Any]) -> None:
        """Insert rows in the catalogue's form."""
        self._insert_rows(table, (gathered(table, row) for row in rows))

    def _insert_rows(self, table: StoredTable, rows: Iterator[list[Any]]) -> None:
        """Insert rows in SQLite's form, except for the numbers of threads and devices."""
        referring = [
            (at, column.refers)
            for at, column in enumerate(table.columns)
            if column.refers and tables().get(column.refers, table).shared
        ]
        referred: dict[str, set[int]] = {name: set() for _, name in referring}
        local = [at for at, column in enumerate(table.columns) if _is_local(table, column)]
        names = [column.name for column in table.columns]
        skipped = int(table.name == "device_fact")  # has no trial number here
        quoted = ", ".join(f'"{name}"' for name in names[skipped:])
        marks = ", ".join("?" * (len(names) - skipped))
        sql = f'INSERT OR IGNORE INTO "{table.name}" ({quoted}) VALUES ({marks})'

        def renumbered() -> Iterator[list[Any]]:
            for row in rows:
                for at in local:
                    row[at] += row[0] << THREAD_BITS
                for at, name in referring:
                    referred[name].add(row[at])
                yield row[skipped:]

        with refusing(self._place):
            self._connection.executemany(sql, renumbered())
        for name, ids in referred.items():
            self.add_shared(name, ids - {None})

    def add_shared(self, name: str, ids: set[int]) -> None:
        """Add rows of a shared table and the rows they refer to: for call paths, all ancestors."""
        copied = self._shared.setdefault(name, set())
        lacking = sorted(ids - copied)
        copied.update(lacking)
        for first in range(0, len(lacking), _ROWS_AT_ONCE):
            some = lacking[first : first + _ROWS_AT_ONCE]
            select = self._store.catalogue.select
            condition = _ABOVE if name == "callpath" else "id = ANY(%s)"
            rows = list(select(tables()[name], condition, (some,)))
            if name == "callpath":
                copied.update(row[0] for row in rows)
            self._insert(tables()[name], iter(rows))
            if name == "timer":
                groups = tables()["timer_group"]
                self._insert(groups, select(groups, "timer_id = ANY(%s)", (some,)))


def _counted(rows: Iterator[list[Any]], uuid: str, stored: StoredFile) -> Iterator[list[Any]]:
    """The rows, as many as the manifest says."""
    number = 0
    for row in rows:
        number += 1
        if number > stored.rows:
            break  # a small file may hold rows without end
        yield row
    if number != stored.rows:
        amount = "more than" if number > stored.rows else f"{number:,} of"
        raise DatabaseError(
            f"trial {uuid} is damaged: {stored.name} has {amount} its {stored.rows:,} rows"
        )


def _is_local(table: StoredTable, column: Column) -> bool:
    """Whether the column holds numbers of threads or devices, which the store numbers per trial."""
    owners = ("thread", "device")
    return column.refers in owners or (column.name == "id" and table.name in owners)
