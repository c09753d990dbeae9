"""Inspect a file before opening it as a database, connect to it, or reject it with a clear message.

A file that is not a trial database is rejected with a one-line message and remains unchanged.
SQLite's errors become one-line messages, too. `database.py` handles trials.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager

from taupy.errors import DatabaseError
from taupy.escaping import visible
from taupy.profiledb import migrations, schema_check
from taupy.profiledb.schema import APPLICATION_ID
from taupy.state import sqlite
from taupy.state.folder import kind
from taupy.state.limits import file_limit
from taupy.state.sqlite import Busy, Limited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

PATIENCE_S = 28.0
"""Total time that a transaction waits for other processes' locks."""

_at_most_s: float | None = None

_WRITER_CACHE_KIB = 256 * 1024
_INTERRUPTIBLE_EVERY = 50_000  # steps of SQLite's virtual machine, a few milliseconds


def patience_s() -> float:
    """How long a transaction of this process waits now."""
    return PATIENCE_S if _at_most_s is None else _at_most_s


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """While active, this process waits so long for other processes' locks."""
    global _at_most_s
    before, _at_most_s = _at_most_s, seconds
    try:
        yield
    finally:
        _at_most_s = before


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Turn SQLite's errors into one-line messages, and its interruption into KeyboardInterrupt."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith("SQLITE_INTERRUPT"):
            raise KeyboardInterrupt from None
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy(f"{path} {sqlite.LOCKED}") from error
        if code.startswith(_NOT_WRITTEN) and (limit := file_limit()):
            raise Limited(f"{path} cannot be written: {limit}") from error
        raise DatabaseError(f"{path} {_reason(code, error)}") from error
    except UnicodeDecodeError as error:  # SQLite's own message can contain invalid UTF-8
        raise DatabaseError(f"{path} {DAMAGED}") from error
    except OverflowError as error:
        raise DatabaseError(f"{path} cannot hold a number beyond 64 bits ({error})") from error


def reading_connection(
    path: str, *, is_open_here: bool = False, check_same_thread: bool = True
) -> sqlite3.Connection:
    """A read-only connection whose statements can be interrupted by Ctrl-C.

    Args:
        is_open_here: this process has the file open already.
        check_same_thread: refuse to be used by several threads.
    """
    with refusing(path):
        connection = _connect(path, "ro", is_open_here, check_same_thread)
        try:
            try:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
                    raise
                _roll_back(path)  # a writer was killed and left its journal
            migrations.complete(connection, checked_version(connection, path))
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def writing_connection(
    path: str, *, create: bool, is_open_here: bool = False
) -> sqlite3.Connection:
    """Open for writing, and leave the write-ahead-log mode that another program may have set.

    Args:
        create: create the file if it does not exist.
        is_open_here: this process has the file open already.

    Raises:
        DatabaseError: it cannot be opened, is not a database, or others left a journal there.
    """
    with refusing(path):
        connection = _connect(path, "rwc" if create else "rw", is_open_here)
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                # Another program set the mode; while others have the file open, it cannot change.
                connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KIB}")
        except BaseException:
            connection.close()
            raise
        return connection


def _connect(
    path: str,
    mode: Literal["ro", "rw", "rwc"],
    is_open_here: bool = False,
    check_same_thread: bool = True,
) -> sqlite3.Connection:
    connection = sqlite.connect(
        path,
        mode,
        patience_s=patience_s(),
        is_open_here=is_open_here,
        check_same_thread=check_same_thread,
    )
    connection.set_progress_handler(_do_nothing, _INTERRUPTIBLE_EVERY)
    return connection


def _do_nothing() -> int:
    """A callback that does nothing; Python runs its signal handlers around it."""
    return 0


def _roll_back(path: str) -> None:
    sqlite.refuse_journal(os.path.realpath(path))
    connection = _connect(path, "rw")
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    finally:
        connection.close()


def wait_for_locks(connection: sqlite3.Connection, seconds: float) -> None:
    """Set how long a statement waits for other processes before it fails."""
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def checked_version(connection: sqlite3.Connection, path: str) -> int:
    """The schema's version, after checking that the file is taupy's and not too new.

    In one transaction: another process may be creating the tables.
    """
    begins = not connection.in_transaction
    if begins:
        connection.execute("BEGIN")
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        entries = schema_check.entries(connection)
        if application == APPLICATION_ID and version <= migrations.SCHEMA_VERSION:
            schema_check.check(connection, path, version, entries)
    finally:
        if begins and connection.in_transaction:
            connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (application or version or entries):
        raise DatabaseError(_foreign(path))
    _refuse_newer(path, version)
    return version


