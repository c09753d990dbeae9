"""`taupy gate`: a baseline and a candidate in turns until the conditions are decided."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

PROGRAM = """\
import sys, time
def work(milliseconds):
    time.sleep(milliseconds / 1000)
def helper():
    pass
for _ in range(int(sys.argv[2])):
    helper()
work(float(sys.argv[1]))
"""


@pytest.fixture
def gate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "prog.py").write_text(PROGRAM)

    def run(*words):
        command = [sys.executable, "-m", "taupy", "gate", "--db", "gate.db", *words]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    return run


def trials(folder):
    with sqlite3.connect(folder / "gate.db") as connection:
        return connection.execute("SELECT name FROM trial ORDER BY id").fetchall()


def stored(folder):
    try:
        return trials(folder)
    except sqlite3.Error:
        return []


@pytest.mark.slow
def test_a_slower_candidate_fails_after_the_fewest_pairs_that_can_tell(gate, tmp_path):
    done = gate("--baseline", "prog.py 5 1", "--fail-on", "time of work > +50%", "--json",
                "--", "prog.py", "80", "1")  # fmt: skip
    assert done.returncode == 3, done.stderr
    view = json.loads(done.stdout)
    assert view["title"] == "GATE FAILED: time of work > +50%"
    (row,) = view["rows"]
    assert row["verdict"] == "FAILED" and row["name"].startswith("work ")
    assert row["ratio_low"] > 1.5
    names = [name.rpartition(" ")[0] for (name,) in trials(tmp_path)]
    assert names[:4] == ["baseline 1", "candidate 1", "candidate 2", "baseline 2"]
    assert len(names) == 14
    assert "7 pairs; 1 of 1 decided" in done.stderr


@pytest.mark.slow
def test_calls_are_decided_after_three_pairs_and_the_worst_condition_counts(gate, tmp_path):
    done = gate("--baseline", "prog.py 0 7", "--fail-on", "calls of helper > +0",
                "--fail-on", "calls of work > +0", "--", "prog.py", "0", "8")  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("GATE FAILED: calls of helper > +0; calls of work > +0")
    assert len(trials(tmp_path)) == 6


@pytest.mark.slow
def test_a_routine_of_the_old_script_is_that_of_the_new_one(gate, tmp_path):
    (tmp_path / "new.py").write_text(PROGRAM)
    done = gate("--baseline", "prog.py 0 7", "--fail-on", "calls of helper > +0",
                "--fail-on", "calls of work > +0", "--", "new.py", "0", "21")  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "note: judged 2: 1 failed, 0 undecided, 1 passed" in done.stdout


@pytest.mark.slow
def test_a_condition_that_can_judge_nothing_ends_the_gate_undecided(gate, tmp_path):
    (tmp_path / "new.py").write_text(PROGRAM.replace("helper", "assistant"))
    done = gate("--baseline", "prog.py 0 7", "--fail-on", "calls of helper > +0",
                "--", "new.py", "0", "7")  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "note: judged 0: 0 failed, 1 undecided, 0 passed" in done.stdout
    assert len(trials(tmp_path)) == 2


@pytest.mark.slow
def test_metrics_of_conditions_are_measured(gate):
    conditions = ("--fail-on", "cpu_time of work > +5%", "--fail-on", "cpu_time > +5%")
    done = gate("--baseline", "prog.py 0 1", *conditions, "--max-pairs", "1", "--json",
                "--", "prog.py", "0", "1")  # fmt: skip
    assert done.returncode == 4, done.stderr
    found = {row["condition"]: row for row in json.loads(done.stdout)["rows"]}
    assert 0 < found["cpu_time of work > +5%"]["value_a"] < found["cpu_time > +5%"]["value_a"]


@pytest.mark.slow
def test_flop_that_no_counter_counted_are_judged_as_the_program_derives_them(gate, tmp_path):
    text = (
        "import taupy\ndef work():\n    taupy.user_event('flop_fp64', 'flop').sample({})\nwork()\n"
    )
    (tmp_path / "old.py").write_text(text.format(1e9))
    (tmp_path / "new.py").write_text(text.format(2e9))
    conditions = ["total flop > +5%", "flop of work > +5%", "flop of work > +1e8"]
    words = [word for condition in conditions for word in ("--fail-on", condition)]
    done = gate("--baseline", "old.py", *words, "--max-pairs", "1", "--json", "--", "new.py")
    assert done.returncode == 4, done.stderr  # one pair decides nothing
    rows = json.loads(done.stdout)["rows"]
    assert {row["condition"] for row in rows} == {*conditions}
    assert {(row["value_a"], row["value_b"]) for row in rows} == {(1e9, 2e9)}
    unknown = gate("--baseline", "old.py", "--fail-on", "flop of nosuch > +5%", "--", "new.py")
    assert unknown.returncode == 2 and "no routine with flop matches 'nosuch'" in unknown.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_gate_that_is_stopped_prints_what_it_knows(gate, tmp_path, number):
    command = [sys.executable, "-m", "taupy", "gate", "--db", "gate.db", "--baseline",
               "prog.py 1 1", "--fail-on", "time > +1%", "--", "prog.py", "1", "1"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    while not (tmp_path / "gate.db").exists() or len(stored(tmp_path)) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.startswith("GATE UNDECIDED: time > +1%")
    assert "note: stopped after 1 pair" in out or "note: stopped after 2 pairs" in out


def test_a_command_that_run_refuses_is_refused_by_the_gate(gate):
    done = gate("--baseline", "--nonsense prog.py", "--fail-on", "time > +5%", "--", "prog.py")
    assert done.returncode in (1, 2)
    assert "nonsense" in done.stderr


@pytest.mark.slow
def test_a_spent_budget_leaves_the_gate_undecided(gate, tmp_path):
    words = ("--baseline", "prog.py 1 1", "--fail-on", "time of work > +50%", "--budget", "0s")
    done = gate(*words, "--", "prog.py", "1", "1")
    assert done.returncode == 4, done.stderr
    assert "too few pairs to tell: 1, and 7 are needed" in done.stdout
    assert len(trials(tmp_path)) == 2
    assert gate(*words, "--undecided", "pass", "--", "prog.py", "1", "1").returncode == 0


@pytest.mark.slow
def test_a_run_that_fails_is_no_evidence(gate):
    done = gate("--baseline", "prog.py 1 1", "--fail-on", "time > +5%", "--", "prog.py", "x", "1")
    assert done.returncode == 1
    assert "pair 1: the candidate failed with exit code 1; the gate cannot judge" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("tme > +5%", "has no metric 'tme'"),
        ("time of wrok > +5%", "no routine or kernel matches 'wrok' (near it: work"),
    ],
)
def test_a_condition_on_nothing_is_refused_after_the_first_pair(gate, tmp_path, condition, problem):
    done = gate("--baseline", "prog.py 1 1", "--fail-on", condition, "--", "prog.py", "1", "1")
    assert done.returncode == 2
    assert problem in done.stderr.splitlines()[-1]
    assert len(trials(tmp_path)) == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--baseline", "a.py", "--fail-on", "time > +5%"], "the candidate's command is missing"),
        (["--baseline", "", "--fail-on", "time > +5%", "--", "b.py"], "command is empty"),
        (["--baseline", "'a", "--fail-on", "time > +5%", "--", "b.py"], "cannot be split"),
        (["--baseline", "a.py", "--fail-on", "time > 5 s", "--", "b.py"], "needs no baseline"),
        (["--baseline", "a.py", "--fail-on", "nonsense", "--", "b.py"], "is not a condition"),
        (["--baseline", "a.py", "--fail-on", "time > +5%", "--budget", "x", "--", "b.py"],
         "is not a time such as"),
        (["--baseline", "a.py", "--", "b.py"], "--fail-on"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_before_anything_runs(gate, tmp_path, words, problem):
    done = gate(*words)
    assert done.returncode == 2
    assert problem in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "gate.db").exists()
