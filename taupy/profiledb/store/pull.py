"""Copy trials of a store into a database, by way of a file that `merge` reads."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from taupy.model.rows import TrialRow
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.merge import merge
from taupy.profiledb.merge_copy import Merged
from taupy.profiledb.store.catalogue import Catalogue
from taupy.profiledb.store.files import Folder, StoredFile
from taupy.profiledb.store.layout import Column, Table, gathered, tables

_SEARCHED = ("tag", "metadata", "device")
"""What selectors look at, beside the trials themselves."""


@contextmanager
def open_store(address: str) -> Iterator[tuple[Catalogue, Folder]]:
    """A store's catalogue and its folder of files, of which it is known that they belong together.

    Raises:
        DatabaseError: there is no such store, or its files are not here.
    """
    with Catalogue.open(address) as catalogue:
        folder = Folder(catalogue.setting("files"))
        folder.check_mark(catalogue.setting("id"))
        yield catalogue, folder


def pull(address: str, database: str, selectors: Sequence[str]) -> list[Merged]:
    """Copy trials of a store into a database, which is made if missing.

    Args:
        selectors: trials that match one of these, by the store's numbers and names.

    Raises:
        NoSuchTrial: a selector matches no trial.
        DatabaseError: the store cannot be reached, a file is damaged, or the database cannot be
            written. It is unchanged then.
    """
    with (
        open_store(address) as store,
        tempfile.TemporaryDirectory(prefix="taupy-pull-") as place,
    ):
        listed = os.path.join(place, "trials.db")
        list_into(store[0], listed)
        with ProfileDB.open(listed) as db:
            db.path = address  # for messages
            chosen = [trial.id for trial in selector.many(db, selectors)]
        pulled = os.path.join(place, "pulled.db")
        into_file(store, chosen, pulled)
        return merge(database, [pulled])


def trials_of(address: str) -> list[TrialRow]:
    """The trials of a store, by their numbers there."""
    with (
        Catalogue.open(address) as catalogue,
        tempfile.TemporaryDirectory(prefix="taupy-pull-") as place,
    ):
        path = os.path.join(place, "trials.db")
        list_into(catalogue, path)
        with ProfileDB.open(path) as db:
            return db.trials()


def list_into(catalogue: Catalogue, path: str) -> None:
    """Make a database of the store's trials without their values: for listing and selecting."""
    with ProfileDB.open(path, create=True, readonly=False) as db, db.transaction() as connection:
        _add_trials(catalogue, connection, None)
        for name in _SEARCHED:
            table = tables()[name]
            _Filling(connection, table).add(catalogue.select(table, "true", ()))


def into_file(store: tuple[Catalogue, Folder], trials: Sequence[int], path: str) -> None:
    """Make a database of some of the store's trials, under the store's numbers.

    Raises:
        DatabaseError: a file is missing or damaged.
    """
    catalogue, folder = store
    with ProfileDB.open(path, create=True, readonly=False) as db, db.transaction() as connection:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        _add_trials(catalogue, connection, trials)
        for table in tables().values():
            filling = _Filling(connection, table)
            if table.in_files:
                for trial, stored in _files(catalogue, table, trials):
                    filling.add_rows((trial, *row) for row in folder.read(stored, table))
            elif table.of_a_trial:
                filling.add(catalogue.select(table, "trial_id = ANY(%s)", (list(trials),)))
            elif not table.shared:
                filling.add(catalogue.select(table, "true", ()))
        for table in tables().values():
            if table.shared:
                filling = _Filling(connection, table)
                filling.add(catalogue.select(table, *_referred_to(connection, table)))


