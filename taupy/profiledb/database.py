"""The database file: open, create, and manage trials.

`writer.py` writes the contents of a trial, `query.py` reads them; `files.py` rejects files that
are not trial databases. Writers use a rollback journal, which also works on network file systems,
and one transaction per trial.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import math
import os
import time
from _weakrefset import WeakSet  # `weakref` has more to import
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import wraps

from taupy.errors import DatabaseError, NoSuchTrial, note
from taupy.escaping import visible
from taupy.model.rows import TrialRow
from taupy.profiledb import migrations
from taupy.profiledb.files import (
    DAMAGED,
    checked_version,
    file_identity,
    look,
    patience_s,
    reading_connection,
    refusing,
    wait_for_locks,
    writing_connection,
)
from taupy.profiledb.reading import Reading
from taupy.profiledb.tables import by_sqlite_utils
from taupy.profiledb.text import storable
from taupy.state.sqlite import attaching, long_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

    _Arguments = ParamSpec("_Arguments")
    _Answer = TypeVar("_Answer")


_FEW = 500
"""Rows whose columns are tuples."""
_INFINITE = {math.inf, -math.inf}
_LARGE = 1_000_000
"""Characters of a column from which on NumPy, whose import takes a tenth of a second, pays off."""
_NO_NUMBER = "no number"
_EXACTLY = "CASE typeof({0}) WHEN 'integer' THEN {0} ELSE taupy_exactly({0}) END"

_TRIALS = """
    SELECT trial.id, trial.uuid, application.name, experiment.name, trial.name,
           trial.started_at, trial.duration_ns, trial.exit_code, trial.state, trial.source
      FROM trial
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
     WHERE {condition}
     ORDER BY trial.id
"""

_SNAPSHOTS = "SELECT trial_id FROM metadata WHERE name = 'taupy.snapshot' AND node IS NULL"

_LAST_RUN = """
    SELECT max(other.id) FROM trial AS other
     WHERE NOT EXISTS (SELECT 1 FROM metadata AS fact
                        WHERE fact.trial_id = other.id AND fact.name = 'taupy.snapshot'
                          AND fact.node IS NULL)
"""

_TAGS = """
    SELECT tag.trial_id, tag.name FROM tag
     WHERE tag.trial_id IN (SELECT trial.id FROM trial WHERE {condition})
     ORDER BY tag.trial_id, tag.name
"""

# By table, in this order: rows to delete after the trial's own and before its dependent rows.
_ORPHANS = (
    (
        "callpath",
        """id IN (SELECT callpath_id FROM call WHERE trial_id = :trial)
           AND NOT EXISTS (SELECT 1 FROM trial CROSS JOIN call
                            WHERE call.trial_id = trial.id AND call.callpath_id = callpath.id)""",
    ),
    (
        "timer",
        """id IN (SELECT timer_id FROM trial_timer WHERE trial_id = :trial)
           AND NOT EXISTS (SELECT 1 FROM trial CROSS JOIN trial_timer
                            WHERE trial_timer.trial_id = trial.id
                              AND trial_timer.timer_id = timer.id)""",
    ),
    ("timer_group", "timer_id NOT IN (SELECT id FROM timer)"),
)
_ORPHANS_AFTERWARDS = (
    ("device_fact", "device_id NOT IN (SELECT id FROM device)"),
    (
        "user_event",
        "id NOT IN (SELECT user_event_id FROM user_event_value)"
        " AND id NOT IN (SELECT user_event_id FROM sample)",
    ),
    ("metric", "id NOT IN (SELECT metric_id FROM thread_metric)"),
    ("experiment", "id NOT IN (SELECT experiment_id FROM trial)"),
    ("application", "id NOT IN (SELECT application_id FROM experiment)"),
)

NOTE = "Note"
"""The metadata that hold a trial's note."""


def _exactly(value: object) -> str | None:
    """A number that is no integer as text; SQLite writes 15 digits of it."""
    return value if value is None else repr(value) if type(value) is float else _NO_NUMBER


