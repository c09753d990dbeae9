"""The database file: open, create, and manage trials.

`writer.py` writes the contents of a trial, `query.py` reads them; `files.py` rejects files that
are not trial databases. Writers use a rollback journal, which also works on network file systems,
and one transaction per trial.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar
from weakref import WeakSet

from taupy.errors import DatabaseError, NoSuchTrial
from taupy.escaping import visible
from taupy.model.rows import TrialRow
from taupy.profiledb import migrations
from taupy.profiledb.files import (
    DAMAGED,
    PATIENCE_S,
    checked_version,
    file_identity,
    look,
    reading_connection,
    refusing,
    wait_for_locks,
    writing_connection,
)
from taupy.profiledb.reading import Reading
from taupy.profiledb.text import storable
from taupy.state.sqlite import attaching

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

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

# Run in this order, after the trial's row was deleted and before its dependent rows are.
_ORPHANS = (
    """DELETE FROM callpath
        WHERE id IN (SELECT callpath_id FROM call WHERE trial_id = :trial)
          AND NOT EXISTS (SELECT 1 FROM trial CROSS JOIN call
                           WHERE call.trial_id = trial.id AND call.callpath_id = callpath.id)""",
    """DELETE FROM timer
        WHERE id IN (SELECT timer_id FROM trial_timer WHERE trial_id = :trial)
          AND NOT EXISTS (SELECT 1 FROM trial CROSS JOIN trial_timer
                           WHERE trial_timer.trial_id = trial.id
                             AND trial_timer.timer_id = timer.id)""",
    "DELETE FROM timer_group WHERE timer_id NOT IN (SELECT id FROM timer)",
)
_ORPHANS_AFTERWARDS = (
    "DELETE FROM device_fact WHERE device_id NOT IN (SELECT id FROM device)",
    "DELETE FROM user_event WHERE id NOT IN (SELECT user_event_id FROM user_event_value)"
    " AND id NOT IN (SELECT user_event_id FROM sample)",
    "DELETE FROM metric WHERE id NOT IN (SELECT metric_id FROM thread_metric)",
    "DELETE FROM experiment WHERE id NOT IN (SELECT experiment_id FROM trial)",
    "DELETE FROM application WHERE id NOT IN (SELECT application_id FROM experiment)",
)

_TABLES_OF_A_TRIAL = """
    SELECT m.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
     WHERE m.type = 'table' AND c.name = 'trial_id'
"""


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
        ProfileDB._open_here.add(self)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, create: bool = False, readonly: bool = True
    ) -> ProfileDB:
        """Open a trial database, by default for reading.

        A file with an older schema is upgraded, even for reading.

        Args:
            path: a file name; any characters are allowed, since it is not a URI.
            create: create the database if it does not exist; implies writing.
            readonly: False to write.

        Raises:
            DatabaseError: it is not a trial database, or cannot be opened in this way.
        """
        name = os.fsdecode(path)
        if sqlite3.sqlite_version_info < (3, 37):
            raise DatabaseError(
                f"SQLite {sqlite3.sqlite_version} is too old for strict tables; "
                "use a Python with SQLite 3.37 or newer"
            )
        held = {other._file for other in cls._open_here}
        version = look(name, create=create, held=held)
        if create or not readonly or 0 <= version < migrations.SCHEMA_VERSION:
            connection = writing_connection(name, create=create, is_open_here=version < 0)
            database = cls(name, connection, readonly=False)
            try:
                database._bring_up_to_date()
            except BaseException:
                database.close()
                raise
            if create or not readonly:
                return database
            database.close()
        return cls(name, reading_connection(name, is_open_here=version < 0), readonly=True)

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

        Waits for other writers, up to `PATIENCE_S` in total. A nested transaction is part of the
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
            wait_for_locks(connection, PATIENCE_S)
            connection.execute("BEGIN IMMEDIATE")
            left = max(PATIENCE_S - (time.monotonic() - began), 1.0)
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

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """All rows of a query, as tuples."""
        with refusing(self.path):
            return self.connection.execute(sql, parameters).fetchall()

    def stream(
        self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> Iterator[Any]:
        """The rows one by one, for queries with millions of rows."""
        with refusing(self.path):
            for row in self.connection.execute(sql, parameters):  # noqa: UP028 - closes nothing
                yield row

    def columns(self, reading: Reading) -> list[Sequence[Any]]:
        """The result of a statement over values, column by column; empty if there are no rows."""
        return list(zip(*self.rows(reading.sql), strict=True))

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
        with self.transaction() as connection:
            connection.execute("UPDATE trial SET name = ? WHERE id = ?", (storable(name), trial_id))

    def tag(self, trial_id: int, name: str) -> None:
        """Add a tag to a trial, unless it already has the tag."""
        self.trial(trial_id)
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO tag (trial_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (trial_id, storable(name)),
            )

    def untag(self, trial_id: int, name: str) -> None:
        """Remove a tag from a trial.

        Raises:
            NoSuchTrial: the trial does not have that tag.
        """
        tags = self.trial(trial_id).tags
        if storable(name) not in tags:
            has = ", ".join(map(visible, tags)) or "none"
            raise NoSuchTrial(f"trial {trial_id} has no tag '{name}' (tags: {has})")
        with self.transaction() as connection:
            connection.execute(
                "DELETE FROM tag WHERE trial_id = ? AND name = ?", (trial_id, storable(name))
            )

    def delete(self, trial_id: int) -> None:
        """Delete a trial, and the timers and call paths that no other trial uses."""
        self.trial(trial_id)
        with self.transaction() as connection:
            trial = {"trial": trial_id}
            connection.execute("DELETE FROM trial WHERE id = :trial", trial)
            for statement in _ORPHANS:
                used = trial if ":trial" in statement else {}
                connection.execute(statement, used)
            for (table,) in connection.execute(_TABLES_OF_A_TRIAL).fetchall():
                connection.execute(f'DELETE FROM "{table}" WHERE trial_id = :trial', trial)
            for statement in _ORPHANS_AFTERWARDS:
                connection.execute(statement)

    def compact(self) -> None:
        """Return the space of deleted trials to the file system."""
        with refusing(self.path):
            wait_for_locks(self.connection, PATIENCE_S)
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
            if version < migrations.SCHEMA_VERSION:
                with self.transaction() as connection:
                    # Another process may have upgraded it in the meantime.
                    if checked_version(connection, self.path) < migrations.SCHEMA_VERSION:
                        migrations.migrate(connection)


def of_a_sound_file(
    question: Callable[Concatenate[ProfileDB, _Arguments], _Answer],
) -> Callable[Concatenate[ProfileDB, _Arguments], _Answer]:
    """Report inconsistent rows as a damaged file.

    A row may refer to a missing one, or lack a number where one is required.
    """

    @wraps(question)
    def checked(db: ProfileDB, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        try:
            return question(db, *args, **named)
        except (KeyError, TypeError, ValueError) as error:
            what = visible(f"{type(error).__name__}: {error}")
            raise DatabaseError(f"{db.path} {DAMAGED} ({what})") from error

    return checked
