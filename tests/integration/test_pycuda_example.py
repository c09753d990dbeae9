"""examples/pycuda_axpy.py with a real PyCUDA, beside the played driver, which adds in its place.

`make pycuda` builds PyCUDA's source distribution against NVIDIA's headers; without it there is
nothing to test. nvcc is played, too: nobody runs what it writes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from tests.fake_gpu import HERE, build
from tests.unit.collectors.test_cupti_live import Gpu, health, work

CALLED = HERE / "pycuda.cc"
ROOT = Path(__file__).parents[2]
PYCUDA = ROOT / "build" / "pycuda" / f"site-{sys.version_info[0]}.{sys.version_info[1]}"

pytestmark = pytest.mark.slow


def symbols(library: Path, which: str) -> set[str]:
    command = ["nm", "-D", which, str(library)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" (cu[A-Z]\w+)$", listed, re.MULTILINE))


@pytest.fixture
def driver(tmp_path: Path, played_gpu: Path) -> Path:
    """The played driver and CUPTI with what the example calls; all else is "not supported"."""
    if not PYCUDA.exists():
        pytest.skip("make pycuda has not built PyCUDA for this Python")
    [module] = (PYCUDA / "pycuda").glob("_driver*.so")
    played = symbols(played_gpu / "libcuda.so.1", "--defined-only")
    played |= set(re.findall(r"^int (cu[A-Z]\w+)", CALLED.read_text(), re.MULTILINE))
    others = tmp_path / "others.cc"
    others.write_text(
        "".join(
            f'extern "C" int {name}(void) {{ return 801; }}\n'
            for name in sorted(symbols(module, "--undefined-only") - played)
        )
    )
    folder = tmp_path / "played"
    folder.mkdir()
    return build(folder, CALLED, others)


def test_the_example_with_pycuda_has_its_launches_and_copies(tmp_path, driver):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text('#!/bin/sh\n[ "$1" = --version ] && echo played || echo cubin > kernel.cubin\n')
    nvcc.chmod(0o755)
    gpu = Gpu(tmp_path, driver)
    environ = gpu.environ() | {
        "PATH": f"{nvcc.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PYCUDA),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
    }
    taupy = [sys.executable, "-m", "taupy", "run", "--db", str(tmp_path / "taupy.db")]
    done = subprocess.run(
        [*taupy, str(ROOT / "examples" / "pycuda_axpy.py")],
        cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 chunks in ")
    with ProfileDB.open(str(tmp_path / "taupy.db"), create=False, readonly=True) as db:
        profile = read_profile(db, 1)
    in_chunks = "<module> / main / axpy_in_chunks / "
    found = work(profile)
    launches = {path: count for path, count in found.items() if path.startswith(in_chunks)}
    assert {path.rpartition(" / ")[2]: count for path, count in launches.items()} == {
        "axpy": 10, "Memcpy HtoD": 20, "Memcpy DtoH": 10,
    }, found  # fmt: skip
    assert sum(found.values()) == 40
    assert health(profile, "gpu_records") == ""
