"""`make gpu-wheels`: what a machine with PyTorch, JAX and no network lacks to run taupy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THERE = ("numpy", "pandas", "matplotlib", "rich", "pytest", "pip")
"""What such a machine has, as docs/gpu-validation.md says, besides PyTorch and JAX."""
IMPORTED_BY_TESTS = ("hypothesis",)  # by tests/conftest.py, so by those that need a GPU, too

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / "Makefile").exists(),
    reason="no make, or no Makefile",
)


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def needed(packages: tuple[str, ...]) -> set[str]:
    """These packages and all that they need, without extras."""
    found: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = name_of(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            wanted = requires(name) or []
        except PackageNotFoundError:
            continue  # of another system or Python
        waiting += [
            one for one in wanted if "extra ==" not in one and "python_version <" not in one
        ]
    return found


def fetched() -> list[str]:
    """What the make target asks pip for."""
    done = subprocess.run(
        ["make", "-n", "gpu-wheels", f"PYTHON={sys.executable}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = [
        line for line in done.stdout.replace("\\\n", " ").splitlines() if " download " in line
    ]
    return line.partition(" -d .whl ")[2].split()


def test_all_that_taupy_needs_and_such_a_machine_lacks_is_fetched():
    direct = tuple(one for one in requires("taupy-profiler") or [] if "extra ==" not in one)
    assert direct
    assert needed((*direct, *IMPORTED_BY_TESTS)) - needed(THERE) <= set(fetched())


@pytest.mark.slow
def test_the_wheels_can_be_fetched_and_imported_without_a_network(tmp_path):
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    made = subprocess.run(
        ["make", "-s", "gpu-wheels", f"PYTHON={sys.executable}", f"GPU_WHEELS={wheels}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode != 0 and "No matching distribution" in made.stderr:
        pytest.skip("no package index can be reached")
    assert made.returncode == 0, made.stderr
    assert {name_of(path.name.partition("-")[0]) for path in wheels.iterdir()} == set(fetched())
    install = "-m pip install -q --no-index --no-deps --no-compile --target"
    subprocess.run(
        [sys.executable, *install.split(), str(site), *map(str, wheels.glob("*.whl"))],
        capture_output=True,
        check=sys.version_info[:2] == (3, 12),  # which they are fetched for
    )
    if sys.version_info[:2] == (3, 12):
        code = "import sqlite_utils, ijson, pynvml, shtab, hypothesis; print(sqlite_utils.__file__)"
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path.append({str(site)!r}); {code}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.startswith(str(site))
