"""`taupy doctor FILE` as people use it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile


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


def test_an_older_file_is_checked_in_a_copy(folder, capsys, monkeypatch):
    from taupy.profiledb import migrations

    before = (folder / "a.db").read_bytes()
    monkeypatch.setattr(migrations, "UPGRADES", (*migrations.UPGRADES, lambda database: None))
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", migrations.SCHEMA_VERSION + 1)
    assert main(["doctor", "a.db"]) == 0
    assert "older schema" in capsys.readouterr().out
    assert (folder / "a.db").read_bytes() == before


def test_the_machine_is_looked_at_without_a_file(capsys):
    main(["doctor", "--json"])
    assert {"check", "state", "text"} == set(json.loads(capsys.readouterr().out)[0])
    main(["doctor", "--csv"])
    assert capsys.readouterr().out.startswith("check,state,text")
