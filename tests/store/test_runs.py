"""A run that is meant for a store is stored in a file first, then pushed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.store.reading import StoreDB

pytestmark = pytest.mark.slow


@pytest.fixture
def measured(place):
    """Runs a program for a store; gives what was said."""
    (place.path / "taupy.db").unlink()
    (place.path / "program.py").write_text("def work():\n    return 1\n\n\nwork()\nprint('done')\n")

    def run(*words, **variables):
        ended = subprocess.run(
            [sys.executable, "-m", "taupy", "run", *words, "program.py"],
            cwd=place.path, env={**os.environ, **variables}, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (0, "done\n"), ended
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
    assert "Traceback" not in said and len(said.splitlines()) == 2
    command = said.rpartition("push it later with: ")[2].strip()
    assert command.endswith(f"--to {address}") and len(trials(place.path / "taupy.db")) == 1
    again = command.removeprefix("taupy ").replace(address, place.address).split()
    assert "1 trial added" in place(*again)


def test_an_address_with_a_password_starts_nothing(place):
    said = place("run", "--db", "postgresql://me:secret@host/x", "program.py", code=2)
    assert "secret" not in said and "pgpass" in said
