"""The source files of a trial's routines, as the interpreter knew them."""

from __future__ import annotations

from taupy.profiledb.database import ProfileDB

_PATHS = """
    SELECT timer.name, trial_timer.path
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ?
"""


def timer_paths(db: ProfileDB, trial_id: int) -> dict[str, str | None]:
    """Full name of each of the trial's timers -> its file, absolute if possible."""
    db.trial(trial_id)
    return dict(db.rows(_PATHS, (trial_id,)))
