"""A run that is meant for a store is stored in a file first, then pushed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.store.reading import StoreDB
from tests.integration.conftest import names_next

pytestmark = pytest.mark.slow


@pytest.fixture
def measured(place):
    """Runs a program for a store; gives what was said."""
    (place.path / "taupy.db").unlink()
    (place.path / "program.py").write_text("def work():\n    return 1\n\n\nwork()\nprint('done')\n")

    def run(*words, code=0, **variables):
        ended = subprocess.run(
            [sys.executable, "-m", "taupy", "run", *words, "program.py"],
            cwd=place.path, env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert ended.returncode == code and "Traceback" not in ended.stderr, ended
        return ended.stderr

    return run


def trials(path):
    with ProfileDB.open(path) as db:
        return {trial.uuid for trial in db.trials()}


def test_a_run_is_in_the_file_and_in_the_store(place, measured):
    assert f"pushed to {place.address} as trial 1" in measured("--db", place.address)
    assert f"pushed to {place.address} as trial 2" in measured(TAUPY_DB=place.address)
    with StoreDB(place.address) as store:
        there = {trial.uuid for trial in store.trials()}
    assert len(there) == 2 and there == trials(place.path / "taupy.db")
    assert "work" in place("pprof", "2", "--db", place.address)


def test_a_store_that_is_not_there_loses_no_run(place, measured):
    address = f"postgresql://nobody@/none?host={place.path}"
    said = measured("--db", address)
    stored, following, missing = said.splitlines()
    assert stored.startswith("taupy: trial 1: ") and " --to " in missing
    assert names_next(following, "taupy report 1")
    assert len(trials(place.path / "taupy.db")) == 1
    assert "1 trial added" in later(place, said, address)


def later(place, said, address):
    """Does what a message advises, for a store that is there."""
    program, *words = shlex.split(said.rpartition(": taupy ")[2].splitlines()[0])
    assert (program, words[-1]) == ("push", address)
    return place(program, *words[:-1], place.address)


def in_both(place, count):
    """The trials of the store, which are those of the file, in content, too."""
    said = place("push", "--to", place.address)
    assert "already there" in said and "added" not in said and "completed" not in said
    with StoreDB(place.address) as store:
        assert {trial.uuid for trial in store.trials()} == trials(place.path / "taupy.db")
        assert len(store.trials()) == count
        return store.trials()


def test_a_sweep_is_in_the_store(place, measured):
    (place.path / "program.py").write_text("import sys\nsum(range(int(sys.argv[1])))\n")
    said = measured(
        "--db", place.address, "--sweep", "n=10,20", "--repeat", "2", "program.py", "{n}"
    )
    assert said.count("pushed to") == 4 and "4 of 4 runs done" in said
    in_both(place, 4)
    summary = said.rpartition("`taupy ")[2].partition("`")[0]
    assert "10" in place(*shlex.split(summary))


def test_times_and_counters_of_two_runs_are_one_trial_in_the_store(place, measured):
    said = measured("--db", place.address, "--twice", "--metrics", "page_faults")
    if "page_faults" not in said:
        pytest.skip(said)
    assert said.count("pushed to") == 2
    in_both(place, 1)
    assert "page_faults" in place("trials", "show", "1", "--db", place.address)
    measured("--db", place.address)
    (place.path / "taupy.db").unlink()  # whence it is pulled
    measured("--db", place.address, "--merge-into", "2", "--metrics", "page_faults")
    assert "page_faults" in place("trials", "show", "2", "--db", place.address)


def test_the_rank_that_ends_last_pushes_the_job(place, measured):
    rank = {"WORLD_SIZE": "2", "MASTER_PORT": "1"}
    said = measured("--db", place.address, "--run-id", "job", RANK="0", **rank)
    assert "rank 1 is missing" in said
    assert "1 trial added" in later(place, said, place.address)
    said = measured("--db", place.address, "--run-id", "job", RANK="1", **rank)
    assert f"pushed to {place.address} as trial 1" in said
    in_both(place, 1)
    assert place("trials", "show", "1", "--csv", "--db", place.address).count("Ranks") == 2


def wait_for_incomplete(place, count):
    """Wait until the watches of killed programs have pushed what they stored."""
    until = time.monotonic() + 60
    while place("trials", "--csv", "--db", place.address).count("incomplete") < count:
        assert time.monotonic() < until, "waited in vain"


def test_what_was_killed_is_pushed(place, measured):
    (place.path / "program.py").write_text(
        "import os, signal\ndef work():\n    os.kill(os.getpid(), signal.SIGKILL)\nwork()\n"
    )
    measured("--db", place.address, code=-9)
    assert not (place.path / "taupy.db").exists()
    wait_for_incomplete(place, 1)
    in_both(place, 1)
    measured("--db", place.address, code=-9)
    said = place("trials", "--db", "taupy.db")
    assert said.count("incomplete") == 2
    wait_for_incomplete(place, 2)
    in_both(place, 2)


def test_what_is_imported_is_in_the_file_and_in_the_store(place, measured):
    (place.path / "a.collapsed").write_text("main;work 3\nmain 1\n")
    (place.path / "b.collapsed").write_text("main;rest 5\n")
    said = place("import", "a.collapsed", "b.collapsed", "--db", place.address)
    assert said.count(f"pushed to {place.address}") == 2
    in_both(place, 2)
    away = f"postgresql://nobody@/none?host={place.path}"
    said = place("import", "b.collapsed", "--db", away, code=1)
    assert len(trials(place.path / "taupy.db")) == 3
    assert "1 trial added" in later(place, said, away)


def test_the_runs_of_a_gate_are_in_the_store(place, measured):
    words = ("gate", "--baseline", "program.py", "--fail-on", "calls of work > +0", "--quiet")
    said = place(*words, "--max-pairs", "2", "--db", place.address, "--", "program.py", code=4)
    assert f"pushed to {place.address} as trials 1, 2, 3, 4" in said
    in_both(place, 4)
    away = f"postgresql://nobody@/none?host={place.path}"
    said = place(*words, "--max-pairs", "1", "--db", away, "--", "program.py", code=4)
    assert "2 trials added" in later(place, said, away)


def test_ceilings_that_are_kept_are_in_the_file_and_in_the_store(place, measured):
    words = ("ceilings", "datasheet", "H100 SXM5", "--csv", "--keep", "--db")
    kept = place(*words, place.address)
    listed = place("ceilings", "list", "--csv", "--db", place.address)
    assert sorted(listed.splitlines()) == sorted(kept.splitlines())
    away = f"postgresql://nobody@/none?host={place.path}"
    assert place(*words, away) == kept
    assert place("ceilings", "list", "--csv", "--db", "taupy.db") == listed


def test_push_and_pull_know_the_store_of_the_environment(place, monkeypatch):
    assert "name the store" in place("push", code=2)
    monkeypatch.setenv("TAUPY_DB", place.address)
    assert "6 trials added" in place("push")
    assert "6 trials already there" in place("pull", "*")


def test_an_address_with_a_password_starts_nothing(place):
    (place.path / "program.py").write_text("open('started', 'w')")
    said = place("run", "--db", "postgresql://me:secret@host/x", "program.py", code=2)
    assert "secret" not in said and "pgpass" in said
    assert not (place.path / "started").exists()
