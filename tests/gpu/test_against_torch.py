"""On a real GPU: taupy's kernels against torch.profiler's, for the same work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.model.kernel_names import demangled
from tests.gpu.record import PROGRAM, record

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def torch_here() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU here")


def kinetos(folder: Path) -> dict[str, list[int]]:
    path = folder / "kineto.json"
    subprocess.run([sys.executable, str(PROGRAM), "--kineto", str(path)], check=True)
    # Kineto leaves names of more than 1024 characters mangled.
    return {demangled(name): sums for name, sums in json.loads(path.read_text()).items()}


def test_kernels_and_their_counts_are_torch_profilers_and_times_agree(torch_here, tmp_path):
    ours = record(tmp_path / "ours", [str(PROGRAM)])
    theirs = kinetos(tmp_path)
    assert {name: sums[0] for name, sums in ours.items()} == {
        name: sums[0] for name, sums in theirs.items()
    }
    # Two runs are two runs: the sums agree, not every launch.
    total, expected = (sum(ns for _, ns in found.values()) for found in (ours, theirs))
    assert total == pytest.approx(expected, rel=0.05)


def test_every_kernel_has_an_owner_and_backward_stands_under_backward(torch_here, tmp_path):
    from taupy.model.gpu import NO_OWNER
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.reader import read_profile

    database = tmp_path / "t.db"
    command = [sys.executable, "-m", "taupy", "run", "--gpu", "--db", str(database), str(PROGRAM)]
    subprocess.run(command, check=True)
    with ProfileDB.open(str(database), create=False, readonly=True) as db:
        profile = read_profile(db, 1)
    assert NO_OWNER not in {timer.name for timer in profile.timers}
    backward = [
        measured.tree.inclusive["time"][row]
        for measured in profile.threads
        if measured.thread.kind == "stream"
        for row, timer in enumerate(measured.tree.timer)
        if profile.timers[timer].name == "_engine_run_backward"
    ]
    assert sum(backward) > 0
    assert not [name for name in profile.metadata if name.startswith("taupy.health.gpu")]
