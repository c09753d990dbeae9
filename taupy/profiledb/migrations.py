"""Create the schema, and upgrade older files with sqlite-utils.

`PRAGMA user_version` is the number of upgrades applied. Everything happens in the caller's
transaction, so a file is never between two versions. Only writing upgrades a file; for a reader,
temporary tables and views stand for what an older one lacks (`complete`).
"""

from __future__ import annotations

import _sqlite3 as sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

from taupy.profiledb.schema import (
    APPLICATION_ID,
    BACKWARD_PASSES,
    COLLECTIVES,
    EXACT_LINES,
    KERNEL_CODES,
    KERNEL_LAUNCHES,
    LAYERS,
    LINES,
    MODULES,
    OPERATOR_INPUTS,
    PROCESSORS,
    SAMPLES,
    SOURCES,
    STEPS,
    TABLES,
    THREAD_ROWS,
)
from taupy.profiledb.schema_views import VIEWS
from taupy.profiledb.tables import by_sqlite_utils
from taupy.state.sqlite import in_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Upgrade = tuple[str, ...] | Callable[[Any], None]
    """From one version to the next: statements, or what changes a `sqlite_utils.Database`, whose
    `create` does not know tables without row ids, and which a new file would import."""


UPGRADES: tuple[Upgrade, ...] = (
    TABLES,
    SAMPLES,
    KERNEL_CODES,
    STEPS,
    KERNEL_LAUNCHES,
    COLLECTIVES,
    LAYERS,
    MODULES,
    (),  # steps of the kind `stretch`, which the view of steps leaves out
    BACKWARD_PASSES,
    (*SOURCES, *LINES, *OPERATOR_INPUTS),
    EXACT_LINES,
    THREAD_ROWS,
    PROCESSORS,
)
"""Number n leads from version n to version n + 1. Released ones must not change, and all only add
tables and columns, so that older files can be read as they are."""

SCHEMA_VERSION = len(UPGRADES)
"""The version that this taupy reads and writes."""


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the missing upgrades, then recreate the views.

    Does nothing for a current file. A transaction must be open; if an upgrade fails, the caller
    rolls it back.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version >= SCHEMA_VERSION:
        return
    execute = connection.execute
    for (name,) in execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
        execute("DROP VIEW " + '"' + name.replace('"', '""') + '"')
    upgrade(connection, UPGRADES[version:])
    if version:
        database = by_sqlite_utils(connection)
        for name, query in VIEWS.items():
            database.create_view(name, query.strip())
    else:  # a new file
        for name, query in VIEWS.items():
            execute(_view(name, query))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def complete(connection: sqlite3.Connection, version: int) -> None:
    """Let a connection to a file see the current schema, with our views; the file is not changed.

    What an older one lacks is empty: a table without rows, a column of NULL or its default. Views
    of the file are hidden by taupy's, or by copies, which may call its functions (`bounded.py`).
    """
    if version < SCHEMA_VERSION:
        _complete_tables(connection)
    views = "SELECT name, sql FROM main.sqlite_schema WHERE sql GLOB 'CREATE VIEW *'"
    stored = dict(connection.execute(views).fetchall())
    ours = {name: _view(name, query) for name, query in VIEWS.items()}
    if version == SCHEMA_VERSION and stored == ours:
        return
    for statement in ours.values():
        connection.execute(_temporary(statement))
    for statement in stored.values():
        with suppress(sqlite3.Error):  # not well-formed, or taupy has one of that name
            connection.execute(_temporary(statement))


def _view(name: str, query: str) -> str:
    return f'CREATE VIEW "{name}" AS {query.strip()}'


def _temporary(view: str) -> str:
    return f"CREATE TEMP{view.removeprefix('CREATE')}"


def _complete_tables(connection: sqlite3.Connection) -> None:
    ours = in_memory()
    try:
        ours.execute("BEGIN")
        migrate(ours)
        tables = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND sql IS NOT NULL"
        stored = dict(connection.execute(tables).fetchall())
        for name, sql in ours.execute(tables).fetchall():
            if name.startswith("sqlite_"):
                continue
            if name not in stored:
                connection.execute(sql.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
                continue
            theirs = _columns(connection, name)
            more = "".join(
                f", {default or 'NULL'} AS {column}"
                for column, default in _columns(ours, name).items()
                if column not in theirs
            )
            if more:
                connection.execute(
                    f"CREATE TEMP VIEW {name} AS SELECT {name}.*{more} FROM main.{name}"
                )
    finally:
        ours.close()


def _columns(connection: sqlite3.Connection, table: str) -> dict[str, str | None]:
    """The columns of a table, with their defaults."""
    rows = connection.execute(f"PRAGMA main.table_xinfo({table})").fetchall()
    return {row[1]: row[4] for row in rows}


def upgrade(connection: sqlite3.Connection, upgrades: Sequence[Upgrade]) -> None:
    """Apply these upgrades, one after the other."""
    statements: list[str] = []
    for step in upgrades:
        if isinstance(step, tuple):
            statements += step
            continue
        _execute_all(connection, statements)
        statements.clear()
        step(by_sqlite_utils(connection))
    _execute_all(connection, statements)


def _execute_all(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    """A table is made with the columns that later statements add to it: after each ALTER TABLE,
    SQLite reads the whole schema again, for a third of the time in which a new file is made."""
    planned: dict[str, str] = {}
    for statement in statements:
        verb, what, table, *rest = statement.split(maxsplit=5)
        if verb == "ALTER" and table in planned:
            planned[table] = _with_column(planned[table], rest[-1])
        else:
            planned[table if (verb, what) == ("CREATE", "TABLE") else statement] = statement
    for statement in planned.values():
        connection.execute(statement)


def _with_column(table: str, column: str) -> str:
    """The statement as SQLite keeps it after ALTER TABLE: a column is before the constraints."""
    ends = (",\n        PRIMARY KEY (", ",\n        UNIQUE (", ") STRICT")
    at = min(place for end in ends if (place := table.find(end)) >= 0)
    return f"{table[:at]}, {column}{table[at:]}"
