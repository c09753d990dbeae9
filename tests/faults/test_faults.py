"""Every n-th write, mmap, open, ... of taupy's fails: the program does not notice.

Its output and exit status are those under plain `python`. The profile is whole, or the trial is
marked as incomplete and its counts are lower bounds, or a line says that there is none. Nothing is
left behind once disk and memory are well again.

`make faults` tries every n up to 12; CI tries two of them. `inject.c` decides what fails.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import preloads
from tests.integration.conftest import Runs, engine, runs  # noqa: F401 - fixtures

pytestmark = pytest.mark.slow
EVERY = range(1, int(os.environ.get("TAUPY_FAULTS", "0")) + 1) or (1, 3)

DISK = (errno.ENOSPC, errno.EIO)
OPENS = "open,open64,openat,openat64"
SPACE = "ftruncate,ftruncate64,fallocate,fallocate64,posix_fallocate,posix_fallocate64"
WRITES = "write,pwrite,pwrite64"
FAULTS = {
    OPENS: (errno.EMFILE, errno.EACCES, errno.ENOSPC),
    WRITES: DISK,
    "read,pread,pread64": (errno.EIO,),
    SPACE: DISK,
    "mmap,mmap64": (errno.ENOMEM, errno.EAGAIN),
    "malloc": (errno.ENOMEM,),
    "rename,renameat": DISK,
    "unlink,unlinkat": (errno.EIO,),
    "fsync,fdatasync": (errno.EIO,),
    "fork,posix_spawn,pthread_create": (errno.EAGAIN, errno.ENOMEM),
    f"{OPENS},{WRITES},{SPACE},mmap,mmap64,madvise": (errno.ENOSPC,),
}

# Two threads, a fork, a new interpreter, and more routines than the first chunk of a part holds.
PROGRAM = """
import os, subprocess, sys, taupy, threading
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
def many(first, last):
    for n in range(first, last):
        exec(compile(f"def f{n}(): pass\\nf{n}()", "prog.py", "exec"), {})
with taupy.phase("first"):
    with taupy.timer("t"): work(0)
    taupy.user_event("size", "bytes").sample(2.5)
taupy.metadata("fact", "value")
taupy.snapshot("middle")
thread = threading.Thread(target=work, args=(300,))
thread.start(); thread.join()
many(0, 400)
if not (pid := os.fork()):
    work(20)
    os._exit(4)
print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
code = "def other(): print('other', flush=True)\\nother()"
print(subprocess.run([sys.executable, "-c", code]).returncode, flush=True)
work(7)
print("error", file=sys.stderr, flush=True)
sys.exit(3)
"""
LEAVES, ROUTINES = 300 + 20 + 7, 400


@pytest.fixture(scope="module")
def preload(tmp_path_factory) -> Path:
    source = Path(__file__).with_name("inject.c")
    if (library := preloads.built(source, tmp_path_factory.mktemp("faults"))) is None:
        pytest.skip("no C compiler here: calls cannot be made to fail")
    return library


@dataclass
class Outcome:
    """What a measured program printed, and what became of its profile."""

    runs: Runs
    done: subprocess.CompletedProcess
    told: str

    def trial(self) -> tuple[int, str] | None:
        """Its number and state; None: there is none."""
        if not self.runs.database.exists():
            return None
        try:
            trials = self.runs.sql("SELECT id, state FROM trial WHERE name NOT LIKE '%@middle'")
        except sqlite3.OperationalError:
            return None  # an empty file, in which no database could be made
        assert len(trials) <= 1
        return trials[0] if trials else None

    def check(self, plain: subprocess.CompletedProcess) -> None:
        assert (self.done.returncode, self.done.stdout) == (plain.returncode, plain.stdout)
        lines = self.done.stderr.splitlines()
        assert [line for line in lines if not line.startswith("taupy: ")] == ["error"], lines
        assert "Traceback" not in self.told
        if trial := self.trial():
            self.check_counts(*trial)
        else:
            assert "taupy: " in self.told, "the profile is lost, and no line says so"
        left = list(self.runs.state.iterdir()) if self.runs.state.exists() else []
        left += [path for path in self.runs.folder.glob("taupy.db*") if path != self.runs.database]
        assert left == []

    def check_counts(self, trial: int, state: str) -> None:
        calls = self.runs.calls(trial)
        routines = {name for name in calls if name[0] == "f" and name[1:].isdigit()}
        assert all(calls[name] == 1 for name in routines)
        counts = (calls.get("leaf", 0), len(routines))
        if state == "complete" and not self.losses(trial):
            assert counts == (LEAVES, ROUTINES)
        assert counts[0] <= LEAVES and counts[1] <= ROUTINES

    def losses(self, trial: int) -> list[tuple]:
        """What the trial says of what it lacks, except that this engine may always lack some."""
        return self.runs.sql(
            "SELECT name, value FROM metadata WHERE trial_id = ? AND name LIKE 'taupy.health.%'"
            " AND name <> 'taupy.health.plain_engine'",
            trial,
        )


def measured(folder: Path, preload: Path, engine: str, calls: str, every: int) -> Outcome:  # noqa: F811
    folder.mkdir()
    runs = Runs(folder)  # noqa: F811
    numbers = FAULTS[calls]
    faults = {
        "LD_PRELOAD": str(preload),
        "FAULT_CALLS": calls,
        "FAULT_EVERY": str(every),
        "FAULT_ERRNO": str(numbers[every % len(numbers)]),
        "FAULT_PREFIXES": f"{runs.state}:{runs.database}",
    }
    runs.environment = {"HOME": str(folder), **faults}
    done = runs.run(PROGRAM, "--engine", engine)
    runs.environment = {}
    for left in runs.state.glob("run-*"):
        os.utime(left, (0, 0))  # what is abandoned goes after a day
    told = done.stderr + runs.taupy("trials", "--db", str(runs.database)).stderr
    for path in folder.glob("taupy.db*.taupy-run"):
        assert str(path) in told
        told += runs.taupy("import", "--db", str(runs.database), str(path)).stderr
        path.unlink()
    return Outcome(runs, done, told)


@pytest.mark.parametrize("calls", FAULTS)
def test_the_program_is_unharmed_and_no_loss_is_silent(tmp_path, preload, engine, calls):  # noqa: F811
    (tmp_path / "prog.py").write_text(PROGRAM)
    command = [sys.executable, "prog.py"]
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    for every in EVERY:
        outcome = measured(tmp_path / str(every), preload, engine, calls, every)
        try:
            outcome.check(plain)
        except AssertionError as problem:
            raise AssertionError(f"every {every}: {problem}\n{outcome.told}") from problem
