"""The database of TAU's SQLite plugin, made here with the plugin's own tables."""

from __future__ import annotations

import sqlite3

import pytest

from taupy.errors import FormatError
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.tau import sqlite as tau_sqlite
from tests.unit.formats.comparing import events, flat_by_name, one, read, short_paths

TABLES = """
CREATE TABLE trial (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT,
                    created DATETIME DEFAULT '2026-01-02 03:04:05' NOT NULL);
CREATE TABLE thread (id INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER, node_rank INT,
                     context_rank INT, thread_rank INT);
CREATE TABLE metric (id INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER, name TEXT);
CREATE TABLE timer (id INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER, parent INTEGER,
                    name TEXT, short_name TEXT, timergroup TEXT, source_file TEXT,
                    line_number INT, line_number_end INT, column_number INT,
                    column_number_end INT);
CREATE TABLE timer_value (timer INTEGER, metric INTEGER, value DOUBLE, thread INTEGER);
CREATE TABLE counter (id INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER, name TEXT);
CREATE TABLE counter_value (counter INTEGER, timer INTEGER, thread INTEGER, sample_count INT,
                            maximum_value DOUBLE, minimum_value DOUBLE, mean_value DOUBLE,
                            sum_of_squares DOUBLE);
CREATE TABLE metadata (trial INTEGER, thread INTEGER, name TEXT, value TEXT);
"""


@pytest.fixture
def file(tmp_path):
    return make(tmp_path / "tauprofile.db")


def make(path):
    """main 38 us [ f 60 us x2 ] in 98 us on node 0 and node 3, and a second, empty trial."""
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
        run = connection.execute
        run("INSERT INTO trial (name) VALUES ('/opt/bin/app')")
        for node in (0, 3):
            run("INSERT INTO thread (trial, node_rank, context_rank, thread_rank)"
                " VALUES (1, ?, 0, 0)", (node,))  # fmt: skip
        for name in ("Number of Calls", "Inclusive TIME", "Exclusive TIME"):
            run("INSERT INTO metric (trial, name) VALUES (1, ?)", (name,))
        timers = [(None, "main"), (None, "f [{f.py}{2}]"), (1, "f [{f.py}{2}]")]
        for parent, name in timers:
            run("INSERT INTO timer (trial, parent, name, short_name) VALUES (1, ?, ?, '')",
                (parent, name))  # fmt: skip
        for thread in (1, 2):
            for timer, values in ((1, (1, 98, 38)), (2, (2, 60, 60)), (3, (2, 60, 60))):
                for metric, value in enumerate(values, 1):
                    run("INSERT INTO timer_value VALUES (?, ?, ?, ?)",
                        (timer, metric, value, thread))  # fmt: skip
        run("INSERT INTO counter (trial, name) VALUES (1, 'Heap')")
        run("INSERT INTO counter_value VALUES (1, NULL, 1, 2, 9, 1, 5, 82)")
        run("INSERT INTO counter_value VALUES (1, 3, 1, 2, 9, 1, 5, 82)")
        run("INSERT INTO metadata VALUES (1, 1, 'Hostname', 'a')")
        run("INSERT INTO metadata VALUES (1, 2, 'Hostname', 'b')")
    return path


def change(file, *statements):
    with sqlite3.connect(file) as connection:
        for statement in statements:
            connection.execute(statement)


def test_timers_values_events_and_metadata_are_read(file):
    first, second = read(tau_sqlite, file)
    assert short_paths(first, first.threads[0]) == {
        "main": (1, 2, 98_000, 38_000),
        "main > f [{f.py}{2}]": (2, 0, 60_000, 60_000),
    }
    assert flat_by_name(second, second.threads[0]) == {
        "main": (1, 2, 98_000, 38_000), "f [{f.py}{2}]": (2, 0, 60_000, 60_000)
    }  # fmt: skip
    ((name, _, path, count, *_),) = events(first, first.threads[0])
    assert (name, [routine for routine, _ in path], count) == ("Heap", ["main", "f [{f.py}{2}]"], 2)
    assert (first.application, first.uuid, second.uuid) == ("app", "1", "1")
    assert second.node_metadata == {3: {"Hostname": "b"}}
    assert first.started_at == 1767323045
    assert "six significant digits" in first.metadata[IMPORT_NOTES]


def test_rounded_sums_do_not_break_the_tree(file):
    """98,765,432 us in six digits are less than what its paths sum up to."""
    change(file, "UPDATE timer_value SET value = 98765400.0 WHERE timer = 2 AND metric > 1",
           "UPDATE timer_value SET value = 98765432.0 WHERE timer = 3 AND metric > 1")  # fmt: skip
    profile = read(tau_sqlite, file)[0]
    assert "main > f [{f.py}{2}]" in short_paths(profile, profile.threads[0])


def test_several_trials_have_names_of_their_own(file):
    change(
        file,
        "INSERT INTO trial (name) VALUES ('other')",
        "INSERT INTO thread (trial, node_rank, context_rank, thread_rank) VALUES (2, 0, 0, 0)",
    )
    assert [profile.uuid for profile in read(tau_sqlite, file)] == ["1", "1", "2"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE timer SET parent = 3 WHERE id = 1", "its own caller"),
        ("DELETE FROM timer WHERE id = 3", "no timer 3"),
        ("UPDATE timer_value SET value = 'x'", "not a number"),
        ("UPDATE timer_value SET value = 9e999", "not a number"),
        ("UPDATE thread SET node_rank = 'zero'", "its rank is not a number"),
        ("DROP TABLE metadata", "not the database of TAU's SQLite plugin"),
    ],
)
def test_what_does_not_fit_together_is_refused(file, statement, reason):
    change(file, statement)
    with pytest.raises(FormatError, match=reason) as refused:
        read(tau_sqlite, file)
    assert str(refused.value).startswith(str(file))


def test_views_and_triggers_of_the_file_never_run(file):
    change(
        file,
        "ALTER TABLE metadata RENAME TO hidden",
        "CREATE VIEW metadata AS SELECT trial, thread, name, name AS value FROM hidden",
    )
    with pytest.raises(FormatError):
        one(tau_sqlite, file)


def test_recognised_by_its_tables(file, tmp_path):
    assert tau_sqlite.recognises(file, file.read_bytes()[:100])
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE trial (id)")
    assert not tau_sqlite.recognises(other, other.read_bytes()[:100])
