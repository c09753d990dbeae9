"""Builds without the GIL are refused: by `taupy run`, and in child processes."""

from __future__ import annotations

import sys

import pytest

from taupy.instrument import boot
from tests.in_process import taupy


@pytest.fixture
def without_gil(monkeypatch):
    monkeypatch.setattr(sys, "abiflags", "t")


@pytest.mark.usefixtures("without_gil")
@pytest.mark.parametrize("engine", ["auto", "native", "python"])
def test_a_run_is_refused_in_one_line_that_says_why(tmp_path, engine):
    refused = taupy("run", "--engine", engine, "-c", "pass", cwd=tmp_path)
    assert refused.returncode == 1
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert refused.stderr == (
        "taupy: this Python is a free-threaded build, which taupy cannot measure: without the GIL, "
        "threads would miscount each other's calls; run the program with "
        f"{version}, the build with the GIL\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_gil")
def test_the_doctor_says_so(tmp_path):
    told = taupy("doctor", "--db", tmp_path / "taupy.db")
    (line,) = [line for line in told.stdout.splitlines() if line.split()[1] == "python"]
    assert line.startswith("PROBLEM")
    assert line.endswith("a free-threaded build, which taupy cannot measure")
    assert told.returncode == 1


@pytest.mark.usefixtures("without_gil")
def test_a_child_process_is_not_measured():
    with pytest.raises(RuntimeError, match="a free-threaded build of Python cannot be measured"):
        boot._start_engine({"version": boot.VERSION}, b"")
