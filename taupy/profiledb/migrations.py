"""Create the schema, and upgrade older files with sqlite-utils.

`PRAGMA user_version` is the number of upgrades applied. Everything happens in the caller's
transaction, so a file is never between two versions. Only writing upgrades a file; for a reader,
temporary tables and views stand for what an older one lacks (`complete`).
"""

from __future__ import annotations

import sqlite3
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

    Upgrade = Callable[[Any], None]
    """Takes a `sqlite_utils.Database`, or a connection, from one version to the next."""


def make_tables(database: Any) -> None:
    """Version 0, an empty file, to version 1."""
    for statement in TABLES:
        database.execute(statement)


def add_samples(database: Any) -> None:
    """Version 2: user events over time."""
    for statement in SAMPLES:
        database.execute(statement)


def add_kernel_codes(database: Any) -> None:
    """Version 3: facts from kernels' machine code."""
    for statement in KERNEL_CODES:
        database.execute(statement)


def add_steps(database: Any) -> None:
    """Version 4: steps of a training."""
    for statement in STEPS:
        database.execute(statement)


def add_kernel_launches(database: Any) -> None:
    """Version 5: limits of kernels' launches, and their source lines."""
    for statement in KERNEL_LAUNCHES:
        database.execute(statement)


def add_collectives(database: Any) -> None:
    """Version 6: collectives of several ranks."""
    for statement in COLLECTIVES:
        database.execute(statement)


def add_layers(database: Any) -> None:
    """Version 7: parameters, shapes and operations of network layers."""
    for statement in LAYERS:
        database.execute(statement)


def add_modules(database: Any) -> None:
    """Version 8: modules loaded onto GPUs."""
    for statement in MODULES:
        database.execute(statement)


def tell_stretches_from_steps(database: Any) -> None:
    """Version 9: steps of the kind `stretch`, which the view of steps leaves out."""


def add_backward_passes(database: Any) -> None:
    """Version 10: backward passes of layers in which operations were counted."""
    for statement in BACKWARD_PASSES:
        database.execute(statement)


def add_sources(database: Any) -> None:
    """Version 11: source text of the program's own files, times of lines; inputs of operators."""
    for statement in (*SOURCES, *LINES, *OPERATOR_INPUTS):
        database.execute(statement)


def add_exact_lines(database: Any) -> None:
    """Version 12: counts and inclusive times of lines."""
    for statement in EXACT_LINES:
        database.execute(statement)


def add_thread_rows(database: Any) -> None:
    """Version 13: rows of several threads."""
    for statement in THREAD_ROWS:
        database.execute(statement)


def add_processors(database: Any) -> None:
    """Version 14: whether lines ran, or waited for a processor."""
    for statement in PROCESSORS:
        database.execute(statement)


PLAIN: tuple[Upgrade, ...] = (
    make_tables,
    add_samples,
    add_kernel_codes,
    add_steps,
    add_kernel_launches,
    add_collectives,
    add_layers,
    add_modules,
    tell_stretches_from_steps,
    add_backward_passes,
    add_sources,
    add_exact_lines,
    add_thread_rows,
    add_processors,
)
"""Upgrades that only execute statements, since their tables have no row ids, which sqlite-utils'
`create` does not know; they also make a new file, for which it is not imported."""

UPGRADES: tuple[Upgrade, ...] = (*PLAIN,)
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
    for step in upgrades:
        step(connection if step in PLAIN else by_sqlite_utils(connection))
