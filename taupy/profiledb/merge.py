"""Combine the trials of several databases in one.

A trial is identified by its uuid; timers, call paths and user events by ids derived from their
content. None of these are renumbered, and nothing is stored twice. Only numbers that are local to
a file (of threads, metrics and names, and of conflicting trials) change. Rows are copied
inside SQLite, by ATTACH, so that memory does not grow with the files. `merge_copy.py` handles the
references between tables.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from taupy.errors import DatabaseError, NoSuchTrial, UsageError
from taupy.escaping import visible
from taupy.model.identifier import is_uuid
from taupy.model.progress import SILENT, Progress
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.files import DAMAGED, PATIENCE_S, file_identity, refusing, wait_for_locks
from taupy.profiledb.merge_copy import Copier
from taupy.profiledb.merged import Merged
from taupy.state.sqlite import attach

_AT_ONCE = 10
"""Files that SQLite attaches at most, as it is built by default."""


class _Source(NamedTuple):
    path: str
    uuids: tuple[str, ...]  # of the selected trials


def merge(
    target: str,
    sources: Sequence[str],
    selectors: Sequence[str] = (),
    *,
    move: bool = False,
    with_source: bool = False,
    progress: Progress = SILENT,
) -> list[Merged]:
    """Copy the trials of the sources into the target, which is created if missing.

    Up to ten sources are one transaction: if killed, the target has all of them or none. Merging
    is idempotent.

    Args:
        selectors: only trials that match one of these (in any source).
        move: delete the trials from the sources once they are in the target.
        with_source: also copy the text of the programs' source files.

    Raises:
        UsageError: a file is named twice, or both as source and as target.
        NoSuchTrial: a selector matches no trial of any source.
        DatabaseError: a file cannot be read or written; the target is unchanged.
    """
    _refuse_same_files(target, sources)
    chosen = _chosen(sources, selectors)
    merged: list[Merged] = []
    progress.begin("merging", sum(len(source.uuids) for source in chosen), "trials")
    with ProfileDB.open(target, create=True, readonly=False) as db:
        for first in range(0, len(chosen), _AT_ONCE):
            batch = chosen[first : first + _AT_ONCE]
            with _attached(db, batch) as names, _one_transaction(db, batch, names) as connection:
                for source, name in zip(batch, names, strict=True):
                    with _blaming(db, source, name):
                        result = Merged(source.path)
                        copier = Copier(connection, name, result, progress, with_source=with_source)
                        copier.copy(source.uuids)
                        merged.append(result)
    if move:
        for source in chosen:
            _delete(source)
    return merged


def _refuse_same_files(target: str, sources: Sequence[str]) -> None:
    seen: dict[tuple[int, int] | str, str] = {}
    for path in [target, *sources]:
        identity = file_identity(path) or os.path.realpath(path)
        if identity in seen:
            also = "" if seen[identity] == path else f" (also as {visible(seen[identity])})"
            raise UsageError(f"{path} is named twice{also}; name each file once")
        seen[identity] = path


def _chosen(sources: Sequence[str], selectors: Sequence[str]) -> list[_Source]:
    """The trials to copy from each source; each file is opened and searched once."""
    chosen = []
    misses: dict[str, NoSuchTrial] = {}
    matched: set[str] = set()
    for path in sources:
        with ProfileDB.open(path) as db:
            _refuse_damaged(db)
            if not selectors:
                uuids = [trial.uuid for trial in db.trials()]
            else:
                uuids = []
                for text in selectors:
                    try:
                        uuids += [trial.uuid for trial in selector.many(db, [text])]
                        matched.add(text)
                    except NoSuchTrial as miss:
                        misses[text] = miss
        for uuid in uuids:
            if not is_uuid(uuid):
                raise DatabaseError(
                    f"{path} cannot be merged: a trial has the uuid '{uuid}', which is none; see "
                    f"`taupy doctor {path}`"
                )
        chosen.append(_Source(path, tuple(dict.fromkeys(uuids))))
    for text in selectors:
        if text not in matched:
            raise misses[text]
    return chosen


def _refuse_damaged(db: ProfileDB) -> None:
    faults = [text for (text,) in db.rows("PRAGMA quick_check(1)") if text != "ok"]
    if faults:
        raise DatabaseError(f"{db.path} {DAMAGED}")
    loose = next(iter(db.stream("PRAGMA foreign_key_check")), None)
    if loose is not None:
        raise DatabaseError(
            f"{db.path} cannot be merged: a row of {loose[0]} refers to a missing "
            f"row of {loose[2]}; see `taupy doctor {db.path}`"
        )


@contextmanager
def _attached(db: ProfileDB, sources: Sequence[_Source]) -> Iterator[list[str]]:
    names: list[str] = []
    try:
        for number, source in enumerate(sources):
            with refusing(source.path):
                attach(db.connection, source.path, f"source{number}", PATIENCE_S)
            names.append(f"source{number}")
        yield names
    finally:
        for name in names:
            db.connection.execute(f"DETACH {name}")


@contextmanager
def _one_transaction(
    db: ProfileDB, sources: Sequence[_Source], names: Sequence[str]
) -> Iterator[sqlite3.Connection]:
    """A transaction during which the sources cannot change either."""
    with db.transaction() as connection:
        wait_for_locks(connection, PATIENCE_S)
        for source, name in zip(sources, names, strict=True):
            with refusing(source.path):  # from here on it cannot change
                connection.execute(f"SELECT count(*) FROM {name}.sqlite_schema").fetchone()
        wait_for_locks(connection, 0)
        yield connection


@contextmanager
def _blaming(db: ProfileDB, source: _Source, name: str) -> Iterator[None]:
    """Attribute damage to the right file: the source or the target."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith("SQLITE_CORRUPT"):
            try:
                sound = db.connection.execute("PRAGMA main.quick_check(1)").fetchone() == ("ok",)
            except sqlite3.Error:
                sound = False
            if sound:
                raise DatabaseError(f"{source.path} {DAMAGED}") from error
        raise


def _delete(source: _Source) -> None:
    with ProfileDB.open(source.path, readonly=False) as db, db.transaction():
        for trial in db.trials():
            if trial.uuid in source.uuids:
                db.delete(trial.id)
