"""Free SQL: it reads, and does nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from taupy.errors import DatabaseError, UsageError
from taupy.model.processes import stat_fields
from taupy.profiledb import sql
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.migrations import SCHEMA_VERSION
from taupy.profiledb.sql import run_sql
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile


@pytest.fixture
def stored(db):
    add_profile(db, small_profile())
    return db


def ask(db, statement, **parameters):
    names, rows = run_sql(db, statement, parameters)
    return names, list(rows)


def test_a_query_gives_columns_and_rows(stored):
    statement = "SELECT short_name AS routine, line FROM timer WHERE line < :line ORDER BY line"
    assert ask(stored, statement, line=9) == (["routine", "line"], [("<module>", 1), ("f", 3)])
    assert ask(stored, "WITH a(b) AS (VALUES (1), (2)) SELECT b FROM a")[1] == [(1,), (2,)]
    assert ask(stored, "SELECT count(*) FROM pprof;")[1] == [(8,)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trial",
        "INSERT INTO application (name) VALUES ('x')",
        "UPDATE trial SET name = 'x' RETURNING name",
        "DROP TABLE trial",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH '{folder}/other.db' AS other",
        "VACUUM INTO '{folder}/copy.db'",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = WAL",
        "PRAGMA user_version = 9",
        "PRAGMA writable_schema = ON",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('/x.so')",
        "REINDEX",
        "ANALYZE",
    ],
)
def test_a_query_that_would_write_is_refused(stored, tmp_path, statement):
    before = (tmp_path / "taupy.db").read_bytes()
    with pytest.raises(UsageError, match=r"queries may only read|not understood"):
        ask(stored, statement.format(folder=tmp_path))
    assert os.listdir(tmp_path) == ["taupy.db"]
    assert (tmp_path / "taupy.db").read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT 1; DELETE FROM trial", "single statement"),
        ("SELEC 1", "not understood: near .SELEC.: syntax error"),
        ("SELECT colour FROM trial", "no such column: colour"),
        ("SELECT * FROM\x1b[31m", "not understood"),
        ("", "gives no columns"),
        ("-- nothing", "gives no columns"),
        ("SELECT :a", "--param NAME=VALUE"),
        ("SELECT 1\0", "not understood"),
        ("SELECT '\ud800'", "not understood"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_one_line(stored, statement, message):
    with pytest.raises(UsageError, match=message) as caught:
        ask(stored, statement)
    assert str(caught.value).isprintable()


def test_the_schema_can_be_looked_at(stored):
    assert "trial_id" in [row[1] for row in ask(stored, "PRAGMA table_info(call)")[1]]
    assert ask(stored, "PRAGMA user_version")[1] == [(SCHEMA_VERSION,)]
    assert ("pprof",) in ask(stored, "SELECT name FROM sqlite_schema WHERE type = 'view'")[1]
    assert ask(stored, "EXPLAIN QUERY PLAN SELECT * FROM trial")[1]


def test_values_and_answers_have_limits(stored, monkeypatch):
    with pytest.raises(DatabaseError, match="that large"):
        ask(stored, f"SELECT zeroblob({sql.LONGEST_VALUE + 1})")
    monkeypatch.setattr(sql, "LARGEST_ANSWER", 1000)
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x, 'word' FROM n"
    )
    with pytest.raises(DatabaseError, match="ask for less with WHERE or LIMIT"):
        ask(stored, endless)


def test_rows_come_as_they_are_asked_for(stored):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    names, rows = run_sql(stored, endless)
    assert (names, next(rows), next(rows)) == (["x"], (1,), (2,))
    rows.close()
    stored.rename(1, "no lock is left")


def test_a_query_does_not_hinder_the_opening_connection(stored):
    with ProfileDB.open(stored.path) as reading:
        ask(reading, "SELECT 1")
        assert reading.rows("PRAGMA query_only") == [(1,)]


def cpu_ticks(pid):
    return sum(map(int, stat_fields(pid)[11:13]))


@pytest.mark.parametrize(
    "statement",
    [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM timer a, timer b, timer c, timer d, timer e, timer f, timer g,"
        " timer h, timer i, timer j, timer k, timer l, timer m, timer n, timer o, timer p, timer q",
    ],
    ids=["recursion", "product"],
)
def test_an_endless_query_ends_with_ctrl_c(stored, statement):
    code = (
        "import sys\n"
        "from taupy.profiledb.database import ProfileDB\n"
        "from taupy.profiledb.sql import run_sql\n"
        "db = ProfileDB.open(sys.argv[1])\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    list(run_sql(db, sys.argv[2])[1])\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, stored.path, statement], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    ready = cpu_ticks(process.pid)
    while cpu_ticks(process.pid) < ready + 20:  # more than the query takes to begin
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.stdout.close()
