"""Read a store like a trial database.

Statements are answered by SQLite from a database in a temporary folder. Before each statement,
missing rows that it reads are copied from the store: flat profiles from the catalogue, values of
call paths from the files of the trials concerned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from taupy import units
from taupy.errors import UsageError
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.files import PATIENCE_S, refusing, wait_for_locks, writing_connection
from taupy.profiledb.migrations import migrate
from taupy.profiledb.reading import Reading
from taupy.store.catalogue import Store
from taupy.store.cluster import scheduler
from taupy.store.engines import Engines
from taupy.store.layout import tables
from taupy.store.local import LocalCopy, temporary_folder
from taupy.store.needs import SHARED, Needs, needs
from taupy.store.users_sql import needs_of_text

_MOST_ROWS = 5_000_000
"""Maximum number of rows that a user's statement may copy."""


class StoreDB(ProfileDB):
    """A store open for reading.

    Attributes:
        store: its catalogue and files.
        copy: what has been copied from it.
        file: the database that holds the copy.
    """

    def __init__(self, address: str, cluster: str | None = None) -> None:
        """
        Raises:
            UsageError: this is not the address of a store.
            DatabaseError: it cannot be reached, or its files are not accessible here.
        """
        self._open = ExitStack()
        try:
            folder = self._open.enter_context(temporary_folder("taupy-store-"))
            self.store = store = self._open.enter_context(Store.open(address))
            store.catalogue.rows("SELECT set_config('default_transaction_read_only', 'on', false)")
            self.file = str(Path(folder) / "copied.db")
            connection = writing_connection(self.file, create=True)
            with refusing(self.file):
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("BEGIN")
                migrate(connection)
            self.copy = LocalCopy(connection, store)
            self.copy.add_trials()
            self._engines = Engines(store, scheduler() if cluster is None else cluster)
            self._open.callback(self._engines.close)
        except BaseException:
            self._open.close()
            raise
        trials = {name for name, table in tables().items() if not table.shared}
        self._tables = frozenset(trials | SHARED.keys())
        super().__init__(address, connection, readonly=True)

    def close(self) -> None:
        super().close()
        self._open.close()

    def _selected(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object]
    ) -> sqlite3.Cursor:
        self._copy_for(sql, parameters)
        return super()._selected(sql, parameters)

    def columns(self, reading: Reading) -> list[Sequence[Any]]:
        answer = self._engines.columns(reading)
        return super().columns(reading) if answer is None else answer

    def file_for(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> str:
        """
        Raises:
            UsageError: it would read too many rows, because it does not restrict the trials.
        """
        read = needs_of_text(sql, parameters, self._tables, self._evaluated)
        rows = sum(
            self.copy.rows_of(tables()[name], ids)
            for name, ids in read.items()
            if name not in SHARED
        )
        if rows > _MOST_ROWS:
            raise UsageError(
                f"this reads {units.count(rows)} rows of the store, more than {_MOST_ROWS:,}: "
                "restrict it to some trials, as in WHERE trial_id = 12, or pull them"
            )
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")
        self._copy(read)
        self.commit()
        return self.file

    def commit(self) -> None:
        """Commit, so that other connections to the file see what has been copied."""
        with refusing(self.file):
            wait_for_locks(self.connection, PATIENCE_S)  # held by readers of the file
            self.connection.execute("COMMIT")

    def _evaluated(self, expression: str, parameters: Mapping[str, object]) -> object:
        single = {name: value for name, value in parameters.items() if type(value) is not list}
        with refusing(self.path):
            ((value,),) = super()._selected(f"SELECT {expression}", single)
        return value

    def _copy_for(self, sql: str, parameters: Sequence[object] | Mapping[str, object]) -> None:
        if not sql.lstrip().startswith("PRAGMA"):
            self._copy(needs(sql, parameters, self._tables))

    def _copy(self, read: Needs) -> None:
        for name, ids in read.items():
            if name in SHARED:
                self.copy.add_shared(SHARED[name], ids or set())
            else:
                self.copy.add(tables()[name], ids)
