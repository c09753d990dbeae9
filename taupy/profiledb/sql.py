"""SQL from users: one read-only statement, within limits, interruptible.

It runs on a read-only connection of its own, under an authorizer that permits only reading,
with limits on the size of values and of the result.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import re
from collections.abc import Iterator, Mapping
from typing import Any

from taupy.errors import DatabaseError, UsageError
from taupy.escaping import visible
from taupy.profiledb import bounded
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.files import reading_connection, refusing
from taupy.state.sqlite import REFUSED_FUNCTIONS
from taupy.units import no_such

LONGEST_VALUE = 16 * 1024 * 1024
"""Maximum size of a text or blob that a query may create, in bytes."""

LARGEST_ANSWER = 256 * 1024 * 1024
"""Maximum total length of the texts and blobs in a result."""

_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 1024 * 1024),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)

_PRAGMAS = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "function_list",
        "compile_options",
    }
)
_BARE_PRAGMAS = frozenset(
    {
        "user_version",
        "application_id",
        "page_count",
        "page_size",
        "freelist_count",
        "encoding",
        "schema_version",
        "database_list",
    }
)


_COLUMNS = """
    SELECT DISTINCT info.name
      FROM sqlite_schema AS entry JOIN pragma_table_info(entry.name) AS info
     WHERE entry.type IN ('table', 'view') AND entry.name NOT LIKE 'sqlite_%'
"""
_TABLES = """
    SELECT name FROM sqlite_schema
     WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'
     ORDER BY name
"""


def run_sql(
    db: ProfileDB, sql: str, parameters: Mapping[str, object] | None = None
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Run a user's query.

    Args:
        sql: one statement that only reads.
        parameters: values of `:name` in it.

    Returns:
        The names of the columns, and the rows on demand. The connection
        is closed after the last row, or with the iterator.

    Raises:
        UsageError: it is not SQL, is more than one statement, or would write.
        DatabaseError: the result exceeds the limits (also while iterating).
        KeyboardInterrupt: Ctrl-C, also while SQLite works.
    """
    connection = reading_connection(db.file_for(sql, parameters or {}))
    try:
        for name in parameters or {}:
            if not re.search(rf"[:@$]{re.escape(name)}\b", sql):
                raise UsageError(no_such("parameter", f":{name}", re.findall(r"[:@$]\w+", sql)))
        limited(connection)
        try:
            cursor = connection.execute(sql, dict(parameters or {}))
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if _is_users_fault(error):
                raise UsageError(_complaint(error) + _tables_near(db, error)) from error
            with refusing(db.path):
                raise
        if cursor.description is None:
            raise UsageError("the query gives no columns; write SELECT ...")
    except BaseException:
        connection.close()
        raise
    names = [column[0] for column in cursor.description]
    return names, _rows(db.path, connection, cursor)


def limited(connection: sqlite3.Connection) -> None:
    """Let users' statements only read, and create no large values."""
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    bounded.bound(connection)
    connection.set_authorizer(_authorize)


def _rows(
    path: str, connection: sqlite3.Connection, cursor: sqlite3.Cursor
) -> Iterator[tuple[Any, ...]]:
    size = 0
    try:
        with refusing(path):
            for row in cursor:
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if size > LARGEST_ANSWER:
                    raise DatabaseError(
                        f"the answer is larger than {LARGEST_ANSWER >> 20} MiB; "
                        "ask for less with WHERE or LIMIT"
                    )
                yield row
    finally:
        connection.close()


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, inside: str | None
) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION:
        refused = (second or "").lower() in REFUSED_FUNCTIONS
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first is not None:
        name = first.lower()
        if name in _PRAGMAS or (name in _BARE_PRAGMAS and second is None):
            return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _is_users_fault(error: Exception) -> bool:
    """Whether the statement is at fault, not the file; SQLite reports both as plain errors."""
    code = getattr(error, "sqlite_errorname", None)
    return code in (None, "SQLITE_ERROR", "SQLITE_AUTH", "SQLITE_RANGE", "SQLITE_MISUSE")


def _tables_near(db: ProfileDB, error: Exception) -> str:
    """The existing tables and views, if the statement names one that does not exist."""
    problem, _, wanted = str(error).partition(": ")
    if problem not in ("no such table", "no such column"):
        return ""
    from difflib import get_close_matches

    names = [name for (name,) in db.rows(_TABLES)]
    if problem == "no such column":
        names = sorted({name for (name,) in db.rows(_COLUMNS)})
        wanted = wanted.rpartition(".")[2]
        if not get_close_matches(wanted, names):
            return '; `taupy query "PRAGMA table_info(TABLE)"` lists the columns of a table'
    near = get_close_matches(wanted, names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(near)}?" if near else f" (it has: {', '.join(names)})"


def _complaint(error: Exception) -> str:
    text = visible(str(error))
    code = getattr(error, "sqlite_errorname", None)
    if code == "SQLITE_AUTH":
        return f"queries may only read ({text})"
    if "one statement at a time" in text:
        return "a query must be a single statement; this is more than one"
    if text.startswith("You did not supply a value for binding"):
        return f"{text.rstrip('.')}; give it with --param NAME=VALUE"
    return f"the query is not understood: {text}"
