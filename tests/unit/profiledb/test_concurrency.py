"""Several writers at once, killed writers, locks, and disks that are full."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from taupy.errors import DatabaseError
from taupy.profiledb import database, files
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import canonical, small_profile, wide_profile

ROOT = Path(__file__).parents[3]

STORE_ONE = """
import sys
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile
sys.stdin.read(1)
with ProfileDB.open(sys.argv[1], create=True) as db:
    add_profile(db, small_profile(int(sys.argv[2])))
"""

STORE_MANY = """
import sys
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import wide_profile
profile = wide_profile(3000, timers=40)
print("ready", flush=True)
for number in range(10_000):
    profile.uuid = f"{sys.argv[2]}-{number}"
    with ProfileDB.open(sys.argv[1], create=True) as db:
        db.connection.execute("PRAGMA cache_size = 10")  # spill early
        add_profile(db, profile)
    print("stored", flush=True)
"""


def start(code, *arguments, **pipes):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, **pipes)  # where tests.builders is found


@pytest.mark.slow
def test_eight_processes_store_into_one_absent_file(tmp_path):
    path = tmp_path / "taupy.db"
    processes = [
        start(STORE_ONE, path, number, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(1, 9)
    ]
    for process in processes:  # all at once, as near as can be
        process.stdin.write(b"x")
        process.stdin.flush()
    for process in processes:
        _, complaint = process.communicate()
        assert (process.returncode, complaint) == (0, b"")
    with ProfileDB.open(path) as db:
        trials = db.trials()
        assert sorted(trial.uuid[-1] for trial in trials) == list("12345678")
        assert [trial.name for trial in trials] == list("12345678")
        assert db.rows("SELECT count(*) FROM application") == [(1,)]
        assert db.rows("SELECT count(*) FROM timer") == [(3,)]
        assert db.verify() == []


@pytest.mark.slow
def test_a_writer_killed_at_any_moment_leaves_whole_trials_only(tmp_path):
    path = tmp_path / "taupy.db"
    expected = canonical(wide_profile(3000, timers=40)).threads
    for attempt, delay_s in enumerate([0.0, 0.03, 0.0, 0.02, 0.04, 0.06]):
        process = start(STORE_MANY, path, attempt, stdout=subprocess.PIPE)
        process.stdout.readline()  # the first two are killed while the database is made
        if attempt > 1:
            process.stdout.readline()
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with ProfileDB.open(path, create=True) as db:
        assert db.verify() == []
        add_profile(db, wide_profile(3000, timers=40))
        trials = db.trials()
        assert len(trials) > 4
        for trial in {trials[0].id, trials[-2].id, trials[-1].id}:
            assert read_profile(db, trial).threads == expected


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_lock_held_for_a_while_is_waited_for(tmp_path):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        waiting = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
        began = time.monotonic()
        waiting.start()
        assert add_profile(db, small_profile()) == 1
        assert time.monotonic() - began > 0.4
        waiting.join()
        holder.close()


@pytest.mark.parametrize("lock", ["BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM trial"])
def test_a_lock_held_for_ever_is_given_up_in_time(tmp_path, monkeypatch, lock):
    """By a writer: nobody begins; by a reader: nobody commits."""
    monkeypatch.setattr(files, "PATIENCE_S", 0.4)
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1))
        holder = sqlite3.connect(path, isolation_level=None)
        for statement in lock.split(";"):
            holder.execute(statement)
        monkeypatch.setattr(files, "PATIENCE_S", 0.4)
        with pytest.raises(DatabaseError, match="is locked by another program"):
            add_profile(db, small_profile(2))
        holder.close()
        assert add_profile(db, small_profile(2)) == 2
        assert db.verify() == []


def test_a_large_trial_does_not_wait_for_a_reader_at_every_page(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE_S", 0.4)
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        db.connection.execute("PRAGMA cache_size = 10")
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM trial").fetchall()
        wait_for_locks = database.wait_for_locks
        waits_s = []

        def noting(connection, wait_s):
            waits_s.append(wait_s)
            wait_for_locks(connection, wait_s)

        monkeypatch.setattr(database, "wait_for_locks", noting)
        with pytest.raises(DatabaseError, match="is locked by another program"):
            add_profile(db, wide_profile(3000))
        assert waits_s == [0.4, 0, 1.0]  # to begin, for each page, to commit
        holder.close()
        assert db.trials() == []


def test_a_full_file_loses_the_new_trial_only(tmp_path):
    path = tmp_path / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile())
        pages = db.rows("PRAGMA page_count")[0][0]
        db.connection.execute(f"PRAGMA max_page_count = {pages + 5}")
        with pytest.raises(DatabaseError, match="the disk is full"):
            add_profile(db, wide_profile(3000, number=2))
        assert len(db.trials()) == 1
        assert db.verify() == []


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_loses_the_new_trial_only(small_disk):
    path = small_disk / "taupy.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile())
        with pytest.raises(DatabaseError, match="the disk is full"):
            add_profile(db, wide_profile(20_000, number=2))
    with ProfileDB.open(path) as db:
        assert len(db.trials()) == 1
        assert db.verify() == []


def test_a_database_is_not_made_on_a_full_disk(small_disk):
    (small_disk / "filler").write_bytes(b"x" * 500 * 1024)
    with pytest.raises(DatabaseError, match="the disk is full"):
        ProfileDB.open(small_disk / "taupy.db", create=True)
    (small_disk / "filler").unlink()
    with ProfileDB.open(small_disk / "taupy.db", create=True) as db:
        assert db.trials() == []
