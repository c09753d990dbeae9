"""The script of the first half hour with a GPU, where every step fails: the next one runs."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "gpu" / "half_hour.sh"
STEPS = {
    "1": "build doctor nvidia-smi record tests",
    "2": "build smoke tensor ncu-none ncu-all regions tau",
    "3": "build cost",
    "4": "build sampling jax ends-exit ends-_exit ends-fork ends-dataloader ends-sigkill "
    "ends-profiler ceilings",
}


def call(number: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    told = {"OUT": str(folder / "out"), "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    command = ["bash", str(SCRIPT), number]
    return subprocess.run(command, env=told | environ, capture_output=True, text=True)


@pytest.mark.parametrize("number", STEPS)
def test_each_step_that_fails_has_its_log_and_the_next_one_runs(number, tmp_path):
    done = call(number, tmp_path, PYTHON="false")
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "out" / f"call{number}.tar.gz") as packed:
        kept = {Path(name).name for name in packed.getnames()}
        lines = packed.extractfile(f"call{number}/steps.txt").read().decode().splitlines()
    steps = [line.split()[0] for line in lines if not line.startswith("wheels ")]
    assert steps == STEPS[number].split()
    assert {f"{step}.log" for step in steps} <= kept
    assert not [
        line for line in lines if " exit   0 " in line and not line.startswith("nvidia-smi")
    ]


def test_what_must_be_counted_is_written_down_without_a_gpu(tmp_path):
    program = SCRIPT.parent / "programs" / "gemms.py"
    done = subprocess.run(
        ["python3", str(program), "--expected"], capture_output=True, text=True, check=True
    )
    expected = json.loads(done.stdout)
    assert {each for of in list(expected.values())[:5] for each in of.values()} == {137_438_953_472}
    assert expected["axpy"] == {"flop_fp32": 134_217_728}
    assert expected["copy_in"] == {"bytes copied from host to device": 268_435_456}


def test_a_call_that_does_not_exist_is_refused(tmp_path):
    done = call("5", tmp_path)
    assert (done.returncode, done.stderr) == (2, "usage: half_hour.sh 1|2|3|4\n")
