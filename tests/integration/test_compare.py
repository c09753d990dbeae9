"""What compare says of real runs agrees with what was changed between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PROGRAM = """
import sys

def leaf(n):
    return sum(range(n))

def step(work):
    for _ in range(work):
        leaf(50)

def extra():
    return 1

if __name__ == "__main__":
    for _ in range(10):
        step(int(sys.argv[1]))
    if len(sys.argv) > 2:
        extra()
"""


def compared(runs, *arguments):
    done = runs.taupy("compare", "--db", str(runs.database), *arguments, "--json")
    assert done.stdout, done.stderr
    views = {view["title"].split(":")[0]: view["rows"] for view in json.loads(done.stdout)}
    return done.returncode, views


@pytest.mark.slow
def test_counts_follow_the_argument_that_was_changed(runs, native):
    runs.run(PROGRAM, "--engine", native, arguments=("20",))
    runs.run(PROGRAM, "--engine", native, arguments=("30", "more"))
    code, views = compared(runs, "1", "2", "--value", "calls")
    assert code == 0
    found = {row["short_name"]: row for row in views["ROUTINES"] if row["file"] == "prog.py"}
    calls = {name: (row["a_call"], row["b_call"]) for name, row in found.items()}
    assert calls["leaf"] == (200, 300)
    assert calls["step"] == (10, 10)
    assert calls["extra"] == (None, 1) and found["extra"]["in"] == "only B"
    facts = [(row["kind"], row["name"], row["a"], row["b"]) for row in views["NOT THE SAME"]]
    assert facts == [("arguments", "Command Line", "prog.py 20", "prog.py 30 more")]


def test_a_gate_on_counts(runs, native):
    runs.run(PROGRAM, arguments=("20",))
    runs.taupy("trials", "--db", str(runs.database), "tag", "latest", "base")
    gate = ("--baseline", "tag:base", "latest", "--fail-on", "calls of leaf > +10%")
    runs.run(PROGRAM, arguments=("20",))
    assert compared(runs, *gate)[0] == 0
    runs.run(PROGRAM, arguments=("23",))
    assert compared(runs, *gate)[0] == 4  # other arguments
    assert compared(runs, *gate, "--allow", "arguments")[0] == 3


def test_an_edited_program_is_compared_routine_by_routine(runs, native):
    runs.run(PROGRAM, arguments=("20",))
    runs.run("\n\n\n" + PROGRAM, arguments=("20",))
    _, views = compared(runs, "1", "2", "--by", "callpath", "--value", "calls", "--filter", "leaf")
    (row,) = views["CALL PATHS"]
    assert (row["a_call"], row["b_call"], row["match"]) == (200, 200, "moved")


@pytest.mark.slow
def test_an_example_under_two_settings(runs, native):
    script = str(EXAMPLES / "threads.py")
    for blocks in ("2", "5"):
        done = runs.taupy("run", "--db", str(runs.database), script, "--blocks", blocks)
        assert done.returncode == 0, done.stderr
    _, views = compared(runs, "1", "2", "--value", "calls", "--filter", "block [{threads.py}")
    calls = {row["short_name"]: (row["a_call"], row["b_call"]) for row in views["ROUTINES"]}
    assert calls == {"make_block": (2, 5), "compress_block": (2, 5)}
    facts = {row["name"]: (row["a"], row["b"]) for row in views["NOT THE SAME"]}
    assert facts["Command Line"] == ("threads.py --blocks 2", "threads.py --blocks 5")
