"""The one place that opens SQLite files: what lies beside them, what may happen on connections.

SQLite acts on files beside a database without asking. It rolls back a `-journal` and then deletes
every file that this names (as "super-journal"), it takes pages from a `-wal`, and it opens a pipe
of such a name and waits. These files are therefore looked at first. A `-journal` is left to SQLite
only if it names no other file, and if nobody else can change the folder; so is a `-wal`. Where
others can write, a database is used only as long as nothing lies beside it.

On every connection, values are of limited size, triggers and extensions are off, the schema of the
file is not trusted, and no other file is attached.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # the package `sqlite3` imports `datetime`, for adapters, too
import _struct as struct
import os
import stat
from contextlib import contextmanager, suppress

from taupy.errors import DatabaseError
from taupy.state import changers
from taupy.state.folder import kind
from taupy.state.pauses import pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    _Limits = tuple[tuple[int, int], ...]

LONGEST_VALUE = 64 << 20
"""Maximum size of a text, blob or row, in bytes."""

REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})
"""SQL functions that load code, or take its address."""

_LIMITS: _Limits = (
    (sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_VALUE),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 20),  # foreign keys count: ON DELETE CASCADE
)
_SWITCHES = (
    ("SQLITE_DBCONFIG_DEFENSIVE", True),
    ("SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER", False),
    ("SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION", False),
    ("SQLITE_DBCONFIG_ENABLE_TRIGGER", False),
    ("SQLITE_DBCONFIG_TRUSTED_SCHEMA", False),
)
_SUPER_JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""The last bytes of a journal that names another file; every journal begins with them."""

_PENDING_BYTE, _LOCK_BYTES = 0x40000000, 512
_RESERVED_BYTE = 0x40000001
_GET_LOCK = 36  # F_OFD_GETLK
_UNRESERVED = b"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_QUOTED = {byte: f"%{byte:02X}" for byte in range(256) if byte not in _UNRESERVED}
"""As `urllib.parse.quote`, which takes long to import."""
_LOCK = struct.Struct("hhqqi4x")  # struct flock: l_type, l_whence, l_start, l_len, l_pid

LOCKED = "is locked by another program; try again later"

_trusts_folders = False


class Busy(DatabaseError):
    """Another process writes to the database."""


class Limited(DatabaseError):
    """This process may not make the database as large as it has to be; another one may."""


def trust_folders() -> None:
    """From now on, this process uses a journal or log in a folder where others can write."""
    global _trusts_folders
    _trusts_folders = True


@contextmanager
def trusting_folders(trusts: bool) -> Iterator[None]:
    """As after `trust_folders` while active, if `trusts`."""
    global _trusts_folders
    before = _trusts_folders
    _trusts_folders = before or trusts
    try:
        yield
    finally:
        _trusts_folders = before


