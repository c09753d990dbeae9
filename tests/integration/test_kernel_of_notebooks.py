"""`taupy setup kernel` makes a real Jupyter kernel that is measured."""

from __future__ import annotations

import csv
import sys
import time

import pytest

from taupy.commands import main

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

CELL = """
import taupy
def work(): pass
for _ in range(3): work()
taupy.snapshot("mid")
"""


WAIT = """
import pathlib, time
pathlib.Path("waiting").touch()
time.sleep(600)
"""


def assert_worked(runs, trial: str) -> None:
    """The trial has the cell's three calls."""
    read = runs.taupy("pprof", trial, "--csv")
    rows = csv.DictReader(line for line in read.stdout.splitlines() if not line.startswith("#"))
    of_work = [row for row in rows if row["timer"].startswith("work [{cell ")]
    calls = {row["calls"] for row in of_work if row["table"] == "thread"}
    assert (read.returncode, calls) == (0, {"3"}), of_work


@pytest.mark.slow
def test_it_is_read_while_it_runs_and_stored_when_it_is_restarted_or_shut_down(
    runs, native, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    assert main(["setup", "kernel"]) == 0
    assert "Python (taupy)" in capsys.readouterr().out
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "prefix" / "share" / "jupyter"))
    kernel, client = manager.start_new_kernel(
        startup_timeout=240, kernel_name="taupy", cwd=str(runs.folder), env=runs.environ()
    )
    kernel.shutdown_wait_time = 240
    try:
        reply = client.execute_interactive(CELL, timeout=240, output_hook=lambda _: None)
        assert reply["content"]["status"] == "ok"
        assert_worked(runs, "running")
        failed = client.execute("1 / 0", reply=True, timeout=240)
        assert failed["content"]["ename"] == "ZeroDivisionError"
        client.execute(WAIT)
        while not (runs.folder / "waiting").exists():
            time.sleep(0.05)
        kernel.interrupt_kernel()
        interrupted = client.get_shell_msg(timeout=240)
        assert interrupted["content"]["ename"] == "KeyboardInterrupt"
        kernel.restart_kernel()
        client.wait_for_ready(timeout=240)
        again = client.execute("taupy_is_here = 1", reply=True, timeout=240)
        assert again["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()
    ended = runs.sql("SELECT name, state, exit_code FROM trial ORDER BY name")
    assert [trial for trial in ended if "@" not in trial[0]] == [
        ("1", "complete", 0),
        ("2", "complete", 0),
    ]
    assert_worked(runs, "1")
    assert_worked(runs, "1@mid")


MEASURED = """%%taupy
import pathlib, time
def work(): pass
for _ in range(3): work()
pathlib.Path("waiting").touch()
while True: time.sleep(0.01)
"""


@pytest.mark.slow
def test_an_interrupt_in_a_measured_cell_keeps_its_profile(runs, native):
    kernel, client = manager.start_new_kernel(
        startup_timeout=240, kernel_name="python3", cwd=str(runs.folder), env=runs.environ()
    )
    shown = []
    try:
        client.execute("%load_ext taupy", reply=True, timeout=240)
        client.execute(MEASURED)
        while not (runs.folder / "waiting").exists():
            time.sleep(0.05)
        kernel.interrupt_kernel()
        interrupted = client.get_shell_msg(timeout=240)
        assert interrupted["content"]["ename"] == "KeyboardInterrupt"
        client.execute_interactive(
            "import taupy; taupy.last()", timeout=240, output_hook=shown.append
        )
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()
    (cell,) = (m["content"]["data"] for m in shown if m["msg_type"] == "execute_result")
    assert "exit 1" in cell["text/html"] and ">cell " in cell["text/html"]
    assert runs.sql("SELECT state, exit_code FROM trial") == [("complete", 1)]
    assert_worked(runs, "1")


def test_without_ipykernel_the_command_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("taupy.commands.setup.find_spec", lambda name: None)
    assert main(["setup", "kernel"]) != 0
    assert "ipykernel is not installed" in capsys.readouterr().err
    assert not (tmp_path / "share").exists()
