"""Compare the schema of a file with ours, before any other statement reads it.

A schema is code: a generated column, a trigger, a view in a table's place, an index or a CHECK over
an expression make SQLite compute what the file's author wrote whenever a row is read or written.
What users may add to their databases (tables, views, indexes of columns) is left alone, and what is
missing is reported elsewhere (`audit.py`).
"""

from __future__ import annotations

from _blake2 import blake2b
from collections.abc import Iterator, Sequence
from functools import cache

from taupy.dataclass import NamedTuple
from taupy.errors import DatabaseError
from taupy.pattern import pattern
from taupy.profiledb import migrations
from taupy.state.sqlite import in_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

CURRENT = "97a67c0fb69d903050e33a8d1b37d167c5bdf9ef32d44ce2bf869146d509b2be"
"""Hash of the tables and indexes of the current version: such a file needs no closer look."""

_CHECKS = pattern(r"check(?!point_ns)")
_CLAUSES = pattern(r"check\(\w+in\([^)]*\)\)")
_BLANKS = pattern(r'[\s"`\[\]]+')


class Entry(NamedTuple):
    """A row of `sqlite_schema`."""

    type: str
    name: str
    table: str
    sql: str | None


def entries(connection: sqlite3.Connection) -> list[Entry]:
    """The schema of a file, as it is written there."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, CAST(sql AS TEXT) FROM sqlite_schema ORDER BY 1, 2"
    )
    return [Entry._make(row) for row in rows]


def hashed(schema: Sequence[Entry]) -> str:
    """A hash of the tables and indexes."""
    tables = [tuple(entry) for entry in schema if entry.type != "view"]
    text = repr(tables).encode("utf-8", "surrogatepass")
    return str(blake2b(text, digest_size=32).hexdigest())


def check(connection: sqlite3.Connection, path: str, version: int, schema: Sequence[Entry]) -> None:
    """
    Raises:
        DatabaseError: something in the schema is not what taupy writes.
    """
    names = [entry.name for entry in schema]
    if len({*names}) == len(names) and hashed(schema) == CURRENT:
        return
    for what in _odd(connection, version, schema):
        raise DatabaseError(
            f"{path} was changed by another program, or is not from taupy: {what}; nothing in it "
            "is used"
        )


def _odd(connection: sqlite3.Connection, version: int, schema: Sequence[Entry]) -> Iterator[str]:
    """What taupy did not write."""
    ours = _expected(version, migrations.UPGRADES)
    seen: set[str] = set()
    for entry in schema:
        name = entry.name.lower()
        sql = _squeezed(entry.sql)
        if name in seen:
            yield f"it has two entries named {entry.name}"
        seen.add(name)
        if entry.type == "trigger":
            yield f"it has a trigger, {entry.name}"
        elif sql.startswith("createvirtual"):
            yield f"{entry.name} is a virtual table"
        elif name in ours.tables:
            if entry.type != "table":
                yield f"{entry.name} is a {entry.type}, not a table"
            yield from _odd_table(connection, entry, ours)
        elif (
            entry.type == "index"
            and entry.table.lower() in ours.tables
            and sql not in (*ours.indexes, "")
            and _computes(connection, entry)
        ):
            yield f"the index {entry.name} computes an expression"


def _odd_table(connection: sqlite3.Connection, entry: Entry, ours: _Expected) -> Iterator[str]:
    expected = ours.tables[entry.name.lower()]
    kind, columns = _described(connection, entry.name)
    if kind != expected.kind:
        yield f"the table {entry.name} is of another kind"
    for name, column in columns.items():
        if column[-1]:
            yield f"the column {entry.name}.{name} is computed"
        elif column != expected.columns.get(name):
            yield f"the column {entry.name}.{name} is not as taupy makes it"
    sql = _squeezed(entry.sql)
    for clause in expected.checks:
        sql = sql.replace(clause, "")
    if _CHECKS.search(sql):
        yield f"the table {entry.name} has a CHECK that is not taupy's"


class _Table(NamedTuple):
    """A table of taupy: its kind, its columns by name, its CHECK clauses without blanks."""

    kind: tuple[object, ...]
    columns: dict[str, tuple[object, ...]]
    checks: tuple[str, ...]


class _Expected(NamedTuple):
    """taupy's tables by name, and the statements of its indexes without blanks."""

    tables: dict[str, _Table]
    indexes: frozenset[str]


@cache
def _expected(version: int, upgrades: tuple[migrations.Upgrade, ...]) -> _Expected:
    connection = in_memory()
    try:
        connection.execute("BEGIN")
        migrations.upgrade(connection, upgrades[:version])
        schema = entries(connection)
        tables = {
            entry.name.lower(): _Table(
                *_described(connection, entry.name), tuple(_clauses(_squeezed(entry.sql)))
            )
            for entry in schema
            if entry.type == "table"
        }
        indexes = {_squeezed(entry.sql) for entry in schema if entry.type == "index"}
        return _Expected(tables, frozenset(indexes))
    finally:
        connection.close()


def _described(
    connection: sqlite3.Connection, table: str
) -> tuple[tuple[object, ...], dict[str, tuple[object, ...]]]:
    """Whether a table is plain, without rowids, strict; its columns by name."""
    name = table.replace('"', '""')
    kinds = connection.execute(f'PRAGMA main.table_list("{name}")').fetchall()
    columns = connection.execute(f'PRAGMA main.table_xinfo("{name}")').fetchall()
    return tuple(kind[2:3] + kind[4:] for kind in kinds), {row[1]: row[2:] for row in columns}


def _computes(connection: sqlite3.Connection, index: Entry) -> bool:
    """Whether an index has an expression or a condition."""
    name = index.name.replace('"', '""')
    columns = connection.execute(f'PRAGMA main.index_xinfo("{name}")').fetchall()
    return any(row[1] == -2 for row in columns) or "where" in (index.sql or "").lower()


def _clauses(sql: str) -> Iterator[str]:
    """The CHECK clauses in a statement of taupy, which contain one pair of inner parentheses."""
    yield from _CLAUSES.findall(sql)


def _squeezed(sql: str | None) -> str:
    """A statement without blanks and quotes of names, in lower case."""
    return _BLANKS.sub("", sql or "").lower()
