"""`taupy doctor FILE` as people use it."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

import taupy
from taupy.commands import main
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile
from tests.unit.profiledb.test_files import made_older


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)
    with ProfileDB.open("a.db", create=True) as db:
        add_profile(db, small_profile(1, metadata={"taupy.health.throttled": "f"}))
    return tmp_path


def test_a_sound_file_is_called_so(capsys):
    assert main(["doctor", "a.db"]) == 0
    text = capsys.readouterr().out
    assert "no problems: 1 trial, all invariants hold" in text
    assert "throttled: f" in text


def test_a_fault_is_reported_with_its_trial_and_gives_exit_code_1(capsys):
    with sqlite3.connect("a.db") as connection:
        connection.execute("UPDATE call SET calls = calls + 1 WHERE calls = 3")
    assert main(["doctor", "a.db", "--json"]) == 1
    view = json.loads(capsys.readouterr().out)
    wrong = [row for row in view["rows"] if row["state"] == "PROBLEM"]
    assert {(row["check"], row["trial"]) for row in wrong} == {("laws", 1), ("summary", 1)}
    assert "2 problems" in view["notes"][0]


def test_several_files_at_once(capsys):
    Path("text.db").touch()
    assert main(["doctor", "a.db", "text.db", "none.db", "--csv"]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [
        ["a.db", "note"],
        ["text.db", "PROBLEM"],
        ["none.db", "PROBLEM"],
    ]


def test_an_older_file_is_checked_as_it_is_and_upgraded_when_asked(folder, capsys, monkeypatch):
    from taupy.profiledb import migrations

    before = (folder / "a.db").read_bytes()
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, lambda database: None))
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", migrations.SCHEMA_VERSION + 1)
    assert main(["doctor", "a.db"]) == 0
    assert "older schema" in capsys.readouterr().out
    assert (folder / "a.db").read_bytes() == before
    assert main(["doctor", "a.db", "--upgrade"]) == 0
    captured = capsys.readouterr()
    assert "older schema" not in captured.out
    version = migrations.SCHEMA_VERSION - 1
    assert f"it is kept in a.schema{version}.db" in captured.err


ALONE = (  # commands that need no more words
    *("pprof", "report", "places", "phases", "steps", "ranks", "layers", "memory", "waiting"),
    *("kernel", "trials", "pivot", "roofline", "candidates"),
)
READING = (
    *([name] for name in ALONE),
    ["trials", "show", "1"],
    ["compare", "1", "2"],
    ["derive", "list"],
    ["ceilings", "list"],
    ["doctor", "a.db"],
    ["merge", "a.db", "--into", "b.db"],
    ["sweep", "--by", "threads"],
    ["query", "SELECT * FROM steps"],
    ["export", "1", "-o", "out.folded", "--format", "collapsed"],
)


@pytest.mark.slow
def test_no_reading_changes_an_older_file(folder, capsys):
    with ProfileDB.open("a.db", readonly=False) as db:
        add_profile(db, small_profile(2))
    made_older("a.db", 7)
    before = Path("a.db").read_bytes()
    for words in READING:
        main([*words, *(["--db", "a.db"] if "a.db" not in words else [])])
        assert "schema" not in capsys.readouterr().err, words
    database = taupy.open("a.db")
    assert len(database.trials()) == len(database.sql("SELECT * FROM trials")) == 2
    assert len(database.trial(2).profile())
    assert Path("a.db").read_bytes() == before
    assert sorted(os.listdir()) == ["a.db", "b.db", "out.folded"]

    assert main(["trials", "tag", "1", "good", "--db", "a.db"]) == 0
    assert "it is kept in " in capsys.readouterr().err
    assert Path("a.schema7.db").exists()


def test_the_machine_is_looked_at_without_a_file(capsys):
    main(["doctor", "--json"])
    assert {"check", "state", "text"} == set(json.loads(capsys.readouterr().out)[0])
    main(["doctor", "--csv"])
    assert capsys.readouterr().out.startswith("check,state,text")
