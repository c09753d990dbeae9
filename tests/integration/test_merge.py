"""`taupy merge` as people use it: what it says, and what a kill leaves."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, small_profile, wide_profile


def fill(path, *profiles):
    with ProfileDB.open(path, create=True) as db:
        for profile in profiles:
            add_profile(db, profile)


def test_what_merge_says(runs):
    fill(runs.folder / "a.db", small_profile(1))
    fill(runs.folder / "b.db", small_profile(2), gpu_profile(3), small_profile(1))
    first = runs.taupy("merge", "a.db", "b.db")
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.splitlines() == [
        "taupy: b.db: 2 trials added (1 is 2, 2 is 3), 1 trial already there",
        "taupy: b.db: note: renamed because the name was taken: app/default/1 is app/default/2",
    ]
    again = runs.taupy("merge", "a.db", "b.db")
    assert again.stderr == "taupy: b.db: 3 trials already there\n"
    moved = runs.taupy("merge", "b.db", "--into", "new.db", "--trial", "train", "--move")
    assert moved.stderr == "taupy: b.db: 1 trial moved (2)\n"
    listed = runs.taupy("trials", "--db", "b.db", "--csv").stdout
    assert listed.count(",app,default,") == 2 and ",train,default," not in listed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.db",), "name more files"),
        (("a.db", "a.db"), "named twice"),
        (("a.db", "none.db"), "there is no database none.db"),
        (("a.db", "a.txt"), "not a trial database"),
        (("a.db", "b.db", "--trial", "nothing"), "no trial matches 'nothing'"),
    ],
)
def test_a_refusal_is_one_line(runs, arguments, words):
    fill(runs.folder / "a.db", small_profile(1))
    fill(runs.folder / "b.db", small_profile(2))
    (runs.folder / "a.txt").write_text("x" * 200)
    before = (runs.folder / "a.db").read_bytes()
    result = runs.taupy("merge", *arguments)
    assert result.returncode in (1, 2)
    assert result.stderr.count("\n") == 1 and words in result.stderr
    assert (runs.folder / "a.db").read_bytes() == before


@pytest.mark.slow
def test_a_kill_leaves_the_old_trials_or_the_new_ones(runs):
    fill(runs.folder / "a.db", small_profile(1))
    fill(runs.folder / "b.db", wide_profile(20_000, number=2), small_profile(3))
    fill(runs.folder / "c.db", wide_profile(20_000, number=4))
    old = (runs.folder / "a.db").read_bytes()
    command = [sys.executable, "-m", "taupy", "merge", "target.db", "b.db", "c.db"]
    seen = set()
    for step in range(12):
        (runs.folder / "target.db").write_bytes(old)
        merging = subprocess.Popen(command, cwd=runs.folder, env=runs.environ())
        time.sleep(0.05 * step)
        merging.send_signal(signal.SIGKILL)
        merging.wait()
        with sqlite3.connect(runs.folder / "target.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            seen.add(connection.execute("SELECT count(*) FROM trial").fetchone()[0])
    assert seen <= {1, 4} and 1 in seen
