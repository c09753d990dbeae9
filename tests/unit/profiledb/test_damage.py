"""Files with changed bytes: an answer or one clear line, never a traceback, never a hang."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from random import Random

import pytest

import taupy as package
from taupy.errors import DatabaseError, TaupyError
from taupy.model.answer import flat_rows, tree_rows
from taupy.profiledb import metrics, query, reader, selector
from taupy.profiledb.audit import audit
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sql import run_sql
from taupy.profiledb.writer import add_profile
from tests.builders import deep_profile, event, gpu_profile, small_profile, steps

QUESTIONS = [
    lambda db: selector.trial(db, "gpu=H200"),
    lambda db: flat_rows(metrics.flat_profile(db, 1)),
    lambda db: tree_rows(metrics.call_tree(db, 1)),
    lambda db: tree_rows(metrics.call_tree(db, 2)),
    lambda db: query.user_events(db, 1),
    lambda db: query.trial_metadata(db, 1),
    lambda db: reader.read_profile(db, 1),
    lambda db: reader.read_profile(db, 2),
    lambda db: list(run_sql(db, "SELECT * FROM callpaths")[1]),
    lambda db: db.verify(),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, deep_profile(50, 2))
    return path.read_bytes()


@pytest.mark.parametrize("changes", [1, pytest.param(10, marks=pytest.mark.slow), 100, 1000])
def test_a_damaged_file_is_answered_or_refused_in_one_line(tmp_path, sound, changes):
    random = Random(changes)
    path = tmp_path / "taupy.db"
    refused = 0
    for _ in range(12):
        content = bytearray(sound)
        for _ in range(changes):
            content[random.randrange(100, len(content))] = random.randrange(256)
        path.write_bytes(content)
        for question in QUESTIONS:
            try:
                with ProfileDB.open(path) as db:
                    question(db)
            except TaupyError as error:
                refused += 1
                assert str(error).isprintable()
        assert path.read_bytes() == content
        with suppress(TaupyError), ProfileDB.open(path, create=True) as db:
            add_profile(db, small_profile(3))
            db.delete(1)
    assert refused or changes == 1


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM thread",
        "DELETE FROM timer",
        "DELETE FROM callpath WHERE depth = 1",
        "DELETE FROM call WHERE trial_id = 1",
        "UPDATE callpath SET parent_id = id",
        "UPDATE interval_value SET inclusive = 'many', exclusive = NULL",
        "UPDATE timer_value SET inclusive = 'many'",
        "UPDATE trial SET started_at = 'yesterday'",
        "UPDATE metadata SET value = CAST(x'ff' AS TEXT)",
    ],
)
def test_rows_that_do_not_fit_together_are_answered_or_refused(db, tmp_path, harm):
    path = tmp_path / "harmed.db"
    with ProfileDB.open(path, create=True) as harmed:
        add_profile(harmed, small_profile(1))
        add_profile(harmed, deep_profile(50, 2))
        harmed.connection.execute(harm)
    failures = 0
    for question in QUESTIONS:
        with ProfileDB.open(path) as harmed:
            try:
                question(harmed)
            except TaupyError as error:
                failures += 1
                assert "is damaged" in str(error) or "refused" in str(error)
    assert failures < len(QUESTIONS)


def harmed(path, column, value):
    """A database with a value that the table forbids."""
    profile = gpu_profile(1)
    profile.threads[0].steps = [steps([10, 20])]
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    table, _, name = column.partition(".")
    change = "UPDATE sqlite_schema SET sql = ? WHERE name = ?"
    schema = ""
    for is_strict in (False, True):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            if is_strict:
                connection.execute(f"UPDATE {table} SET {name} = {value}")
                connection.execute(change, (schema, table))
            else:
                find = "SELECT sql FROM sqlite_schema WHERE name = ?"
                (schema,) = connection.execute(find, (table,)).fetchone()
                loose = schema.replace("STRICT, ", "").replace("STRICT", "")
                connection.execute(change, (loose, table))
            connection.commit()


@pytest.mark.parametrize(
    ("column", "value", "ask"),
    [
        ("trial.started_at", "'64'", lambda trial: trial.report()),
        ("trial.started_at", "'64'", lambda trial: trial.timeline()),
        ("step.longest_ns", "'many'", lambda trial: trial.phases()),
        ("step.thread_id", "'many'", lambda trial: trial.phases()),
        ("call.calls", "9e999", lambda trial: trial.callpaths()),
        ("timer_call.calls", "-9e999", lambda trial: trial.profile()),
        ("callpath.timer_id", "9e999", lambda trial: trial.callpaths(largest=3)),
        ("user_event_value.count", "9e999", lambda trial: trial.events()),
        ("thread.node", "9e999", lambda trial: trial.report()),
        ("call.calls", "9223372036854775807", lambda trial: trial.report()),
        ("timer.line", "9e999", lambda trial: trial._database.compare("1", "1")),
        ("activity.end_ns", "9e999", lambda trial: trial.report()),
    ],
)
def test_a_value_that_cannot_be_one_is_refused_in_one_line(tmp_path, column, value, ask):
    """A text of another form, or a value of a type that the table forbids."""
    harmed(tmp_path / "a.db", column, value)
    with pytest.raises(DatabaseError, match="is damaged"):
        ask(package.open(tmp_path / "a.db").trial(1))


def test_samples_that_add_up_to_infinity_are_no_damage(tmp_path):
    profile = small_profile(1)
    profile.threads[0].user_events.append(event("loss", [1e308] * 3))
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, profile)
    trial = package.open(tmp_path / "a.db").trial(1)
    assert trial.report().text
    assert trial.events()["mean"].max() == float("inf")


def test_an_audit_names_an_id_that_is_no_integer(tmp_path):
    harmed(tmp_path / "a.db", "callpath.timer_id", "9e999")
    with ProfileDB.open(tmp_path / "a.db") as db:
        assert any(found.check == "ids" and found.state == "PROBLEM" for found in audit(db))
