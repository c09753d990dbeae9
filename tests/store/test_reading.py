"""Commands and notebooks answer from a store what they answer from a file, text for text."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import taupy as package
from taupy.model.profile import OperatorInput, SourceFile
from taupy.profiledb import kernel_codes
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.sql import run_sql
from taupy.profiledb.writer import add_profile
from taupy.store import reading
from taupy.store.create import create
from taupy.store.files import Folder
from taupy.store.layout import tables
from taupy.store.local import LocalCopy
from tests.builders import UUID, gpu_profile
from tests.in_process import taupy
from tests.unit.profiledb.test_dialects import READING, fill
from tests.unit.profiledb.test_kernel_codes import RICH, loaded
from tests.unit.profiledb.test_layers import known

pytestmark = pytest.mark.slow

SMALL = {None, "tag", "metadata", "device", "derived_metric", "ceiling"} | {
    name for name in tables() if name.startswith("kernel_code")
}
"""Tables that may be read of all trials."""


@pytest.fixture(scope="module")
def both(tmp_path_factory, new_address):
    """A database and a store with the same trials under the same numbers."""
    place, address = tmp_path_factory.mktemp("both"), new_address()
    with ProfileDB.open(place / "taupy.db", create=True) as db:
        fill(db)
    create(address, str(place / "files"))
    taupy("push", "--to", address, cwd=place)
    return str(place / "taupy.db"), address


def answer(command, db, folder):
    folder.mkdir()
    shown = taupy(*command.split(), "--db", db, cwd=folder)
    texts = (shown.stdout, shown.stderr)
    said = (
        shown.returncode,
        *(text.replace(shlex.quote(db), "DB").replace(db, "DB") for text in texts),
    )
    files = [file for file in Path(folder).rglob("*") if file.is_file()]
    return said, {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize("command", READING)
def test_a_command_says_the_same(both, tmp_path, command, monkeypatch):
    file, address = both
    from_file = answer(command, file, tmp_path / "of a file")
    whole = []
    add = LocalCopy.add

    def noted(self, table, trials=None):
        whole.append(table.name if trials is None else None)
        return add(self, table, trials)

    monkeypatch.setattr(LocalCopy, "add", noted)
    assert answer(command, address, tmp_path / "of a store") == from_file
    assert set(whole) <= SMALL, set(whole) - SMALL


LOCAL = {"id", "thread_id", "device_id", "metric_id", "experiment_id", "application_id"}
"""Columns with numbers that a file and a store give themselves."""


def rows_of(db, sql):
    names, rows = run_sql(db, sql)
    kept = [at for at, name in enumerate(names) if name not in LOCAL]
    return sorted(([row[at] for at in kept] for row in rows), key=repr)


@pytest.fixture(scope="module")
def full(tmp_path_factory, new_address):
    """A database and a store in which no table is empty."""
    place, address = tmp_path_factory.mktemp("full"), new_address()
    with ProfileDB.open(place / "taupy.db", create=True) as db:
        fill(db)
        layers, loading = known(number=7), replace(gpu_profile(), uuid=UUID.format(8))
        add_profile(db, layers)
        loading.modules = [loaded("0" * 64)]
        loading.sources = [SourceFile("/home/u/train.py", "train.py", "1" * 64, text="step()\n")]
        loading.threads[0].inputs = [OperatorInput(2, "float32[16x559]", 10, 900, 10, 5800)]
        add_profile(db, loading)
        list(kernel_codes.storing(db, [RICH]))
    create(address, str(place / "files"))
    for command in ("trials tag 1 kept", "derive add rate time/calls"):
        assert taupy(*command.split(), cwd=place).returncode == 0
    assert taupy("push", "--with-source", "--to", address, cwd=place).returncode == 0
    return str(place / "taupy.db"), address


def test_every_table_and_view_of_the_schema_has_the_same_rows(full):
    file, address = full
    with ProfileDB.open(file) as db:
        names = [name for (name,) in db.rows(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite_%'"
        )]  # fmt: skip
        expected = {name: rows_of(db, f'SELECT * FROM "{name}"') for name in names}
        counted = {name: rows_of(db, f"SELECT count(*) FROM {name}") for name in names}
    assert [name for name in names if not expected[name]] == []
    for name in names:  # each by itself: one statement could copy what another reads
        with opened(address) as db:
            assert rows_of(db, f'SELECT * FROM "{name}"') == expected[name], name
        with opened(address) as db:
            assert rows_of(db, f"SELECT count(*) FROM {name}") == counted[name], name


JOINED = {
    "SELECT t.name, sum(v.exclusive) FROM timer AS t JOIN timer_value AS v ON v.timer_id = t.id"
    " WHERE v.trial_id = 2 GROUP BY t.name": False,
    "SELECT t.name, c.depth FROM call JOIN callpath AS c ON c.id = call.callpath_id"
    " JOIN timer AS t ON t.id = c.timer_id WHERE call.trial_id = 2": False,
    "SELECT t.name, v.calls FROM timer AS t LEFT JOIN timer_call AS v"
    " ON v.timer_id = t.id AND v.trial_id = 2": True,
    "SELECT t.name FROM timer AS t, (VALUES (1)) AS n": True,
    "SELECT name FROM timer JOIN timer_call USING (name)": True,
    "SELECT timer.name FROM timer JOIN timer_call AS c ON timer.id > c.timer_id"
    " WHERE c.trial_id = 2": True,
    "SELECT count(*) FROM metric": True,
    "SELECT name FROM user_event": True,
    "SELECT name FROM callpath JOIN timer ON timer.id = callpath.timer_id": True,
    "EXPLAIN SELECT * FROM timer_group": True,
}


@pytest.mark.parametrize("sql", JOINED)
def test_shared_tables_are_copied_whole_only_where_they_stand_alone(both, sql):
    from taupy.store.users_sql import needs_of_text

    file, address = both
    with opened(address) as store:
        read = needs_of_text(sql, (), store._tables, store._evaluated)
        assert (None in read.values()) is JOINED[sql]
        if "USING" in sql or "EXPLAIN" in sql:
            return
        with ProfileDB.open(file) as db:
            assert rows_of(store, sql) == rows_of(db, sql)


def test_a_notebook_sees_the_same(both):
    pandas = pytest.importorskip("pandas")
    file, store = (package.open(name) for name in both)
    for ask in (
        lambda db: db.trials(),
        lambda db: db.pivot(),
        lambda db: db.trial(2).profile(),
        lambda db: db.trial(2).callpaths(),
        lambda db: db.trial(2).kernels(),
        lambda db: db.trial(4).metadata(),
        lambda db: db.compare(1, 2),
    ):
        expected, asked = ask(file), ask(store)
        if isinstance(expected, pandas.DataFrame):
            pandas.testing.assert_frame_equal(asked, expected)
        else:
            assert asked == expected


def test_flat_profiles_read_nothing_of_call_paths(both, monkeypatch, tmp_path):
    opened = []
    read = Folder.read

    def noted(self, stored, table, uuid):
        opened.append(table.name)
        return read(self, stored, table, uuid)

    monkeypatch.setattr(Folder, "read", noted)
    for command in ("compare 1 2", "pivot", "trials", "pprof 1"):
        assert taupy(*command.split(), "--db", both[1], cwd=tmp_path).returncode == 0, command
    assert not {"call", "interval_value"} & {*opened}
    assert taupy("export", "1", "--format", "chrome", "-o", "1.json", "--db", both[1],
                 cwd=tmp_path).returncode == 0  # fmt: skip
    assert {"call", "interval_value"} <= {*opened}


QUERIES = [
    "SELECT * FROM trials",
    "SELECT trial_id, timer, exclusive FROM function_summary WHERE trial_id = 2",
    "select Trial_ID, timer, inclusive from PPROF where trial_id in (1, 4)",
    "SELECT * FROM callpaths WHERE trial_id = (SELECT max(id) FROM trial)",
    "SELECT * FROM callpaths WHERE trial_id = coalesce(nullif(:t, ''), 3)",
    "SELECT * FROM comparison WHERE trial_id = 1",
    "SELECT trial_id, count(*) FROM interval_value WHERE trial_id = :t GROUP BY trial_id",
    "SELECT count(b.id) FROM thread AS a FULL JOIN launch AS b"
    " ON a.trial_id = b.trial_id AND b.trial_id = 1",
    "WITH a AS (SELECT * FROM steps WHERE trial_id = 4) SELECT * FROM a ORDER BY 1, 2, 3, 4",
    "SELECT * FROM timeline UNION ALL SELECT * FROM timeline ORDER BY 1, 2, 3, 4, 5, 6",
    "SELECT count(*) FROM kernels JOIN user_events USING (trial_id)",
    "SELECT name FROM pragma_table_info('call')",
    "PRAGMA table_info(call)",
    "EXPLAIN QUERY PLAN SELECT * FROM metadata",
    "SELECT nothing FROM trials",
    "DELETE FROM trial",
    "SELEC",
]


@pytest.mark.parametrize(
    ("sql", "value"),
    [(sql, value) for sql in QUERIES for value in ("4", "") if value or ":t" in sql],
)
def test_a_query_has_the_same_answer(both, tmp_path, sql, value):
    file, store = (
        taupy("query", sql, "--param", f"t={value}", "--csv", "--db", db, cwd=tmp_path)
        for db in both
    )
    assert (
        store.returncode,
        sorted(store.stdout.splitlines()),
        store.stderr.replace(both[1], "DB"),
    ) == (file.returncode, sorted(file.stdout.splitlines()), file.stderr.replace(both[0], "DB"))


def test_a_query_copies_only_the_trials_it_names(both, tmp_path, monkeypatch):
    copied = []
    add = LocalCopy.add

    def noted(self, table, trials=None):
        copied.append((table.name, trials))
        return add(self, table, trials)

    monkeypatch.setattr(LocalCopy, "add", noted)
    for sql in (
        "SELECT * FROM callpaths WHERE trial_id = 2",
        "SELECT * FROM callpaths WHERE trial_id = coalesce(nullif('2', ''), 3)",
        "SELECT * FROM callpaths WHERE trial_id = (SELECT min(id) + 1 FROM trial)",
    ):
        assert taupy("query", sql, "--db", both[1], cwd=tmp_path).returncode == 0
    assert {name for name, _ in copied} >= {"call", "interval_value"}
    assert all(trials == {2} for _, trials in copied)


def test_a_query_of_too_much_is_refused(both, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_ROWS", 10)
    refused = taupy("query", "SELECT * FROM callpaths", "--db", both[1], cwd=tmp_path)
    assert refused.returncode == 2 and "WHERE trial_id = " in refused.stderr
