"""The catalogue of a store: tables in the schema `taupy` of a PostgreSQL database.

They are derived from taupy's schema (`layout.py`), plus the store's own: `store` (its settings),
`trial` (with the names of application and experiment), `file` (the manifest: a file exists for
readers once its row is committed) and `project` (which roles see an application).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taupy.errors import DatabaseError
from taupy.escaping import visible
from taupy.profiledb.address import checked
from taupy.profiledb.migrations import SCHEMA_VERSION
from taupy.state.sqlite import LONGEST_VALUE
from taupy.store import roles
from taupy.store.files import Folder
from taupy.store.layout import StoredTable, physical, tables
from taupy.store.manifest import is_of
from taupy.store.trusted import trusted

if TYPE_CHECKING:
    import psycopg

OLDEST_SERVER = 150000
"""PostgreSQL 15, the first in which NULLs in a key can be treated as equal."""

_TYPES = {"INTEGER": "bigint", "REAL": "double precision", "TEXT": 'text COLLATE "C"'}
_FORM = 6
"""Version of the store's own tables and files. 2: a trial lists its metrics with non-integer
values; 3: a file may hold the rows of several trials; 4: projects; 5: what belongs to no
trial says who pushed it, and names are checked; 6: timers say who pushed them, and
rows are checked that every client would have to copy."""

_TO_FORM_4 = """
ALTER TABLE trial ADD COLUMN IF NOT EXISTS real_metrics bigint[];
ALTER TABLE file DROP CONSTRAINT file_pkey, ADD PRIMARY KEY (name, trial_id);
CREATE TABLE IF NOT EXISTS project (
    application text COLLATE "C",
    role text,
    PRIMARY KEY (application, role)
);
"""

_PATIENCE = "10min"
"""How long a push waits for checks, joins and deletions."""

_PUSHING = 0x54415550  # advisory lock: shared by pushes, exclusive for checks

_OWN_TABLES = """
CREATE TABLE store (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE trial (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid text NOT NULL UNIQUE,
    application text COLLATE "C" NOT NULL,
    experiment text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    started_at text NOT NULL,
    duration_ns bigint NOT NULL,
    exit_code bigint,
    state text NOT NULL,
    source text NOT NULL,
    content text NOT NULL,
    real_metrics bigint[],
    pushed_at timestamptz NOT NULL DEFAULT now(),
    pushed_by text NOT NULL DEFAULT current_user,
    UNIQUE (application, experiment, name)
);
CREATE TABLE file (
    name text,
    trial_id bigint NOT NULL REFERENCES trial ON DELETE CASCADE,
    holds text NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    PRIMARY KEY (name, trial_id)
);
CREATE INDEX file_by_trial ON file (trial_id);
"""


_TO_FORM_5 = """
ALTER TABLE trial DROP CONSTRAINT IF EXISTS uuid_is_one;
ALTER TABLE trial ADD CONSTRAINT uuid_is_one
    CHECK (uuid ~ '^[0-9A-Za-z][0-9A-Za-z-]{7,99}$') NOT VALID;
ALTER TABLE file DROP CONSTRAINT IF EXISTS name_is_below;
ALTER TABLE file ADD CONSTRAINT name_is_below CHECK (name ~
    '^app=[A-Za-z0-9_.~%-]*/month=[A-Za-z0-9_.~%-]*/[0-9A-Za-z-]+[.][a-z_]+[.][0-9a-f]{8}[.]parquet$'
) NOT VALID;
"""

_TO_FORM_6 = """
ALTER TABLE trial DROP CONSTRAINT IF EXISTS state_is_known;
ALTER TABLE trial ADD CONSTRAINT state_is_known
    CHECK (state IN ('complete', 'incomplete')) NOT VALID;
"""

_TEXT_BYTES = """
SELECT table_name, string_agg(format('coalesce(octet_length(%I), 0)', column_name), ' + ')
  FROM information_schema.columns
 WHERE (table_schema, data_type) = ('taupy', 'text') GROUP BY 1
"""

_LONGEST_ROW = LONGEST_VALUE - 4096
"""How many bytes the texts of a row may have, so that SQLite can hold it."""


class Unfit(DatabaseError):
    """PostgreSQL cannot hold a value, such as a name of more than some 2,700 bytes in an index.

    Trying again does not help, and other rows are not affected.
    """


class Catalogue:
    """A connection to a store's catalogue.

    Attributes:
        address: as it was given; contains no password.
        connection: psycopg's, in autocommit mode.
    """

    def __init__(self, address: str) -> None:
        self.address = checked(address)
        psycopg = _psycopg()
        with self.refusing():
            self.connection = psycopg.connect(
                address, autocommit=True, connect_timeout=10, application_name="taupy"
            )
            self.connection.execute("SET search_path TO taupy")

    @classmethod
    def open(cls, address: str) -> Catalogue:
        """Open the catalogue of an existing store; missing tables and columns are added.

        Raises:
            UsageError: the address is invalid, or contains a password.
            DatabaseError: it cannot be reached, is not a store, or was written by a newer taupy.
        """
        catalogue = cls(address)
        try:
            catalogue._check_version()
        except BaseException:
            catalogue.close()
            raise
        return catalogue

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    @property
    def is_lost(self) -> bool:
        """Whether the connection is lost, so that the last transaction may or may not have
        been committed."""
        return bool(self.connection.broken or self.connection.closed)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into one-line messages."""
        psycopg = _psycopg()
        try:
            yield
        except (psycopg.errors.ProgramLimitExceeded, psycopg.DataError) as error:
            what = visible(error.diag.message_primary or type(error).__name__)
            raise Unfit(f"PostgreSQL cannot hold it: {what}") from error
        except psycopg.Error as error:
            raise DatabaseError(f"{self.address}: {_reason(error)}") from error

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """One transaction: everything is stored, or nothing."""
        with self.refusing(), self.connection.transaction():
            yield self.connection

    @contextmanager
    def pushing(self) -> Iterator[None]:
        """While active, no check treats files missing from the manifest as orphans.

        Raises:
            DatabaseError: another process holds the lock for long; the message names its user.
        """
        self.rows("SELECT set_config('lock_timeout', %s, false)", (_PATIENCE,))
        try:
            self.rows("SELECT pg_advisory_lock_shared(%s)", (_PUSHING,))
        except DatabaseError as error:
            if self.is_lost or not (holders := self._holders()):
                raise
            raise DatabaseError(
                f"{self.address}: {holders} has locked the store against pushes; try again later"
            ) from error
        self.rows("SELECT set_config('lock_timeout', '0', false)")
        try:
            yield
        finally:
            if not self.connection.closed:
                self.rows("SELECT pg_advisory_unlock_shared(%s)", (_PUSHING,))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While active, no push can run.

        Raises:
            DatabaseError: a push is in progress.
        """
        (free,) = self.row("SELECT pg_try_advisory_lock(%s)", (_PUSHING,))
        if not free:
            raise DatabaseError(f"{self.address}: trials are being pushed; try again later")
        try:
            yield
        finally:
            self.rows("SELECT pg_advisory_unlock(%s)", (_PUSHING,))

    def _holders(self) -> str:
        """The users and processes that hold the lock exclusively."""
        rows = self.rows(
            "SELECT usename, pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE locktype = 'advisory' AND objid = %s AND granted AND mode = 'ExclusiveLock'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (_PUSHING,),
        )
        return ", ".join(f"{user} (process {pid})" for user, pid in rows)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """All rows of a query, as tuples."""
        with self.refusing():
            rows: list[Any] = self.connection.execute(sql, parameters).fetchall()
            return rows

    def row(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """The first row of a query, which must have one."""
        return self.rows(sql, parameters)[0]

    def setting(self, name: str) -> str:
        """A setting of the store: `id`, `files` or `schema`."""
        return str(self.row("SELECT value FROM store WHERE name = %s", (name,))[0])

    def names_taken(self, application: str, experiment: str, uuid: str) -> set[str]:
        """The names of an experiment's other trials; other processes cannot change them until
        this transaction ends."""
        self.connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            (json.dumps([application, experiment]),),
        )
        rows = self.connection.execute(
            "SELECT name FROM trial WHERE (application, experiment) = (%s, %s) AND uuid <> %s",
            (application, experiment, uuid),
        )
        return {name for (name,) in rows}

    # --- the tables ---------------------------------------------------------------

    def create(self, settings: dict[str, str]) -> str:
        """Create the schema `taupy` with its tables.

        Returns:
            The prefix of its roles' names; "" if this user may not create roles.

        Raises:
            DatabaseError: it exists already, or this user may not create it.
        """
        (version,) = self.row("SELECT current_setting('server_version_num')::int")
        if version < OLDEST_SERVER:
            raise DatabaseError(
                f"{self.address} is PostgreSQL {version // 10000}; a store needs 15 or newer"
            )
        if self.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'taupy'"):
            raise DatabaseError(f"{self.address} has a store (or a schema 'taupy') already")
        with self.transaction() as connection:
            prefix = roles.make(connection)
            whose = f" AUTHORIZATION {roles.owner_of(prefix)}" if prefix else ""
            connection.execute(f"CREATE SCHEMA taupy{whose}")
            if prefix:
                connection.execute(f"SET LOCAL ROLE {roles.owner_of(prefix)}")
            connection.execute(_OWN_TABLES)
            for name, value in {**settings, "roles": prefix}.items():
                connection.execute("INSERT INTO store VALUES (%s, %s)", (name, value))
            self._complete(connection, prefix)
        return prefix

    def _check_version(self) -> None:
        if not self.rows(
            "SELECT 1 FROM pg_tables WHERE (schemaname, tablename) = ('taupy', 'store')"
        ):
            raise DatabaseError(
                f"{self.address} has no store; make one with: "
                "taupy store create --db ADDRESS --files FOLDER"
            )
        if not self.row("SELECT has_schema_privilege('taupy', 'USAGE')")[0]:
            raise DatabaseError(
                f"{self.address}: this user may not read the store; its owner can GRANT a role "
                "(docs/store.md)"
            )
        settings = dict(self.rows("SELECT name, value FROM store"))
        version = int(settings["schema"]), int(settings.get("form", 1))
        current = SCHEMA_VERSION, _FORM
        if any(theirs > ours for theirs, ours in zip(version, current, strict=True)):
            raise DatabaseError(
                f"{self.address} was written by a newer taupy (schema {version[0]}.{version[1]}, "
                f"this one knows {SCHEMA_VERSION}.{_FORM}); upgrade taupy"
            )
        if version != current:
            prefix = settings.get("roles", "")
            with self.transaction() as connection:
                if prefix:
                    connection.execute(f"SET LOCAL ROLE {roles.owner_of(prefix)}")
                self._complete(connection, prefix)

    def _complete(self, connection: psycopg.Connection[Any], prefix: str) -> None:
        """Add the tables and columns that this taupy's schema has and the store lacks."""
        present: dict[str, set[str]] = {}
        for table, column in connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'taupy'"
        ):
            present.setdefault(table, set()).add(column)
        for table in tables().values():
            if table.in_files:
                continue
            wanted = {name: _TYPES[kind] for name, kind in physical(table)}
            if table.name not in present:
                connection.execute(_definition(table, wanted))
                continue
            for name in wanted.keys() - present[table.name]:
                connection.execute(f'ALTER TABLE {table.name} ADD COLUMN "{name}" {wanted[name]}')
        connection.execute(_TO_FORM_4)
        connection.execute(_TO_FORM_5)
        connection.execute(_TO_FORM_6)
        for table in tables().values():
            alone = not (table.in_files or table.of_a_trial or table.shared)
            if alone or table.name == "timer":
                connection.execute(
                    f"ALTER TABLE {table.name}"
                    " ADD COLUMN IF NOT EXISTS pushed_by text DEFAULT current_user"
                )
        for name, size in connection.execute(_TEXT_BYTES).fetchall():
            connection.execute(
                f"ALTER TABLE {name} DROP CONSTRAINT IF EXISTS row_is_bounded,"
                f" ADD CONSTRAINT row_is_bounded CHECK ({size} <= {_LONGEST_ROW}) NOT VALID"
            )
        if prefix:
            roles.secure(connection, prefix)
        for setting, value in (("schema", SCHEMA_VERSION), ("form", _FORM)):
            connection.execute(
                "INSERT INTO store VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (setting, str(value)),
            )

    # --- rows ---------------------------------------------------------------------

    def insert(
        self,
        table: StoredTable,
        rows: Iterable[Sequence[Any]],
        *,
        where: str = "true",
        tell: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Copy rows into a table, skipping those whose keys exist already.

        Args:
            rows: with the columns of `physical(table)`, in the order of the key, so that two
                pushes of the same timers wait for each other instead of deadlocking.
            where: only rows of which this is true.
            tell: return the keys of the rows that were new.
        """
        columns = ", ".join(f'"{name}"' for name, _ in physical(table))
        order = ", ".join(f'"{name}"' for name in table.key)
        with self.connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE arriving (LIKE {table.name}) ON COMMIT DROP")
            with cursor.copy(f"COPY arriving ({columns}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([_without_nul(cell) for cell in row])
            cursor.execute(
                f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM arriving"
                f" WHERE {where} ORDER BY {order} ON CONFLICT DO NOTHING"
                + (f" RETURNING {order}" if tell else "")
            )
            inserted = cursor.fetchall() if tell else []
            cursor.execute("DROP TABLE arriving")
        return inserted

    def select(self, table: StoredTable, where: str, parameters: Sequence[object]) -> Iterator[Any]:
        """The rows of a table, with the columns of `physical(table)`, in the order of its key."""
        columns = ", ".join(f'"{name}"' for name, _ in physical(table))
        order = ", ".join(f'"{name}"' for name in table.key)
        sql = f"SELECT {columns} FROM {table.name} WHERE {where} ORDER BY {order}"
        with self.refusing(), self.connection.cursor() as cursor:
            yield from cursor.stream(sql, parameters, size=1000)


@dataclass(frozen=True, slots=True)
class Store:
    """A catalogue and the folder of its files."""

    catalogue: Catalogue
    folder: Folder

    @classmethod
    @contextmanager
    def open(cls, address: str, files: str = "") -> Iterator[Store]:
        """Open an existing store, checking that catalogue and folder belong together.

        Args:
            files: where its files are, if the user who asks has checked that already.

        Raises:
            DatabaseError: there is no such store, or its files are not accessible here.
        """
        with Catalogue.open(address) as catalogue:
            id = catalogue.setting("id")
            place = catalogue.setting("files")
            folder = Folder(place if place == files else trusted(id, place), id)
            folder.check_mark(id)
            try:
                yield cls(catalogue, folder)
            finally:
                folder.close()

    def remove_unused(self, files: Iterable[tuple[str, str, str, str]]) -> None:
        """Delete files that no trial uses any more.

        Args:
            files: name, table, and the uuid and application of the trial that had it. What is not
                a file of that trial is left alone.
        """
        unused = {name for name, *of_trial in files if is_of(name, *of_trial)}
        rows = self.catalogue.rows("SELECT name FROM file WHERE name = ANY(%s)", ([*unused],))
        self.folder.remove(unused - {name for (name,) in rows})

    def lost_files(self, trial: int) -> list[str]:
        """The trial's files that are missing, or whose size differs from what was written."""
        rows = self.catalogue.rows(
            "SELECT bytes, file.name, holds, uuid, application FROM file"
            " JOIN trial ON trial.id = file.trial_id WHERE trial_id = %s",
            (trial,),
        )
        return [
            name
            for size, name, *of_trial in rows
            if not is_of(name, *of_trial) or self.folder.size(name) != size
        ]


def _definition(table: StoredTable, columns: dict[str, str]) -> str:
    lines = [f'"{name}" {kind}' for name, kind in columns.items()]
    if table.of_a_trial:
        lines.append("FOREIGN KEY (trial_id) REFERENCES trial ON DELETE CASCADE")
    lines.append(f"UNIQUE NULLS NOT DISTINCT ({', '.join(table.key)})")
    return f"CREATE TABLE {table.name} ({', '.join(lines)})"


def _without_nul(cell: Any) -> Any:
    """Replace NUL, which PostgreSQL's text cannot hold, by its control picture."""
    return cell.replace("\0", "\N{SYMBOL FOR NULL}") if type(cell) is str and "\0" in cell else cell


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise DatabaseError(
            f"a store needs psycopg ({error}); install it with: pip install 'taupy-profiler[store]'"
        ) from error
    return psycopg


def _reason(error: Exception) -> str:
    return visible(" ".join(str(error).split()) or type(error).__name__)
