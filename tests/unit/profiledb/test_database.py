"""Managing trials: rename, tag, delete."""

from __future__ import annotations

import math
import sqlite3

import pytest

from taupy.errors import NoSuchTrial
from taupy.profiledb.reader import read_profile
from taupy.profiledb.reading import Reading
from taupy.profiledb.writer import add_profile
from tests.builders import canonical, small_profile, wide_profile

COUNTS = (
    "application",
    "experiment",
    "timer",
    "timer_group",
    "callpath",
    "call",
    "interval_value",
    "timer_value",
    "user_event",
    "metric",
    "metadata",
    "tag",
    "thread",
)


@pytest.mark.parametrize("count", [1, 3_000, 60_000])
@pytest.mark.parametrize(
    "last", [None, -7, -(2**63), 0.5, 2.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, math.inf]
)
def test_columns_have_the_cells_of_the_rows(db, last, count):
    rows = [(number, 2**62 + number) for number in range(count)] + [(count, last), (None, 1)]
    db.connection.executescript("CREATE TEMP TABLE many (a INTEGER, b ANY) STRICT")
    db.connection.executemany("INSERT INTO many VALUES (?, ?)", rows)
    reading = Reading("SELECT a, b FROM many", "", "timer", (), (), 2, keys=1, integers=1)
    read = list(zip(*db.columns(reading), strict=True))
    assert read == rows
    assert [type(cell) for _, cell in read] == [type(cell) for _, cell in rows]


def test_a_column_may_be_longer_than_any_value(db):
    db.connection.execute("CREATE TEMP TABLE many (a INTEGER) STRICT")
    db.connection.executemany("INSERT INTO many VALUES (?)", [(2**62,)] * 1000)
    before = db.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4096)
    reading = Reading("SELECT a FROM many", "", "timer", (), (), 1, keys=1, integers=1)
    assert [*db.columns(reading)[0]] == [2**62] * 1000
    assert db.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before) == 4096


def counts(db):
    return {table: db.rows(f"SELECT count(*) FROM {table}")[0][0] for table in COUNTS}


def test_a_deleted_trial_takes_along_what_no_other_trial_has(db):
    first = add_profile(db, small_profile(1, name="kept"))
    before = counts(db)
    second = add_profile(db, wide_profile(500, number=2))
    db.tag(second, "x")
    db.delete(second)
    assert counts(db) == before
    assert read_profile(db, first) == canonical(small_profile(1, name="kept"))


def test_a_deleted_trial_leaves_what_other_trials_share(db):
    first = add_profile(db, small_profile(1))
    second = add_profile(db, small_profile(2, name="kept"))
    db.delete(first)
    assert read_profile(db, second) == canonical(small_profile(2, name="kept"))
    db.delete(second)
    assert set(counts(db).values()) == {0}
    db.compact()


def test_the_number_of_a_deleted_trial_is_not_given_again(db):
    add_profile(db, small_profile(1))
    db.delete(1)
    assert add_profile(db, small_profile(2)) == 2


def test_deleting_a_trial_with_another_tool_takes_along_all_that_hangs_on_it(db):
    add_profile(db, small_profile())
    connection = sqlite3.connect(db.path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("DELETE FROM trial")
    connection.commit()
    connection.close()
    left = {table for table, count in counts(db).items() if count}
    shared = {"application", "experiment", "timer", "timer_group", "callpath", "metric"}
    assert left == shared | {"user_event"}


def test_rename_tag_and_untag(db):
    add_profile(db, small_profile())
    db.rename(1, "a better name")
    db.tag(1, "b")
    db.tag(1, "a")
    db.tag(1, "a")
    assert (db.trial(1).name, db.trial(1).tags) == ("a better name", ("a", "b"))
    db.untag(1, "a")
    assert db.trials()[0].tags == ("b",)
    with pytest.raises(NoSuchTrial, match=r"trial 1 has no tag 'a' \(tags: b\)"):
        db.untag(1, "a")


@pytest.mark.parametrize(
    "change",
    [
        lambda db: db.rename(3, "x"),
        lambda db: db.tag(3, "x"),
        lambda db: db.untag(3, "x"),
        lambda db: db.delete(3),
        lambda db: db.trial(2**80),
    ],
)
def test_a_trial_that_is_not_there_is_not_changed(db, change):
    with pytest.raises(NoSuchTrial, match="has no trial"):
        change(db)


def test_a_transaction_that_fails_changes_nothing(db):
    add_profile(db, small_profile())
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.rename(1, "x")
        db.delete(1)
        raise ZeroDivisionError
    assert db.trial(1).name == "1"


def test_verify_finds_a_reference_to_nothing(tmp_path):
    from taupy.profiledb.database import ProfileDB

    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, small_profile())
        db.connection.execute("DELETE FROM thread WHERE id = 2")
        faults = db.verify()
        assert len(faults) > 1
        assert all("refers to a missing row of thread" in fault for fault in faults)