def _number(cell: str) -> float | str | None:
    """A cell of JSON; the module for it is not imported for these few forms."""
    if cell[0] != '"':
        return None if cell == "null" else int(cell)
    return cell[1:-1] if cell == f'"{_NO_NUMBER}"' else float(cell[1:-1])


def _cells(text: str) -> Sequence[Any]:
    """The cells of a column; an array if all are integers."""
    cells = text[1:-1]
    if '"' in cells:
        return [*map(_number, cells.split(","))]
    if "n" in cells:
        return [None if cell == "null" else int(cell) for cell in cells.split(",")]
    if len(cells) < _LARGE:
        return array("q", map(int, cells.split(",")))
    import numpy as np

    return array("q", np.fromstring(cells, "i8", sep=",").tobytes())


class ProfileDB:
    """One open trial database.

    Attributes:
        path: as it was given.
        connection: in autocommit mode; `transaction` begins and ends transactions.
        readonly: no write through this object is possible.
    """

    _open_here: ClassVar[WeakSet[ProfileDB]] = WeakSet()  # in this process

    def __init__(self, path: str, connection: sqlite3.Connection, *, readonly: bool) -> None:
        self.path = path
        self.connection = connection
        self.readonly = readonly
        self._file = file_identity(path)
        connection.create_function("taupy_exactly", 1, _exactly, deterministic=True)
        ProfileDB._open_here.add(self)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, create: bool = False, readonly: bool = True
    ) -> ProfileDB:
        """Open a trial database, by default for reading.

        A file with an older schema is upgraded by the first who writes, which keeps a copy; for
        reading it stays as it is.

        Args:
            path: a file name; any characters are allowed, since it is not a URI.
            create: create the database if it does not exist; implies writing.
            readonly: False to write.

        Raises:
            DatabaseError: it is not a trial database, or cannot be opened in this way.
        """
        name = os.fsdecode(path)
        if tuple(map(int, sqlite3.sqlite_version.split("."))) < (3, 37):
            raise DatabaseError(
                f"SQLite {sqlite3.sqlite_version} is too old for strict tables; "
                "use a Python with SQLite 3.37 or newer"
            )
        held = {other._file for other in cls._open_here}
        version = look(name, create=create, held=held)
        if readonly and not create:
            return cls(name, reading_connection(name, is_open_here=version < 0), readonly=True)
        connection = writing_connection(name, create=create, is_open_here=version < 0)
        database = cls(name, connection, readonly=False)
        try:
            database._bring_up_to_date()
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close the file; closing twice does no harm."""
        ProfileDB._open_here.discard(self)
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: everything is stored, or nothing.

        Waits for other writers, up to `patience_s()` in total. A nested transaction is part of the
        outer one.

        Raises:
            DatabaseError: the file cannot be written now; it is unchanged.
        """
        if self.readonly:
            raise DatabaseError(f"{self.path} is open for reading only")
        connection = self.connection
        if connection.in_transaction:
            yield connection
            return
        with refusing(self.path):
            began = time.monotonic()
            wait_for_locks(connection, patience_s())
            connection.execute("BEGIN IMMEDIATE")
            left = max(patience_s() - (time.monotonic() - began), 1.0)
            try:
                # A full cache requests the exclusive lock at each page; it must not wait
                # each time, because the commit waits once.
                wait_for_locks(connection, 0)
                yield connection
                wait_for_locks(connection, left)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def tables(self) -> Iterator[Any]:
        """One transaction, as a `sqlite_utils.Database`: for small changes, and none of values.

        Raises:
            DatabaseError: the file cannot be written now; it is unchanged.
        """
        with self.transaction() as connection:
            yield by_sqlite_utils(connection)

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """All rows of a query, as tuples."""
        with refusing(self.path):
            return self._selected(sql, parameters).fetchall()

    def stream(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> Iterator[Any]:
        """The rows one by one, for queries with millions of rows."""
        with refusing(self.path):
            for row in self._selected(sql, parameters):  # noqa: UP028 - closes nothing
                yield row

    def _selected(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object]
    ) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    def columns(self, reading: Reading) -> list[Sequence[Any]]:
        """The result of a statement over values, column by column; empty if there are no rows. Of
        many rows, a column of integers is an array.

        SQLite writes each column as one text: reading that takes half the time of fetching rows.
        """
        names = [f"c{number}" for number in range(reading.columns)]
        texts = [
            f"json_group_array({name if number < reading.integers else _EXACTLY.format(name)})"
            for number, name in enumerate(names)
        ]
        answer = f"WITH answer ({', '.join(names)}) AS ({reading.sql})"
        sql = f"{answer}\nSELECT count(*), {', '.join(texts)} FROM answer"
        with refusing(self.path), long_values(self.connection):
            ((rows, *columns),) = self._selected(sql, {}).fetchall()
        if rows < _FEW:
            return [tuple(_cells(text)) for text in columns] if rows else []
        return list(map(_cells, columns))

    def file_for(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> str:
        """The file on which SQLite can run this user's statement."""
        return self.path

    def trials(self) -> list[TrialRow]:
        """All trials, in the order they were stored."""
        return self._trials("1", ())

    def trial(self, trial_id: int) -> TrialRow:
        """The trial with this id.

        Raises:
            NoSuchTrial: it does not exist.
        """
        trials = self._trials("trial.id = ?", (min(trial_id, 2**63 - 1),))
        if not trials:
            raise NoSuchTrial(f"{self.path} has no trial {trial_id}")
        return trials[0]

    def latest(self) -> TrialRow | None:
        """The run stored last, None if there is none: not a snapshot that it took, unless there is
        nothing else."""
        trials = self._trials(f"trial.id = ({_LAST_RUN})", ())
        trials = trials or self._trials("trial.id = (SELECT max(id) FROM trial)", ())
        return trials[0] if trials else None

    def snapshots(self) -> set[int]:
        """The ids of trials that are snapshots, taken while their program ran."""
        return {id for (id,) in self.rows(_SNAPSHOTS)}

    def _trials(self, condition: str, parameters: Sequence[object]) -> list[TrialRow]:
        tags: dict[int, list[str]] = {}
        for trial_id, name in self.rows(_TAGS.format(condition=condition), parameters):
            tags.setdefault(trial_id, []).append(name)
        rows = self.rows(_TRIALS.format(condition=condition), parameters)
        return [TrialRow._make((*row, tuple(tags.get(row[0], ())))) for row in rows]

    def rename(self, trial_id: int, name: str) -> None:
        """Rename a trial."""
        self.trial(trial_id)
        with self.tables() as tables:
            tables["trial"].update(trial_id, {"name": storable(name)})

    def tag(self, trial_id: int, name: str) -> None:
        """Add a tag to a trial, unless it already has the tag."""
        self.trial(trial_id)
        with self.tables() as tables:
            tables["tag"].insert({"trial_id": trial_id, "name": storable(name)}, replace=True)

    def untag(self, trial_id: int, name: str) -> None:
        """Remove a tag from a trial.

        Raises:
            NoSuchTrial: the trial does not have that tag.
        """
        tags = self.trial(trial_id).tags
        if storable(name) not in tags:
            has = ", ".join(map(visible, tags)) or "none"
            raise NoSuchTrial(f"trial {trial_id} has no tag '{name}' (tags: {has})")
        with self.tables() as tables:
            tables["tag"].delete((trial_id, storable(name)))

    def set_metadata(self, trial_id: int, name: str, value: str) -> str:
        """Set a fact of a whole trial, or remove it if the value is empty; returns the old value.

        Raises:
            DatabaseError: this is a store, where a trial's metadata are those that were pushed.
        """
        self.trial(trial_id)
        where = "trial_id = ? AND name = ? AND node IS NULL"
        fact = [trial_id, storable(name)]
        with self.tables() as tables:
            metadata = tables["metadata"]
            old = [row["value"] for row in metadata.rows_where(where, fact)]
            metadata.delete_where(where, fact)
            if value:
                metadata.insert(
                    {"trial_id": trial_id, "name": storable(name), "value": storable(value)}
                )
        return "".join(old)

    def delete(self, trial_id: int) -> None:
        """Delete a trial, and the timers and call paths that no other trial uses."""
        self.trial(trial_id)
        trial = {"trial": trial_id}
        with self.tables() as tables:
            tables["trial"].delete(trial_id)
            for name, unused in _ORPHANS:
                tables[name].delete_where(unused, trial if ":trial" in unused else None)
            for table in tables.tables:
                # Before version 4, it cannot quote a name with ], which only a user's table has.
                if "]" not in table.name and "trial_id" in table.columns_dict:
                    table.delete_where("trial_id = :trial", trial)
            for name, unused in _ORPHANS_AFTERWARDS:
                tables[name].delete_where(unused)

    def compact(self) -> None:
        """Return the space of deleted trials to the file system."""
        with refusing(self.path):
            wait_for_locks(self.connection, patience_s())
            with attaching(self.connection, 1):
                self.connection.execute("VACUUM")

    def verify(self) -> list[str]:
        """SQLite's own complaints about the file; an empty list if there are none."""
        faults = [text for (text,) in self.rows("PRAGMA integrity_check") if text != "ok"]
        for table, row, parent, _ in self.rows("PRAGMA foreign_key_check"):
            faults.append(f"{table} row {row} refers to a missing row of {parent}")
        return faults

    def _bring_up_to_date(self) -> None:
        with refusing(self.path):
            version = checked_version(self.connection, self.path)
            if version >= migrations.SCHEMA_VERSION:
                return
            kept = ""
            try:
                with self.transaction() as connection:
                    # Another process may have upgraded it in the meantime.
                    version = checked_version(connection, self.path)
                    if 0 < version < migrations.SCHEMA_VERSION:
                        kept = self._keep(version)
                    migrations.migrate(connection)
            except BaseException:
                if kept:
                    os.unlink(kept)
                raise
            if kept:
                note(
                    f"{self.path} had the older schema {version} and now has "
                    f"{migrations.SCHEMA_VERSION}, which older versions of taupy cannot read; "
                    f"as it was, it is kept in {kept}"
                )

    def _keep(self, version: int) -> str:
        """Copy the file as it is beside it; returns the copy's name."""
        beginning, ending = os.path.splitext(self.path)
        mode = os.stat(self.path).st_mode & 0o777
        for number in range(1, 1000):
            suffix = f"-{number}" if number > 1 else ""
            kept = f"{beginning}.schema{version}{suffix}{ending}"
            try:
                os.close(os.open(kept, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise DatabaseError(
                    f"{self.path} has the older schema {version}, and no copy can be kept before "
                    f"it is upgraded to be written ({error.strerror}: {kept}); name another "
                    "database with --db FILE"
                ) from error
        try:
            with refusing(kept):
                # Not from our connection, which holds the lock for writing.
                stored = reading_connection(self.path, is_open_here=True)
                copy = writing_connection(kept, create=False)
                with closing(stored), closing(copy):
                    stored.backup(copy)
        except BaseException:
            os.unlink(kept)
            raise
        return kept


def refuse_infinite(cells: Iterable[object]) -> None:
    """Check that no number is infinite: no measurement is, but a column of integers may hold one.

    Raises:
        ValueError: one is.
    """
    if not _INFINITE.isdisjoint(cells):
        raise ValueError("a number is infinite")


def of_a_sound_file(
    question: Callable[Concatenate[ProfileDB, _Arguments], _Answer],
) -> Callable[Concatenate[ProfileDB, _Arguments], _Answer]:
    """Report inconsistent rows as a damaged file.

    A row may refer to a missing one, lack a number where one is required, or have an infinite one.
    """

    @wraps(question)
    def checked(db: ProfileDB, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        try:
            return question(db, *args, **named)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            what = visible(f"{type(error).__name__}: {error}")
            raise DatabaseError(f"{db.path} {DAMAGED} ({what})") from error

    return checked
