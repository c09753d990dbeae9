"""On a real GPU: taupy's trial against torch.profiler's trace of the same work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taupy.model.profile import Profile
from tests.gpu.comparison import (
    differences,
    missing,
    of_profile,
    of_trace,
    share_with_owner,
    stored,
)

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).parent / "programs" / "torch_steps.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU here")
    return tmp_path_factory.mktemp("against_torch")


@pytest.fixture(scope="module")
def profile(folder) -> Profile:
    command = [sys.executable, "-m", "taupy", "run", "--gpu", "--db", str(folder / "t.db")]
    subprocess.run([*command, str(PROGRAM)], check=True)
    return stored(folder / "t.db")


def test_kernels_copies_and_calls_are_torch_profilers_and_times_agree(folder, profile):
    trace = folder / "trace.json"
    subprocess.run([sys.executable, str(PROGRAM), "--kineto", str(trace)], check=True)
    ours, theirs = of_profile(profile), of_trace(trace)
    assert theirs.kernels and theirs.copies and theirs.calls
    assert differences(ours, theirs) == []


def test_nothing_is_reported_as_missing(profile):
    assert missing(profile) == []


def test_gpu_time_has_its_owners_and_backward_stands_under_backward(profile):
    assert share_with_owner(profile) >= 0.99
    backward = [
        measured.tree.inclusive["time"][row]
        for measured in profile.threads
        if measured.thread.kind == "stream"
        for row, timer in enumerate(measured.tree.timer)
        if profile.timers[timer].name == "_engine_run_backward"
    ]
    assert sum(backward) > 0
