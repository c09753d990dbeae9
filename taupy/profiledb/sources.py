"""The source files of a trial's routines, as the interpreter knew them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import intern

from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import rows_of_ids

_PATHS = """
    SELECT timer.name, trial_timer.path
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ? AND trial_timer.path IS NOT NULL
"""

_FILES = """
    SELECT DISTINCT trial_timer.trial_id, timer.file, trial_timer.path
      FROM trial_timer
      JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id IN ({ids}) AND timer.file IS NOT NULL
"""

_MODULES = "SELECT name FROM timer WHERE short_name = '<module>'"


@of_a_sound_file
def timer_paths(db: ProfileDB, trial_id: int) -> dict[str, str]:
    """Full name of each of the trial's timers -> its file, absolute if possible. Those of which
    none is known, such as C functions, are left out."""
    db.trial(trial_id)
    return {name: intern(path) for name, path in db.rows(_PATHS, (trial_id,))}


@of_a_sound_file
def files(db: ProfileDB, trials: Sequence[int]) -> list[tuple[int, str, str | None]]:
    """Each trial's files as displayed, with their paths."""
    return list(rows_of_ids(db, _FILES, trials))


def modules(db: ProfileDB) -> Iterator[str]:
    """The full names of all timers of modules, `<module> [{app.py}{1}]`."""
    return (name for (name,) in db.rows(_MODULES))
