"""The audit finds every planted fault, and none in a sound file."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from taupy.errors import TaupyError
from taupy.model.profile import ABSENT
from taupy.profiledb.audit import audit
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import (
    call,
    deep_profile,
    gpu_profile,
    host,
    profile_of,
    random_profile,
    small_profile,
    wide_profile,
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, gpu_profile(2))
        add_profile(db, deep_profile(500, 3))
        add_profile(db, wide_profile(3000, number=4))
        for number in range(5, 9):
            add_profile(db, random_profile(Random(number), number))
    return path


@pytest.fixture
def sound(stored, tmp_path):
    """Of each test its own copy, in which it plants its fault."""
    return shutil.copy(stored, tmp_path / "taupy.db")


def findings(path, state=None):
    with ProfileDB.open(path) as db:
        return [one for one in audit(db) if state in (None, one.state)]


def test_a_sound_file_has_no_findings(sound):
    before = sound.read_bytes()
    assert findings(sound) == []
    assert sound.read_bytes() == before


FAULTS = [
    (
        "ids",
        None,
        "UPDATE timer SET name = 'other' WHERE short_name = 'f'",
        "timers with ids that do not match",
    ),
    (
        "ids",
        None,
        "DELETE FROM timer_group WHERE name = 'USER'",
        "timers with ids that do not match",
    ),
    ("ids", None, "UPDATE user_event SET unit = 'x' WHERE name = 'read'", "user events with ids"),
    ("ids", None, "UPDATE callpath SET depth = 9 WHERE depth = 2", "not one deeper"),
    (
        "ids",
        None,
        "UPDATE callpath SET timer_id = (SELECT id FROM timer WHERE short_name = 'gemm')"
        " WHERE id = (SELECT callpath_id FROM launch WHERE count = 10 AND time_ns = 800)",
        "call paths with ids",
    ),
    ("laws", 1, "UPDATE call SET calls = calls + 1 WHERE calls = 3", "subroutines are not"),
    (
        "laws",
        1,
        "UPDATE interval_value SET exclusive = exclusive + 7 WHERE exclusive = 20 AND trial_id = 1",
        "time: inclusive is not exclusive plus the children's inclusive",
    ),
    ("laws", 2, "UPDATE interval_value SET exclusive = -1 WHERE exclusive = 800", "below 0"),
    (
        "laws",
        1,
        "DELETE FROM call WHERE trial_id = 1 AND calls = 4",
        "interval_value name a call path that the thread never entered",
    ),
    (
        "laws",
        2,
        "UPDATE activity SET callpath_id = (SELECT id FROM callpath WHERE depth = 400)",
        "20 rows of activity name a call path",
    ),
    (
        "laws",
        1,
        "UPDATE interval_value SET thread_id = (SELECT max(id) FROM thread) WHERE trial_id = 1"
        " AND inclusive = 12",
        "belong to threads of another trial",
    ),
    (
        "laws",
        1,
        "DELETE FROM trial_timer WHERE trial_id = 1"
        " AND timer_id = (SELECT id FROM timer WHERE short_name = 'g')",
        "that trial_timer does not list: 1",
    ),
    ("summary", 1, "UPDATE timer_call SET calls = 99 WHERE trial_id = 1 AND calls = 9", "'g ["),
    ("summary", 1, "DELETE FROM timer_value WHERE trial_id = 1 AND inclusive = 7", "time of 'g ["),
    (
        "summary",
        4,
        "UPDATE timer_value SET exclusive = exclusive + 1 WHERE trial_id = 4",
        "is not the sum over call paths",
    ),
    (
        "summary",
        3,
        "UPDATE thread_metric SET largest_inclusive = 1 WHERE trial_id = 3",
        "the largest inclusive time is 500, not 1",
    ),
    (
        "summary",
        1,
        "DELETE FROM thread_metric WHERE trial_id = 1 AND largest_inclusive = 12",
        "not among its metrics",
    ),
    ("values", 2, "UPDATE launch SET untimed = 99", "impossible counts"),
    ("values", 2, "UPDATE launch SET minimum_ns = 601 WHERE maximum_ns = 600", "their minimum"),
    ("values", 2, "UPDATE activity SET end_ns = start_ns - 1 WHERE id = 1", "1 activities that"),
    ("values", 1, "UPDATE user_event_value SET mean = 9 WHERE maximum = 6", "mean lies outside"),
    ("values", 1, "UPDATE user_event_value SET sum_squares = 1", "sum of squares"),
    (
        "values",
        None,
        "UPDATE trial SET started_at = 'today, late' WHERE id = 1",
        "not a valid time",
    ),
    ("file", None, "DELETE FROM callpath WHERE depth = 450", "refer to missing rows of callpath"),
    ("schema", None, "DROP INDEX launch_by_trial", "the index launch_by_trial is missing"),
    ("schema", None, "ALTER TABLE launch DROP COLUMN limiter", "has no column limiter"),
]


@pytest.mark.parametrize(("check", "trial", "statement", "words"), FAULTS)
def test_a_planted_fault_is_found_and_named(sound, check, trial, statement, words):
    with sqlite3.connect(sound) as connection:
        assert connection.execute(statement).rowcount != 0
    found = [
        finding
        for finding in findings(sound, "PROBLEM")
        if (finding.check, finding.trial) == (check, trial)
    ]
    assert any(words in one.text for one in found), findings(sound)


def test_a_view_that_is_missing_is_a_note(sound):
    with sqlite3.connect(sound) as connection:
        connection.execute("DROP VIEW pprof")
    (note,) = findings(sound)
    assert (note.state, note.text) == ("note", "the view pprof is missing")


def test_a_law_that_the_measurement_broke_is_a_note(tmp_path):
    profile = profile_of(host(call("main", 1, 10, [call("f", 1, 5)])))
    profile.threads[0].tree.subroutines[0] = 7
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    (note,) = findings(path)
    assert (note.state, note.check, note.trial) == ("note", "laws", 1)
    assert "subroutines are not the children's calls" in note.text
    with sqlite3.connect(path) as connection:  # another law than the one that is told
        connection.execute("UPDATE interval_value SET exclusive = 9 WHERE exclusive = 10")
    assert [finding.check for finding in findings(path, "PROBLEM")] == ["summary", "laws"]


def test_remarks_of_the_measurement_are_notes(tmp_path):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(
            db,
            small_profile(1, state="incomplete", metadata={"taupy.health.cut_off": "one\ntwo"}),
        )
    assert [finding.text for finding in findings(path)] == [
        "cut_off: one",
        "cut_off: two",
        "the trial is incomplete",
    ]


def test_values_that_were_not_measured_are_no_fault(tmp_path):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        profile = gpu_profile(1)
        assert any(value != value for value in profile.threads[1].tree.inclusive["flop_fp32"])
        assert ABSENT != ABSENT
        add_profile(db, profile)
    assert findings(path) == []


@pytest.mark.parametrize("changes", [1, 10, 100, 1000])
def test_a_damaged_file_gives_findings_and_never_a_traceback(tmp_path, changes):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, gpu_profile(2))
    whole = path.read_bytes()
    random = Random(changes)
    for _ in range(8):
        content = bytearray(whole)
        for _ in range(changes):
            content[random.randrange(100, len(content))] = random.randrange(256)
        Path(path).write_bytes(content)
        try:
            found = findings(path)
        except TaupyError:
            continue
        assert all(one.text.isprintable() for one in found)
        assert path.read_bytes() == content
