"""A team's store for `taupy serve`: SQLite answers from a copy of the rows that pages ask for."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from taupy.errors import TaupyError
from taupy.serve.plugin import TrialDatabase

if TYPE_CHECKING:
    from taupy.store.reading import StoreDB


class Copied:
    """A store that is open, with the file that has what was copied so far.

    One thread does all the copying, as SQLite's connections want it. The list of trials is that of
    the beginning.
    """

    def __init__(self, address: str) -> None:
        """
        Raises:
            DatabaseError: it cannot be opened.
        """
        self._thread = ThreadPoolExecutor(1)
        try:
            self._db = self._thread.submit(_opened, address).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self.file = self._db.file

    def __enter__(self) -> Copied:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._db.close).result()
        self._thread.shutdown()

    def copy_for(self, sql: str, parameters: Sequence[object] | Mapping[str, object]) -> None:
        """Copy the rows that a statement reads.

        Raises:
            TaupyError: they are too many, or the store cannot be read.
        """
        self._thread.submit(self._db.file_for, sql, parameters).result()


def _opened(address: str) -> StoreDB:
    from taupy.store.reading import StoreDB

    db = StoreDB(address)
    db.file_for("SELECT 1")  # tables and trials become visible to others
    return db


class StoreDatabase(TrialDatabase):
    """Datasette's database for a store."""

    def __init__(self, datasette: Any, copied: Copied) -> None:
        super().__init__(datasette, path=copied.file)
        self._copied = copied

    async def execute(self, sql: str, params: Any = None, **more: Any) -> Any:
        """As in Datasette, once the rows are here."""
        try:
            await asyncio.to_thread(self._copied.copy_for, sql, params or {})
        except TaupyError as problem:
            raise sqlite3.OperationalError(str(problem)) from problem
        return await super().execute(sql, params, **more)

    async def table_counts(self, limit: int = 10) -> dict[str, None]:
        """Unknown: counting would copy the whole store."""
        return dict.fromkeys(await self.table_names())
