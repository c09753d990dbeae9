"""`taupy setup kernel` makes a real Jupyter kernel that is measured."""

from __future__ import annotations

import csv
import sys

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


def assert_worked(runs, trial: str) -> None:
    """The trial has the cell's three calls."""
    read = runs.taupy("pprof", trial, "--csv")
    rows = csv.DictReader(line for line in read.stdout.splitlines() if not line.startswith("#"))
    of_work = [row for row in rows if row["timer"].startswith("work [{cell ")]
    calls = {row["calls"] for row in of_work if row["table"] == "thread"}
    assert (read.returncode, calls) == (0, {"3"}), of_work


@pytest.mark.slow
def test_it_is_read_while_it_runs_and_its_trial_is_stored_when_it_is_shut_down(
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
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()
    assert runs.sql("SELECT exit_code FROM trial WHERE name NOT LIKE '%@%'") == [(0,)]
    assert_worked(runs, "1")
    assert_worked(runs, "1@mid")


def test_without_ipykernel_the_command_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("taupy.commands.setup.find_spec", lambda name: None)
    assert main(["setup", "kernel"]) != 0
    assert "ipykernel is not installed" in capsys.readouterr().err
    assert not (tmp_path / "share").exists()
