"""On a real GPU: each way to launch a kernel from Python, with counts that the program knows."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.model.gpu import NO_OWNER
from taupy.model.profile import ROOT_TIMER, Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile

pytestmark = pytest.mark.gpu

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"


def run(folder: Path, program: Path, *options: str) -> Profile:
    if not Path("/proc/driver/nvidia/version").exists() and shutil.which("nvidia-smi") is None:
        pytest.skip("no NVIDIA driver here")
    database = folder / "t.db"
    subprocess.run(
        [
            *(sys.executable, "-m", "taupy", "run", "--gpu", "--db", str(database)),
            *(*options, str(program)),
        ],
        check=True,
    )
    with ProfileDB.open(str(database), create=False, readonly=True) as db:
        return read_profile(db, max(trial.id for trial in db.trials()))


def launches_under(profile: Profile, routine: str, kernel: str) -> int:
    """Launches of kernels with `kernel` in their names, from call paths through `routine`."""
    found = 0
    for measured in profile.threads:
        tree = measured.tree
        for launch in measured.launches:
            name = profile.timers[tree.timer[launch.row]].name
            above, row = set(), tree.parent[launch.row]
            while row >= 0:
                above.add(profile.timers[tree.timer[row]].name)
                row = tree.parent[row]
            if kernel in name and routine in above:
                found += launch.count
    return found


@pytest.mark.parametrize("framework", ["cupy", "numba", "triton"])
def test_every_launch_of_a_kernel_stands_under_the_routine_that_made_it(framework, tmp_path):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    profile = run(tmp_path, PROGRAMS / f"{framework}_axpy.py")
    assert launches_under(profile, "launch", "axpy") == 10


def test_the_example_with_pycuda_has_its_launches_although_its_context_is_dropped(tmp_path):
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("pycuda is not installed")
    profile = run(tmp_path, EXAMPLES / "pycuda_axpy.py")
    assert launches_under(profile, "axpy_in_chunks", "axpy") == 10


def test_compiled_code_and_its_backward_pass_have_their_owners(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    profile = run(tmp_path, PROGRAMS / "compiled_steps.py")
    # What is compiled runs Python in autograd's thread, too: such kernels stand under that.
    assert launches_under(profile, "launch", "triton") >= 10
    assert launches_under(profile, ROOT_TIMER, "triton") >= 20
    assert NO_OWNER not in {timer.name for timer in profile.timers}


def test_a_trace_has_an_activity_for_every_launch(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    profile = run(tmp_path, PROGRAMS / "torch_steps.py", "--trace")
    for measured in profile.threads:
        if measured.thread.kind == "stream":
            launched = sum(launch.count - launch.untimed for launch in measured.launches)
            assert len(list(measured.activities)) == launched
