"""`taupy attach` and `taupy dump` look at programs that taupy did not start."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("taupy._native.engine", reason="the compiled core is not built")

PROGRAM = """
import threading, time
from pathlib import Path

def inner(count):
    return sum(value * value for value in range(count))

def busy():
    Path("begun").touch()
    while True:
        inner(2000)

def waits():
    while True:
        time.sleep(0.05)

threading.Thread(target=waits, daemon=True).start()
busy()
"""


@contextmanager
def running(runs, source: str):
    """A program under plain Python that has begun."""
    (runs.folder / "prog.py").write_text(source)
    program = subprocess.Popen([sys.executable, "prog.py"], cwd=runs.folder, env=runs.environ())
    try:
        while not (runs.folder / "begun").exists():
            assert program.poll() is None
            time.sleep(0.02)
        yield program
    finally:
        program.kill()
        program.wait()


def test_a_dump_names_routines_and_lines_of_all_threads(runs):
    with running(runs, PROGRAM) as program:
        shown = runs.taupy("dump", str(program.pid))
        assert program.poll() is None
    assert shown.returncode == 0, shown.stderr
    said = shown.stdout
    assert f"process {program.pid}" in said
    assert f"thread {program.pid} MainThread: " in said
    assert (
        "busy (" in said
        and f"prog.py:{PROGRAM.splitlines().index('        inner(2000)') + 1})" in said
    )
    assert "waits (" in said


def test_what_attach_sees_is_a_sampled_trial(runs):
    with running(runs, PROGRAM) as program:
        attached = runs.taupy("attach", str(program.pid), "--for", "2s")
        assert program.poll() is None
    assert attached.returncode == 0, attached.stderr
    assert "next: taupy report 1" in attached.stderr
    ((source, code, calls),) = runs.sql(
        "SELECT source, exit_code, (SELECT sum(calls) FROM timer_call) FROM trial"
    )
    assert source.startswith(f"attach {program.pid}: ") and (code, calls) == (None, 0)
    screen = runs.taupy("report").stdout
    main = screen[: screen.index("in other threads")]
    assert "inner" in main and "waits" not in main
    assert "sampled from outside" in screen
    lines = runs.taupy("lines", "--csv").stdout
    assert "prog.py,6" in lines and "value * value" in lines, lines


def test_a_process_that_cannot_be_read_gets_one_line(runs):
    sleeping = subprocess.Popen(["sleep", "600"])
    try:
        for pid, why in ((sleeping.pid, "is no Python"), (0x3FFFFFFF, "there is no process")):
            for command in ("attach", "dump"):
                refused = runs.taupy(command, str(pid))
                assert refused.returncode != 0
                assert why in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    finally:
        sleeping.kill()
        sleeping.wait()
    assert not runs.database.exists()
    assert "1 to 1000" in runs.taupy("attach", "1", "--rate", "0").stderr


@pytest.mark.slow
def test_children_are_looked_at_and_an_end_is_no_error(runs):
    source = """
import multiprocessing, time
from pathlib import Path

def below():
    end = time.monotonic() + 4
    while time.monotonic() < end:
        sum(range(1000))

if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=below)
    worker.start()
    Path("begun").touch()
    worker.join()
"""
    with running(runs, source) as program:
        attached = runs.taupy("attach", str(program.pid))
    assert attached.returncode == 0, attached.stderr
    rows = runs.sql(
        "SELECT DISTINCT thread.node FROM timer_call JOIN thread ON thread.id = thread_id"
        " JOIN timer ON timer.id = timer_id WHERE timer.short_name = 'below'"
    )
    assert rows == [(1,)]
