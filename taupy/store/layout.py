"""The layout of a trial database's tables in a store, derived from the schema itself.

Tables with many rows are files, all others are in the catalogue. Timers, call paths and user
events have ids derived from their content, as in a database file, and metrics get such ids here;
threads and devices are numbered within their trial. Files therefore do not depend on the rest of
the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from taupy.profiledb.migrations import migrate
from taupy.state.sqlite import in_memory

IN_FILES = (
    "call", "interval_value", "user_event_value", "launch", "activity", "sample", "step",
    "step_value", "collective", "operator_input",
)  # fmt: skip
"""Tables that grow with call paths, events or time, and so are stored as Parquet files."""

_DICTIONARIES = ("metric", "timer", "timer_group", "callpath", "user_event")
"""Shared by all trials; their ids are derived from their content."""

_NAMES = ("trial", "application", "experiment")
"""Tables that the catalogue combines in one, which is defined by hand."""

_ADDED = {"device_fact": ("trial_id",)}
_OWN_NUMBERS = ("user_event_value", "launch", "activity", "ceiling")
"""Tables whose ids are not referenced."""

_KEYS = {
    "thread": ("trial_id", "id"),
    "device": ("trial_id", "id"),
    "device_fact": ("trial_id", "device_id", "position"),
    "metadata": ("trial_id", "name", "node"),
    "ceiling": ("characterization", "kind", "name", "pattern", "threads"),
    "kernel_code_access": (
        "module", "name", "what", "space", "bytes", "pattern", "stride", "depth", "spill",
    ),
    "kernel_code_line": ("module", "name", "place"),
}  # fmt: skip
"""Keys other than the primary key. NULLs in them count as equal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as SQLite declares it.

    Attributes:
        kind: INTEGER, REAL, TEXT or ANY.
        refers: the table whose ids it holds, "" for none.
        of: the table that it comes from, if that is another one.
    """

    name: str
    kind: str
    refers: str = ""
    of: str = ""


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table and its key. The trial's number, if it has one, comes first."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def in_files(self) -> bool:
        return self.name in IN_FILES

    @property
    def of_a_trial(self) -> bool:
        return any(column.name == "trial_id" for column in self.columns)

    @property
    def shared(self) -> bool:
        """Whether trials refer to its rows without owning them."""
        return self.name in _DICTIONARIES


_OF_PATHS = (
    Column("timer_id", "INTEGER", "timer", of="callpath"),
    Column("parent_id", "INTEGER", "callpath", of="callpath"),
    Column("depth", "INTEGER", of="callpath"),
)


def in_files(table: StoredTable) -> StoredTable:
    """The table as stored in files.

    The trial's number is not yet known when files are written. Calls repeat the dictionary's
    entries for their call paths, so that trees can be read without it.
    """
    columns = [column for column in table.columns if column.name != "trial_id"]
    added = _OF_PATHS if table.name == "call" else ()
    return StoredTable(table.name, (*columns, *added), table.key)


@cache
def tables() -> dict[str, StoredTable]:
    """The tables of this taupy's schema, by name, except those in `_NAMES`."""
    connection = in_memory()
    try:
        connection.execute("BEGIN")
        migrate(connection)
        names = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {name: _table(connection, name) for (name,) in names if name not in _NAMES}
    finally:
        connection.close()


def _table(connection: sqlite3.Connection, name: str) -> StoredTable:
    refers = {row[3]: row[2] for row in connection.execute(f'PRAGMA foreign_key_list("{name}")')}
    rows = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    columns = [Column(added, "INTEGER", "trial") for added in _ADDED.get(name, ())]
    columns += [
        Column(column, kind, refers.get(column, ""))
        for _, column, kind, *_ in rows
        if not (column == "id" and name in _OWN_NUMBERS)
    ]
    columns.sort(key=lambda column: column.name != "trial_id")
    primary = sorted((row[5], row[1]) for row in rows if row[5])
    return StoredTable(
        name, tuple(columns), _KEYS.get(name, tuple(column for _, column in primary))
    )


def physical(table: StoredTable) -> Iterator[tuple[str, str]]:
    """The table's columns in the store, with their types: INTEGER, REAL or TEXT.

    A column of any type becomes one column per type: `value`, `value_real`,
    `value_text`; at most one of them is not NULL.
    """
    for column in table.columns:
        if column.kind == "ANY":
            yield column.name, "INTEGER"
            yield f"{column.name}_real", "REAL"
            yield f"{column.name}_text", "TEXT"
        else:
            yield column.name, column.kind


def spread(table: StoredTable, row: Sequence[Any]) -> list[Any]:
    """Convert a row from SQLite's form to the store's."""
    cells: list[Any] = []
    for column, value in zip(table.columns, row, strict=True):
        if column.kind == "ANY":
            cells += [value if type(value) is kind else None for kind in (int, float, str)]
        else:
            cells.append(value)
    return cells


def gathered(table: StoredTable, cells: Sequence[Any]) -> list[Any]:
    """The inverse of `spread`."""
    rest = iter(cells)
    row: list[Any] = []
    for column in table.columns:
        value = next(rest)
        if column.kind == "ANY":
            for other in (next(rest), next(rest)):
                value = other if value is None else value
        row.append(value)
    return row