def connect(
    path: str,
    mode: Literal["ro", "rw", "rwc"],
    *,
    patience_s: float,
    is_open_here: bool = False,
    check_same_thread: bool = True,
) -> sqlite3.Connection:
    """A connection to a file, in autocommit mode.

    Args:
        mode: read, write, or write and create.
        patience_s: how long a statement, and a look at the files beside, waits for other writers.
        is_open_here: this process has the file open already. Its locks would be lost if another
            descriptor of the file were closed, so nothing is asked about them.

    Raises:
        DatabaseError: what lies beside the file is not to be used.
        sqlite3.Error: SQLite cannot open it.
    """
    _refuse_link(path)
    if not is_open_here:
        look_beside(os.path.realpath(path), writes=mode != "ro", patience_s=patience_s)
    connection = sqlite3.connect(
        _address(path, mode),
        uri=True,
        timeout=patience_s,
        isolation_level=None,
        check_same_thread=check_same_thread,
    )
    try:
        restrict(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def in_memory() -> sqlite3.Connection:
    """A connection to a new, empty database that is no file, in autocommit mode."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    restrict(connection)
    return connection


def restrict(connection: sqlite3.Connection) -> None:
    """Set limits and switches of a connection, before its first statement."""
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    set_switch: Any = getattr(connection, "setconfig", None)
    for name, value in _SWITCHES if set_switch else ():  # Python 3.11 has none
        with suppress(sqlite3.OperationalError):  # this SQLite was built without it
            set_switch(getattr(sqlite3, name), value)
    connection.set_authorizer(_authorize)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def attach(connection: sqlite3.Connection, path: str, name: str, patience_s: float) -> None:
    """Attach a file under a name, for reading.

    Raises:
        DatabaseError, sqlite3.Error: as for `connect`.
    """
    _refuse_link(path)
    look_beside(os.path.realpath(path), writes=False, patience_s=patience_s)
    with attaching(connection, 10):
        connection.execute(f"ATTACH ? AS {name}", (_address(path, "ro"),))


def _address(path: str, mode: str) -> str:
    name = os.fsencode(os.path.realpath(path)).decode("latin-1").translate(_QUOTED)
    return f"file://{name}?mode={mode}"


@contextmanager
def attaching(connection: sqlite3.Connection, files: int) -> Iterator[None]:
    """While active, this many files may be attached, by `merge` or by VACUUM."""
    connection.set_authorizer(None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, files)
    try:
        yield
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorize)


@contextmanager
def long_values(connection: sqlite3.Connection) -> Iterator[None]:
    """While active, a value may have up to a thousand million bytes, SQLite's own limit.

    Raises:
        DatabaseError: it would have more.
    """
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000)
    try:
        yield
    except sqlite3.DataError as error:
        raise DatabaseError(
            "these are too many values for one answer of SQLite (a column is longer than 1 GB); "
            "ask for fewer trials at once"
        ) from error
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def _authorize(
    action: int, first: str | None, second: str | None, database: str | None, inside: str | None
) -> int:
    if action == sqlite3.SQLITE_ATTACH:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


# --- what lies beside a database -----------------------------------------------


def look_beside(path: str, *, writes: bool, patience_s: float) -> None:
    """Look at what SQLite would find beside a database; waits for a writer that is at work.

    Args:
        path: without symbolic links.
        writes: the database will be opened for writing.

    Raises:
        DatabaseError: something that is no file has one of the names, or what lies there is not
            to be used.
    """
    seen: object = None
    for _ in pauses(patience_s, 0.02):
        if not (beside := _beside(path)):
            return
        journal = f"{path}-journal"
        if journal in beside and _names_another(journal):
            raise DatabaseError(
                f"{journal} names another file, which SQLite would delete: it comes from a "
                "transaction over several databases, or from elsewhere; if you do not know it, "
                "move it away"
            )
        why = "" if _trusts_folders else _others(path, beside)
        if not why:
            return
        is_at_work = set(beside) == {journal} and _is_being_written(path)
        if is_at_work and not writes:
            return  # such a journal is not rolled back
        if is_at_work or (set(beside) == {journal} and beside != seen):
            seen = beside
            continue
        raise DatabaseError(_left_there(next(iter(beside)), why))
    raise Busy(f"{path} {LOCKED}")


def refuse_journal(path: str) -> None:
    """Refuse to roll back a journal that a reader has found, wherever it came from since the look.

    Raises:
        DatabaseError: others can change what lies there.
    """
    beside = _beside(path)
    if beside and not _trusts_folders and (why := _others(path, beside)):
        raise DatabaseError(_left_there(next(iter(beside)), why))


def _left_there(beside: str, why: str) -> str:
    """What is wrong with a file left beside a database."""
    try:
        owner = changers.name_of(os.lstat(beside).st_uid)
    except OSError:
        owner = "another user"
    return (
        f"{beside} ({owner}'s) would change the database, and others than you could have put it "
        f"there ({why}): ask who uses the database, move the file away, or say --trust-folder"
    )


def _beside(path: str) -> dict[str, tuple[int, int, int]]:
    """The files beside a database, each with numbers that tell it from a later one.

    Raises:
        DatabaseError: one is no regular file.
    """
    files = {}
    for suffix in ("-journal", "-wal", "-shm"):
        name = path + suffix
        try:
            status = os.lstat(name)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise DatabaseError(
                f"{name} is {kind(status.st_mode)}, where SQLite would look for a file of its own; "
                "remove it, or name another database"
            )
        files[name] = (status.st_ino, status.st_ctime_ns, status.st_size)
    return files


def _others(path: str, beside: dict[str, tuple[int, int, int]]) -> str:
    """Who else can change the database, its folder, or a file beside it; "" if nobody can."""
    for place in (os.path.dirname(path), path, *beside):
        if why := changers.others(place):
            return why
    return ""


def _refuse_link(path: str) -> None:
    """Refuse another user's link, which could lead to any of this user's files."""
    if why := changers.link_of_another(path):
        raise DatabaseError(f"{path} is {why}")


def _names_another(journal: str) -> bool:
    """Whether a journal names a file that SQLite would delete after rolling it back."""
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, 8, max(size - 8, 0)) == _SUPER_JOURNAL
    finally:
        os.close(descriptor)


def _is_being_written(path: str) -> bool:
    """Whether another process holds SQLite's lock for writing."""
    return _holder(path, _RESERVED_BYTE, 1) is not None


def _holder(path: str, first: int, count: int) -> int | None:
    """As `holder`, for a lock on these bytes."""
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        lock = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
        kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(descriptor, _GET_LOCK, lock))
        return None if kind == fcntl.F_UNLCK else max(pid, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def holder(path: str) -> int | None:
    """The process id of one that holds a lock of the database, 0 if it cannot be seen from here;
    None if none does. Nothing of this process may have the file open."""
    return _holder(os.path.realpath(path), _PENDING_BYTE, _LOCK_BYTES)
