"""Times of lines in the database: written, read, merged and deleted with their trial."""

from dataclasses import replace

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.lines import read_lines
from taupy.profiledb.merge import merge
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import call, canonical, host, line_times, profile_of


def with_lines(number=1):
    profile = profile_of(
        host(call("main", 1, 9, [call("work", 3, 5)])), host(call("other", 1, 9), thread=1),
        number=number, name="1",
    )  # fmt: skip
    names = [timer.name for timer in profile.timers]
    main, other = profile.threads
    main.lines = line_times(names.index("main"), names.index("work"))
    other.lines = [replace(line, timer=names.index("other")) for line in line_times()]
    return profile


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, with_lines())
    return path


def test_a_profile_is_read_as_it_was_written(path):
    with ProfileDB.open(path) as db:
        assert canonical(read_profile(db, 1)) == canonical(with_lines())
        assert db.verify() == []


def test_storing_it_again_changes_nothing(path):
    with ProfileDB.open(path, readonly=False) as db:
        add_profile(db, with_lines())
        assert len(list(read_lines(db, 1))) == 8


def test_merging_takes_lines_along_once(path, tmp_path):
    target = tmp_path / "target.db"
    for _ in range(2):
        merge(str(target), [str(path)])
        with ProfileDB.open(target) as db:
            assert canonical(read_profile(db, 1)) == canonical(with_lines())


def test_they_are_deleted_with_their_trial(path):
    with ProfileDB.open(path, readonly=False) as db:
        db.delete(1)
        assert db.rows("SELECT count(*) FROM line") == [(0,)]
