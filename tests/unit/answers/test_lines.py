"""Why a trial has no times of lines."""

import pytest

from taupy.answers import lines
from taupy.answers.answer import Nothing
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile

KILLED = "9 rounds in 1.01 s; it saw nothing of the last 4.2 s because it was stopped or killed"


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"taupy.lines": "none: they were turned off"}, "they were turned off"),
        ({"taupy.health.lines": "they cannot be read"}, "they cannot be read"),
        ({"taupy.watch": "none: it was turned off"}, "there was no watch: it was turned off"),
        ({"taupy.watch": KILLED}, f"of the watch, the trial says: {KILLED}"),
        ({"taupy.watch": "9 rounds in 1.01 s"}, "it ended before the watch first looked"),
    ],
    ids=["off", "damaged", "no watch", "killed", "short"],
)
def test_what_is_known_of_the_watch_is_said(tmp_path, metadata, why):
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, small_profile(metadata=metadata))
        with pytest.raises(Nothing) as problem:
            lines.views(db, 1, lines.Options())
    assert f"no times of lines: {why}" in str(problem.value)