def look(path: str, *, create: bool, held: Container[tuple[int, int] | None]) -> int:
    """The file's schema version from its first bytes; 0 if empty, -1 if not inspected.

    Never opens anything that could block or is not a regular file.

    Args:
        create: accept a missing or empty file.
        held: identities of files that SQLite has open in this process. They are not
            read: closing any descriptor of a file drops the process's locks on it.
    """
    name = visible(path)
    if not path or "\0" in path:
        raise DatabaseError(f"'{name}' is not a file name; name the database with --db FILE")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            raise DatabaseError(
                f"{name} is a link to a file that does not exist; remove it or name another "
                "database with --db FILE"
            ) from None
        if not create:
            raise DatabaseError(
                f"there is no database {name}; `taupy run SCRIPT` creates one, "
                "--db FILE selects another"
            ) from None
        folder = os.path.dirname(path) or os.curdir
        if not os.path.isdir(folder):
            raise DatabaseError(
                f"{name} cannot be created: the folder {folder} does not exist"
            ) from None
        return 0
    except OSError as error:
        raise DatabaseError(f"{name} cannot be inspected: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else kind(status.st_mode)
        raise DatabaseError(f"{name} is {what}, not a database; name a file with --db FILE")
    if status.st_size == 0:
        if not create:
            raise DatabaseError(f"{name} is empty: it has no trials; `taupy run SCRIPT` adds one")
        return 0
    if (status.st_dev, status.st_ino) in held:
        return -1
    return _version_in_header(path)


def _version_in_header(path: str) -> int:
    name = visible(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            header = os.read(descriptor, 100)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DatabaseError(f"{name} cannot be read: {error.strerror}") from error
    if not header.startswith(b"SQLite format 3\0"):
        raise DatabaseError(
            f"{name} is not a trial database (nor any SQLite file); name another with --db FILE"
        )
    if len(header) < 100:
        raise DatabaseError(f"{name} {DAMAGED}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DatabaseError(_foreign(path))
    version = int.from_bytes(header[60:64], "big")
    _refuse_newer(path, version)
    return version


def _refuse_newer(path: str, version: int) -> None:
    if version > migrations.SCHEMA_VERSION:
        raise DatabaseError(
            f"{path} was written by a newer taupy (schema {version}, this one reads up to "
            f"{migrations.SCHEMA_VERSION}); upgrade taupy or name another database with --db FILE"
        )


def _foreign(path: str) -> str:
    return f"{path} is the SQLite database of another application; name another with --db FILE"


DAMAGED = (
    "is damaged (cut short or overwritten); move it away, or save what is left with: "
    "sqlite3 FILE .recover"
)

_NOT_WRITTEN = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_SHMSIZE")

_REASONS = (
    ("SQLITE_CORRUPT", DAMAGED),
    ("SQLITE_NOTADB", DAMAGED),
    ("SQLITE_FULL", "cannot be written: the disk is full"),
    (
        "SQLITE_READONLY_ROLLBACK",
        "contains an interrupted write that must be rolled back, and is read-only; make it "
        "writable",
    ),
    ("SQLITE_READONLY", "is read-only, or its folder is"),
    ("SQLITE_CANTOPEN", "cannot be opened; check the permissions of the file and its folder"),
    ("SQLITE_PERM", "may not be accessed"),
    ("SQLITE_IOERR_LOCK", "is on a file system without locks; use a local disk"),
    ("SQLITE_PROTOCOL", "is on a file system without locks; use a local disk"),
    ("SQLITE_IOERR", "cannot be read or written: the disk gave an error"),
    ("SQLITE_TOOBIG", "cannot hold a text or number that large"),
)


def _reason(code: str, error: Exception) -> str:
    for beginning, words in _REASONS:
        if code.startswith(beginning):
            return words
    return f"refused: {visible(str(error))}"


def file_identity(path: str) -> tuple[int, int] | None:
    """Device and inode of a file; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
