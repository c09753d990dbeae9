"""Open SQLite files of other tools safely: neither we nor the file can be harmed.

Files are opened read-only, and only plain tables are read: no view, trigger or computed column of a
file runs. The SQL for a format is in the format's module.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taupy.errors import DatabaseError, FormatError
from taupy.formats import limits
from taupy.formats.reading import refusal
from taupy.state import sqlite

MAGIC: Final = b"SQLite format 3\0"

_ALLOWED: Final = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_TRANSACTION,
}
_PRAGMAS: Final = {
    "table_info",
    "table_xinfo",
    "quick_check",
    "query_only",
    "trusted_schema",
    "cache_size",
}


def tables(path: Path) -> set[str]:
    """The names of a file's tables; empty if it is not a readable SQLite file."""
    try:
        with opened(path) as connection:
            return set(table_columns(connection))
    except Exception:
        return set()


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading, in one transaction.

    Raises:
        FormatError: the file is truncated, damaged, locked, or being written.
    """
    _look(path)
    connection = None
    try:
        connection = sqlite.connect(str(path), "ro", patience_s=1.0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.SQLITE_VALUE)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA cache_size = -65536")
        connection.set_authorizer(_authorizer)
        connection.execute("BEGIN")
        _refuse_computed(path, connection)
        yield connection
    except DatabaseError as problem:
        raise FormatError(str(problem)) from None
    except sqlite3.Error as problem:
        raise refusal(path, "", _reason(problem)) from None
    except UnicodeDecodeError:  # in SQLite's message about the damage
        raise refusal(path, "", "the SQLite file is damaged") from None
    finally:
        if connection is not None:
            connection.close()


def check(path: Path, connection: sqlite3.Connection) -> None:
    """Check the integrity of the file's pages; very large files are not checked.

    Raises:
        FormatError: the file is damaged.
    """
    if path.stat().st_size <= limits.SQLITE_CHECKED:
        answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise refusal(path, "", f"the SQLite file is damaged ({' '.join(answer.split())})")


def table_columns(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The columns of each plain table; views and virtual tables are omitted.

    Raises:
        sqlite3.Error: the file is damaged.
    """
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
    ).fetchall()
    columns_of = {}
    for (name,) in names:
        if not isinstance(name, str):
            raise sqlite3.DatabaseError("the list of tables is damaged")
        rows = connection.execute(f"PRAGMA table_info({quoted(name)})")
        columns_of[name] = tuple(row[1] for row in rows)
    return columns_of


def is_indexed(connection: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether the table's primary key begins with that column."""
    rows = connection.execute(f"PRAGMA table_info({quoted(table)})")
    return any(row[1] == column and row[5] == 1 for row in rows)


def quoted(name: str) -> str:
    """The name of a table or column as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _authorizer(
    action: int, first: str | None, other: str | None, base: str | None, inner: str | None
) -> int:
    if action not in _ALLOWED or inner is not None:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and first not in _PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (other or "").lower() in sqlite.REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _refuse_computed(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse columns whose values are not in the file: a few bytes of it could become gigabytes."""
    for table in table_columns(connection):
        for _, column, _, _, default, _, hidden in connection.execute(
            f"PRAGMA table_xinfo({quoted(table)})"
        ):
            if hidden or len(default or "") > limits.SQLITE_DEFAULT:
                raise refusal(
                    path, "", f"the column {table}.{column} is computed, which no tool does"
                )


def _look(path: Path) -> None:
    """Reject damaged files that SQLite itself would consider empty or complete."""
    with open(path, "rb") as file:
        header = file.read(100)
    if not header.startswith(MAGIC):
        raise refusal(path, "byte 0", "not an SQLite file")
    size = path.stat().st_size
    page = int.from_bytes(header[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if len(header) < 100 or page < 512 or page & (page - 1):
        raise refusal(path, "byte 16", "the header of the SQLite file is damaged")
    current = header[24:28] == header[92:96]  # otherwise the number of pages is not valid
    if size % page or (current and size < page * pages):
        expected = f" of {page * pages:,}" if current else ""
        raise refusal(
            path, f"byte {size}", f"the SQLite file is cut short ({size:,}{expected} bytes)"
        )
    for suffix in ("-wal", "-journal"):
        beside = Path(f"{path}{suffix}")
        if beside.exists() and beside.stat().st_size:
            raise refusal(
                path, "", f"{beside.name} shows that the file is being written or was not closed"
            )


def _reason(problem: sqlite3.Error) -> str:
    code = getattr(problem, "sqlite_errorname", "") or ""
    words = " ".join(str(problem).split())[:200]  # it may contain text from the file
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "locked by another program; try again when it has finished"
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT")):
        return f"the SQLite file is damaged ({words})"
    return f"SQLite cannot read it ({words})"
