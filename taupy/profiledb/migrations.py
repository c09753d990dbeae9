"""Create the schema and upgrade older files, with sqlite-utils where SQL does not suffice.

`PRAGMA user_version` is the number of upgrades applied. Everything happens in the caller's
transaction, so a file is never between two versions.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Sequence
from typing import Any

from taupy.errors import DatabaseError
from taupy.profiledb.schema import (
    APPLICATION_ID,
    BACKWARD_PASSES,
    COLLECTIVES,
    KERNEL_CODES,
    KERNEL_LAUNCHES,
    LAYERS,
    MODULES,
    SAMPLES,
    STEPS,
    TABLES,
)
from taupy.profiledb.schema_views import VIEWS

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
)
"""Upgrades that only execute statements and so need only a connection: importing sqlite-utils takes
as long as answering a question."""

UPGRADES: tuple[Upgrade, ...] = (*PLAIN,)
"""Number n leads from version n to version n + 1. Released ones must not change."""

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
    for name, query in VIEWS.items():
        execute(f'CREATE VIEW "{name}" AS {query.strip()}')
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def upgrade(connection: sqlite3.Connection, upgrades: Sequence[Upgrade]) -> None:
    """Apply these upgrades, one after the other."""
    for step in upgrades:
        step(connection if step in PLAIN else _database(connection))


def _database(connection: sqlite3.Connection) -> Any:
    """sqlite-utils' database; imported without pandas and NumPy, which would take 1 s."""
    kept_out = [name for name in ("pandas", "numpy") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept_out))  # type: ignore[arg-type]
    try:
        import sqlite_utils
    except ImportError as error:
        raise DatabaseError(
            f"sqlite-utils cannot be imported ({error}), so the database cannot be created or "
            "upgraded; install it with: pip install sqlite-utils"
        ) from error
    finally:
        for name in kept_out:
            del sys.modules[name]
    return sqlite_utils.Database(connection, execute_plugins=False)