def _add_trials(
    catalogue: Catalogue, connection: sqlite3.Connection, trials: Sequence[int] | None
) -> None:
    rows = catalogue.rows(
        "SELECT id, uuid, application, experiment, name, started_at, duration_ns, exit_code, state,"
        " source FROM trial WHERE %s OR id = ANY(%s) ORDER BY id",
        (trials is None, list(trials or ())),
    )
    for id, uuid, application, experiment, *rest in rows:
        connection.execute("INSERT OR IGNORE INTO application (name) VALUES (?)", (application,))
        connection.execute(
            "INSERT OR IGNORE INTO experiment (application_id, name)"
            " SELECT id, ? FROM application WHERE name = ?",
            (experiment, application),
        )
        connection.execute(
            "INSERT INTO trial (id, uuid, experiment_id, name, started_at, duration_ns, exit_code,"
            " state, source) SELECT ?, ?, experiment.id, ?, ?, ?, ?, ?, ? FROM experiment"
            " JOIN application ON application.id = experiment.application_id"
            " WHERE application.name = ? AND experiment.name = ?",
            (id, uuid, *rest, application, experiment),
        )


def _files(
    catalogue: Catalogue, table: Table, trials: Sequence[int]
) -> list[tuple[int, StoredFile]]:
    rows = catalogue.rows(
        "SELECT trial_id, name, holds, rows, bytes, sha256 FROM file"
        " WHERE holds = %s AND trial_id = ANY(%s) ORDER BY trial_id, name",
        (table.name, list(trials)),
    )
    return [(trial, StoredFile(*file)) for trial, *file in rows]


def lost_files(store: tuple[Catalogue, Folder], trial: int) -> list[str]:
    """The trial's files that are missing, or have another size than was written."""
    catalogue, folder = store
    rows = catalogue.rows("SELECT name, bytes FROM file WHERE trial_id = %s", (trial,))
    return [name for name, size in rows if folder.size(name) != size]


def _referred_to(connection: sqlite3.Connection, table: Table) -> tuple[str, tuple[object, ...]]:
    """Which rows of a shared table the rows in the file refer to."""
    column = "timer_id" if table.name == "timer_group" else "id"
    owner = "timer" if table.name == "timer_group" else table.name
    ids: set[int] = set()
    for other in tables().values():
        for reference in other.columns:
            if reference.refers == owner:
                ids.update(
                    id
                    for (id,) in connection.execute(
                        f"SELECT DISTINCT {reference.name} FROM {other.name}"
                        f" WHERE {reference.name} IS NOT NULL"
                    )
                )
    return f"{column} = ANY(%s)", (list(ids),)


class _Filling:
    """Inserts rows of the store into a table of SQLite's.

    Threads and devices are numbered within a trial there, and within the file here.
    """

    def __init__(self, connection: sqlite3.Connection, table: Table) -> None:
        self._connection, self._table = connection, table
        self._trial = next(
            (at for at, column in enumerate(table.columns) if column.name == "trial_id"), None
        )
        self._local = [at for at, column in enumerate(table.columns) if self._is_local(column)]
        names = [
            column.name
            for column in table.columns
            if not (column.name == "trial_id" and table.name == "device_fact")
        ]
        self._skips = len(names) < len(table.columns)
        marks = ", ".join("?" * len(names))
        quoted = ", ".join(f'"{name}"' for name in names)
        self._sql = f'INSERT INTO "{table.name}" ({quoted}) VALUES ({marks})'

    def _is_local(self, column: Column) -> bool:
        owners = ("thread", "device")
        return column.refers in owners or (column.name == "id" and self._table.name in owners)

    def add(self, stored: Iterator[tuple[Any, ...]]) -> None:
        """Rows as the catalogue has them."""
        self.add_rows(gathered(self._table, row) for row in stored)

    def add_rows(self, rows: Iterator[Any]) -> None:
        self._connection.executemany(self._sql, map(self._renumbered, rows))

    def _renumbered(self, row: Sequence[Any]) -> Sequence[Any]:
        cells = list(row)
        if self._trial is not None:
            for at in self._local:
                cells[at] += cells[self._trial] << 32
        return cells[1:] if self._skips else cells
