"""Full-text search of trials, with an index that is made for each search.

Words are found at their beginning, in any case: in names of applications, experiments and trials,
in tags, notes and routines. An index in memory is never out of date, and a file that may only be
read can be searched; names of routines are shared by all trials, so that it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from taupy.errors import DatabaseError
from taupy.profiledb.database import NOTE, ProfileDB
from taupy.profiledb.tables import by_sqlite_utils
from taupy.state.sqlite import in_memory

_ROUTINES = "SELECT id, name FROM timer"
_NOTES = "SELECT trial_id, value FROM metadata WHERE name = ? AND node IS NULL"
_WITH_ROUTINES = """
    SELECT DISTINCT trial_id FROM trial_timer
     WHERE timer_id IN (SELECT value FROM json_each(?))
"""


def trials(db: ProfileDB, words: Sequence[str], advance: Callable[[], object]) -> set[int]:
    """The ids of trials in which all words occur.

    Args:
        advance: called for each text that is indexed.

    Raises:
        DatabaseError: this SQLite was built without full-text search.
    """
    import json
    import sqlite3

    connection = in_memory()
    try:
        try:
            of_trials = _indexed(connection, "trial", _texts(db), advance)
            of_routines = _indexed(connection, "timer", db.stream(_ROUTINES), advance)
        except sqlite3.OperationalError as error:
            raise DatabaseError(f"trials cannot be searched: SQLite says {error}") from None
        ids = {trial.id for trial in db.trials()}
        for word in words:
            routines = json.dumps(list(_matching(of_routines, word)))
            with_routine = {trial for (trial,) in db.rows(_WITH_ROUTINES, (routines,))}
            ids &= with_routine | set(_matching(of_trials, word))
        return ids
    finally:
        connection.close()


def _texts(db: ProfileDB) -> Iterator[tuple[int, str]]:
    notes = dict(db.rows(_NOTES, (NOTE,)))
    for trial in db.trials():
        names = (trial.application, trial.experiment, trial.name, *trial.tags)
        yield trial.id, "\n".join([*names, notes.get(trial.id, "")])


def _indexed(
    connection: Any, name: str, texts: Iterator[tuple[int, str]], advance: Callable[[], object]
) -> Any:
    table = by_sqlite_utils(connection).table(name)
    table.create({"id": int, "text": str}, pk="id")

    def rows() -> Iterator[dict[str, object]]:
        for id, text in texts:
            advance()
            yield {"id": id, "text": text}

    table.insert_all(rows(), batch_size=1000)
    return table.enable_fts(["text"])


def _matching(table: Any, word: str) -> Iterator[int]:
    quoted = word.replace('"', '""')
    for row in table.search(f'"{quoted}"*', columns=["id"]):
        yield row["id"]
