"""`taupy trials` and `taupy query` as people use them."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.profiledb import pages
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import database_at, small_profile


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Here stands taupy.db with the trials 1 mnist/lr/1, 2 mnist/lr/2, 3 ESC/lr/1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)
    with database_at("taupy.db") as db:
        for number, application in enumerate(["mnist", "mnist", "\x1b[31mred"], 1):
            add_profile(db, small_profile(number, application=application, experiment="lr"))
    return tmp_path


@pytest.fixture
def taupy(capsys):
    """Runs a command: exit code, standard output, standard error."""

    def run(*arguments):
        code = main(arguments)
        return (code, *capsys.readouterr())

    return run


def trials():
    with ProfileDB.open("taupy.db") as db:
        return {trial.id: (trial.name, trial.tags) for trial in db.trials()}


def test_trials_are_listed_for_people_and_programs(taupy):
    code, text, complaint = taupy("trials", "mnist")
    assert (code, complaint) == (0, "")
    assert text.splitlines()[-2:] == [
        " 2 mnist       lr         2     2023-11-14 22:13:20   2.00 s    0 complete",
        " 1 mnist       lr         1     2023-11-14 22:13:20   2.00 s    0 complete",
    ]
    rows = list(csv.DictReader(io.StringIO(taupy("trials", "--csv")[1])))
    assert [row["id"] for row in rows] == ["3", "2", "1"]
    assert rows[2]["duration_ns"] == "2000000000"
    rows = json.loads(taupy("trials", "--json")[1])["rows"]
    assert rows[0]["application"] == "\x1b[31mred"
    assert "| 1 | mnist |" in taupy("trials", "--markdown")[1]


def test_the_runs_of_a_gate_or_sweep_are_one_row(taupy):
    with database_at("taupy.db") as db:
        for number in range(4, 10):
            facts = {"gate": "g1"} if number < 8 else {"sweep": "s1", "sweep.over": "n"}
            add_profile(db, small_profile(number, application=f"app{number % 2}", name=str(number),
                                          experiment="gate", metadata=facts))  # fmt: skip
        last = [dict(zip(("id", "runs"), (row[0], row[11]), strict=True))
                for row in db.rows(pages.LATEST_TRIALS)]  # fmt: skip
    _, text, _ = taupy("trials")
    ids = [line.split()[0] for line in text.splitlines() if line.split()[0].isdigit()]
    assert ids == ["9", "7", "3", "2", "1"]
    assert "app0, app1" in text and "gate: 4 runs, 4 to 7" in text
    assert "sweep: 2 runs, 8 to 9" in text
    assert "note: the runs of a gate or sweep are one row" in text
    assert "7 older trials not shown" in taupy("trials", "-n", "1")[1]
    assert len(json.loads(taupy("trials", "--json")[1])["rows"]) == 9
    assert "gate: " not in taupy("trials", "app0")[1]
    assert last == [{"id": 9, "runs": 2}, {"id": 7, "runs": 4}, *(
        {"id": id, "runs": 1} for id in (3, 2, 1))]  # fmt: skip


def test_control_characters_never_reach_the_terminal(taupy):
    outputs = [taupy("trials"), taupy("trials", "show"), taupy("trials", "tag", "3", "\x1b[2J")]
    outputs += [taupy("trials", "delete", "3"), taupy("trials", "rename", "3", "\x07")]
    outputs += [taupy("trials", "\x1b[1m"), taupy("query", "SELECT '\x1b[1m' AS \"\x1b[2m\"")]
    for _, text, complaint in outputs:
        assert "\x1b" not in text + complaint
        assert "\x07" not in text + complaint
    assert "\\x1b[31mred/lr/1" in outputs[3][2]


def test_a_trial_is_shown_with_its_metadata(taupy):
    views = json.loads(taupy("trials", "show", "1", "--json")[1])
    assert [view["title"] for view in views] == ["TRIAL 1: mnist/lr/1", "NODE 0"]
    facts = {row["name"]: row["value"] for row in views[0]["rows"]}
    assert facts["Threads"] == "2"
    assert facts["Metrics"] == "time [ns], misses [count]"
    assert facts["Command"] == "app.py --fast"
    assert views[1]["rows"] == [{"name": "PID", "value": "4711"}]
    assert "TRIAL 3" in taupy("trials", "show")[1]


def test_an_empty_database_says_how_to_fill_it(taupy):
    ProfileDB.open("empty.db", create=True).close()
    code, text, _ = taupy("trials", "--db", "empty.db")
    assert code == 0
    assert "has no trials; `taupy run SCRIPT` adds one" in text


def test_rename_tag_and_untag(taupy):
    assert taupy("trials", "rename", "1", "best")[0] == 0
    assert taupy("trials", "tag", "mnist", "base")[2] == (
        "taupy: tagged 'base': 1 mnist/lr/best, 2 mnist/lr/2\n"
    )
    assert taupy("trials", "untag", "2", "base")[0] == 0
    assert trials() == {1: ("best", ("base",)), 2: ("2", ()), 3: ("1", ())}
    assert "1 mnist       lr         best" in taupy("trials", "tag:base")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trials", "rename", "mnist", "x"], 2, "matches 2 trials"),
        (["trials", "rename", "1"], 2, "write: taupy trials rename TRIAL NAME"),
        (["trials", "rename", "1", ""], 2, "must not be empty"),
        (["trials", "delete", "", "--yes"], 2, "an empty text names no trial"),
        (["trials", "tag", "1", " "], 2, "a tag must not"),
        (["trials", "untag", "1", "x"], 1, r"has no tag 'x' (tags: none)"),
        (["trials", "show", "1", "2"], 2, "one trial at a time"),
        (["trials", "delete"], 2, "name the trials"),
        (["trials", "--yes"], 2, "apply to `taupy trials delete"),
        (["trials", "delete", "nothing"], 1, "no trial matches 'nothing'"),
        (["trials", "--db", "none.db"], 1, "there is no database"),
        (["query", "DROP TABLE trial"], 2, "queries may only read"),
        (["query", "SELECT :x", "--param", "x"], 2, "--param takes NAME=VALUE"),
        (["query", "SELECT 1", "--limit", "-1"], 2, "0 or more"),
        (["query", "SELECT 1", "--db", "none.db"], 1, "there is no database"),
        (["query", "SELECT * FROM tirals"], 2, "no such table: tirals; did you mean trials"),
        (["query", "SELECT * FROM x"], 2, "no such table: x (it has: activity, application, "),
        (["trials", "delte", "1"], 2, "did you mean `taupy trials delete`?"),
        (["trials", "delte"], 1, "no trial matches 'delte'"),
        (["trials", "xyz", "1"], 1, "no trial matches 'xyz'"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(taupy, arguments, code, message):
    before = trials()
    found, text, complaint = taupy(*arguments)
    assert (found, text, complaint.count("\n")) == (code, "", 1)
    assert message in complaint
    assert trials() == before


def test_delete_does_nothing_unasked_where_nobody_can_answer(taupy, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, _, complaint = taupy("trials", "delete", "mnist")
    assert code == 2
    assert complaint == "taupy: would delete 1 mnist/lr/1, 2 mnist/lr/2; confirm with --yes\n"
    assert set(trials()) == {1, 2, 3}


def test_delete_with_yes(taupy):
    assert taupy("trials", "delete", "mnist", "--yes", "--compact")[0] == 0
    assert set(trials()) == {3}


@pytest.mark.parametrize(("answer", "left"), [("y", {1, 3}), ("n", {1, 2, 3}), ("", {1, 2, 3})])
def test_delete_asks_on_a_terminal(folder, answer, left):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "taupy", "trials", "delete", "2"]
    process = subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, text=True)
    os.write(ours, f"{answer}\n".encode())
    _, asked = process.communicate(timeout=120)
    os.close(ours)
    os.close(theirs)
    assert "Delete this trial from" in asked
    assert process.returncode == (0 if answer == "y" else 1)
    assert set(trials()) == left


def test_a_query_in_every_form(taupy, monkeypatch):
    statement = "SELECT short_name AS routine, line FROM timer WHERE line > :line ORDER BY line"
    asked = ["query", statement, "--param", "line=1"]
    assert taupy(*asked, "--csv")[1] == "routine,line\nf,3\ng,9\n"
    assert json.loads(taupy(*asked, "--json")[1])["rows"] == [
        {"routine": "f", "line": 3},
        {"routine": "g", "line": 9},
    ]
    assert taupy(*asked)[1].split()[-4:] == ["f", "3", "g", "9"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(statement))
    assert taupy("query", "-", "--param", ":line=3", "--csv")[1] == "routine,line\ng,9\n"


def test_parameters_are_numbers_where_they_look_like_one(taupy):
    params = ["--param", "a=12", "--param", "b=0.5", "--param", "c=x=y", "--param", f"d={2**64}"]
    statement = "SELECT typeof(:a), typeof(:b), :c, typeof(:d)"
    assert taupy("query", statement, *params, "--csv")[1].splitlines()[1] == (
        "integer,real,x=y,text"
    )


def test_a_long_answer_is_cut_and_says_so(taupy):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    code, text, complaint = taupy("query", endless, "--limit", "2", "--csv")
    assert (code, text) == (0, "x\n1\n2\n")
    assert complaint == "taupy: only the first 2 rows; --limit N shows more\n"
    assert "only the first 2 rows" in taupy("query", endless, "--limit", "2")[1]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_ctrl_c_ends_an_endless_query_with_130(folder):
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    process = subprocess.Popen(
        [sys.executable, "-m", "taupy", "query", endless], stderr=subprocess.PIPE
    )
    while cpu_seconds(process.pid) < 1:  # it is at it: starting takes a third of that
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=120)
    said = b"taupy: stopped by Ctrl-C; nothing is left half written\n"
    assert (process.returncode, complaint) == (130, said)


def test_the_newest_trials_come_first_and_as_many_as_wanted(taupy):
    ids = [row["id"] for row in json.loads(taupy("trials", "--json")[1])["rows"]]
    assert ids == sorted(ids, reverse=True) and len(ids) == 3
    newest = json.loads(taupy("trials", "-n", "2", "--json")[1])
    assert [row["id"] for row in newest["rows"]] == ids[:2]
    assert newest["notes"] == ["1 older trial not shown (--limit)"]
    assert taupy("trials", "show", "1", "-n", "2")[0] == 2


def test_a_note_and_own_facts_are_set_changed_and_removed(taupy):
    assert taupy("trials", "note", "1", "with the old driver")[0] == 0
    code, _, said = taupy("trials", "set", "mnist", "Rack=12")
    assert (code, "Rack is now '12'" in said) == (0, True)
    assert "(was '12')" in taupy("trials", "set", "2", "Rack=13")[2]
    shown = taupy("trials", "show", "1")[1]
    assert "with the old driver" in shown
    assert [line.split() for line in shown.splitlines() if "Rack" in line] == [["Rack", "12"]]
    taupy("trials", "set", "1", "Rack=")
    taupy("trials", "note", "1", "")
    assert not {"Rack", "Note"} & set(taupy("trials", "show", "1")[1].split())
    assert taupy("trials", "set", "1", "Rack")[0] == 2
    assert taupy("trials", "set", "1", "taupy.snapshot=1")[0] == 2


def found(taupy, *words):
    rows = csv.DictReader(io.StringIO(taupy("trials", "search", *words, "--csv")[1]))
    return sorted(int(row["id"]) for row in rows)


def test_trials_are_found_by_what_is_said_about_them_and_by_their_routines(taupy):
    taupy("trials", "note", "2", 'the "old" driver')
    taupy("trials", "tag", "3", "Über-base")
    assert found(taupy, "MNI") == [1, 2]
    assert found(taupy, "mnist", "driver") == [2]
    assert found(taupy, '"old" dri') == [2]
    assert found(taupy, "über") == [3]
    routine = small_profile(1).timers[1].name.split()[0]
    assert found(taupy, routine) == [1, 2, 3]
    assert found(taupy, routine, "über") == [3]
    code, text, _ = taupy("trials", "search", "nowhere", "mnist")
    assert (code, "has nowhere and mnist" in text) == (1, True)
    assert taupy("trials", "search")[0] == 2


def test_small_changes_are_made_by_sqlite_utils(taupy, monkeypatch):
    """Running and reading do without it, a change says what is missing and changes nothing."""
    monkeypatch.setitem(sys.modules, "sqlite_utils", None)
    assert taupy("trials")[0] == 0
    before = trials()
    for change in ("rename 1 new", "tag 1 t", "note 1 n", "set 1 a=b", "delete 1 --yes"):
        code, _, said = taupy("trials", *change.split())
        assert code == 1
        assert "pip install 'sqlite-utils" in said
    assert taupy("trials", "search", "mnist")[0] == 1
    assert trials() == before
