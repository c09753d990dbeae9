"""A database that somebody keeps locked delays no program's end, and loses no profile."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time

import pytest

HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2].split(";"):
    connection.execute(statement).fetchall()
cursor = connection.execute("SELECT * FROM trial") if "SELECT" in sys.argv[2] else None
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("lock", ["BEGIN; SELECT * FROM trial", "BEGIN IMMEDIATE"])
def test_a_run_waits_in_its_folder_and_the_watch_stores_it(runs, native, lock):
    runs.run("")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, runs.database, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        done = runs.run("def mark(): pass\nmark()\nprint('ok')")
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
        assert "is locked by another program; try again later: the run waits in " in done.stderr
        (folder,) = runs.state.glob("run-*")
        assert str(folder) in done.stderr
        holder.stdin.close()
    while folder.exists():  # the watch, of itself
        time.sleep(0.05)
    assert runs.calls()["mark"] == 1
    assert runs.one("SELECT count(*) FROM trial") == 2
    assert not [*runs.folder.glob("*.taupy-run")]


@pytest.mark.slow
def test_without_a_watch_a_run_is_rescued_at_once(runs, native):
    runs.run("")
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(runs.database, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        (runs.folder / "held").touch()
        while (runs.folder / "held").exists():
            time.sleep(0.02)
        os._exit(0)
    while not (runs.folder / "held").exists():
        time.sleep(0.02)
    try:
        done = runs.run("print('ok')", "--no-watch")
    finally:
        (runs.folder / "held").unlink()
        os.waitpid(child, 0)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    (rescued,) = runs.folder.glob("*.taupy-run")
    assert f"taupy import {rescued}" in done.stderr
