"""On a real GPU: what is sampled follows what the program does, on the clock of its kernels."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from statistics import median

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
b = a @ a
torch.cuda.synchronize()
time.sleep(1)
until = time.monotonic() + 2
while time.monotonic() < until:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
time.sleep(1)
"""


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU here")
    folder = tmp_path_factory.mktemp("sampled")
    (folder / "busy.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "taupy", "run", "--db", "t.db", "--trace"]
    done = subprocess.run(
        [*command, "--pm-sampling", "timeline", "busy.py"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    if "not sampled: the driver lets only administrators" in done.stderr:
        pytest.skip(done.stderr)
    print(done.stderr)
    connection = sqlite3.connect(folder / "t.db")
    connection.row_factory = sqlite3.Row
    return connection


def points(sampled, name):
    return sampled.execute(
        "SELECT sample.* FROM sample JOIN user_event ON user_event.id = user_event_id"
        " WHERE user_event.name = ? ORDER BY start_ns", (f"GPU[0] {name}",)
    ).fetchall()  # fmt: skip


def test_the_tensor_cores_are_busy_while_products_run_and_idle_before(sampled):
    (begin, end) = sampled.execute(
        "SELECT min(start_ns), max(end_ns) FROM activity WHERE kind = 'kernel' AND start_ns >"
        " (SELECT min(end_ns) + 500000000 FROM activity WHERE kind = 'kernel')"
    ).fetchone()
    found = points(sampled, "sm_active")
    during = [one["mean"] for one in found if begin < one["start_ns"] and one["end_ns"] < end]
    after = [one["mean"] for one in found if one["start_ns"] > end + 50_000_000]
    assert median(during) > 80 and median(after) < 5
    tensor = points(sampled, "tensor_active")
    busy = [one["mean"] for one in tensor if begin < one["start_ns"] and one["end_ns"] < end]
    assert median(busy) > 30


def test_the_stamps_are_on_the_clock_of_the_kernels(sampled):
    """The first sample with work begins within 20 ms of the first long run of kernels."""
    first = sampled.execute(
        "SELECT min(start_ns) FROM activity WHERE kind = 'kernel' AND start_ns >"
        " (SELECT min(end_ns) + 500000000 FROM activity WHERE kind = 'kernel')"
    ).fetchone()[0]
    found = points(sampled, "sm_active")
    work = next(one for one in found if one["start_ns"] > first - 300_000_000 and one["mean"] > 50)
    assert abs(work["start_ns"] - first) < 20_000_000


def test_samples_follow_each_other_at_the_interval(sampled):
    found = points(sampled, "sm_active")
    assert len(found) > 2000
    lengths = [one["end_ns"] - one["start_ns"] for one in found]
    chip = sampled.execute(
        "SELECT value FROM metadata WHERE name = 'taupy.sampling.gpu0'"
    ).fetchone()[0]
    if chip.endswith(" ns"):
        assert median(lengths) == pytest.approx(1e6, rel=0.05)
    remarks = sampled.execute(
        "SELECT value FROM metadata WHERE name = 'taupy.health.sampling'"
    ).fetchall()
    assert not remarks
