"""A program in namespaces of its own is not taken for dead outside, nor the other way round."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import pytest

from taupy import live

_PID = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_TIME = ("unshare", "--time", "--fork", "--boottime", "100000", "--monotonic", "100000")
_PROGRAM = """\
import os, time
def mark(): pass
for _ in range(5): mark()
open("began", "w").close()
until = time.monotonic() + 100
while not os.path.exists("go on") and time.monotonic() < until: time.sleep(0.05)
for _ in range(5): mark()
print("done")
"""


def can(way: tuple[str, ...]) -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*way, "true"], capture_output=True).returncode == 0
    )


def begin(runs, way: tuple[str, ...]) -> subprocess.Popen:
    (runs.folder / "prog.py").write_text(_PROGRAM)
    run = [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), "prog.py"]
    program = subprocess.Popen(
        [*way, *run], cwd=runs.folder, env=runs.environ(), stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 100
    while not (runs.folder / "began").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return program


def trials(runs, way: tuple[str, ...] = ()) -> str:
    command = [sys.executable, "-m", "taupy", "trials", "--db", str(runs.database)]
    return subprocess.run(
        [*way, *command], cwd=runs.folder, env=runs.environ(), capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize(
    ("inside", "looks"), [(_PID, ()), ((), _PID), (_PID, _PID), (_TIME, ()), ((), _TIME)]
)
def test_a_live_run_is_left_alone_by_commands_in_other_namespaces(runs, native, inside, looks):
    if not all(map(can, filter(None, (inside, looks)))):
        pytest.skip("needs namespaces of its own: root, or a kernel that lets others make them")
    program = begin(runs, inside)
    assert "running" in trials(runs, looks)
    (runs.folder / "go on").touch()
    assert (program.communicate(timeout=120)[0], program.returncode) == ("done\n", 0)
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.calls()["mark"] == 10


def test_a_run_that_was_killed_with_its_namespace_is_stored_once_its_watch_is_silent(
    runs, native, monkeypatch
):
    if not can(_PID):
        pytest.skip("needs namespaces of its own: root, or a kernel that lets others make them")
    program = begin(runs, _PID)
    program.send_signal(signal.SIGKILL)
    program.communicate()
    assert "killed" not in trials(runs)
    monkeypatch.setattr(live, "SILENT_S", 0)
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.one("SELECT state FROM trial") == "incomplete"
    assert runs.calls()["mark"] == 5
