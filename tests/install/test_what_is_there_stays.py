"""Installing taupy moves no package that is there.

pip says what it would do beside distributions that are there by their `.dist-info` alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

NUMPY_AND_PANDAS = {"numpy", "pandas", "python-dateutil", "six", "pytz", "tzdata"}
SCIENTIFIC = {
    "numpy": "1.26.4", "pandas": "2.1.4", "python-dateutil": "2.8.2", "six": "1.16.0",
    "pytz": "2023.3", "tzdata": "2023.3", "rich": "13.5.2", "markdown-it-py": "3.0.0",
    "mdurl": "0.1.2", "pygments": "2.16.1", "click": "8.1.7", "sqlalchemy": "2.0.23",
    "pip": "23.3",
}  # fmt: skip
TORCH = {"torch": "2.1.2", "numpy": "1.26.2", "pandas": "2.1.1", "triton": "2.1.0",
         "nvidia-cuda-cupti-cu12": "12.1.105", "typing-extensions": "4.8.0"}  # fmt: skip
NEWER_TORCH = {"torch": "2.9.0", "numpy": "2.3.4", "pandas": "2.3.3", "triton": "3.5.0",
               "nvidia-cuda-cupti-cu12": "12.8.90"}  # fmt: skip
OLD_JAX = {"jax": "0.4.20", "jaxlib": "0.4.20", "numpy": "1.26.0", "ml-dtypes": "0.3.1",
           "scipy": "1.11.3", "pandas": "2.1.2", "rich": "13.6.0"}  # fmt: skip
JAX = {"jax": "0.8.0", "jaxlib": "0.8.0", "numpy": "2.3.0", "pandas": "3.0.0",
       "msgspec": "0.20.0", "rich": "14.0.0", "click": "8.3.1"}  # fmt: skip


@pytest.fixture
def wheel(tmp_path):
    """A wheel with nothing but taupy's requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", "Version: 0"]
    lines += [f"Requires-Dist: {each}" for each in project["dependencies"]]
    files = {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    made = tmp_path / "taupy_profiler-0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as packed:
        for name, text in files.items():
            packed.writestr(f"taupy_profiler-0.dist-info/{name}", text)
    return made


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Makes an environment for a Python with nothing in it, not even pip."""

    def made(version: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        pyenv = Path.home() / ".pyenv" / "versions"
        known = [sys.executable] if version == here else [f"python{version}"]
        for python in [*known, *sorted(pyenv.glob(f"{version}.*/bin/python"))]:
            command = [str(python), "-m", "venv", "--without-pip", str(folder)]
            if shutil.which(python) and not subprocess.run(command, capture_output=True).returncode:
                return folder
        pytest.skip(f"there is no Python {version}")

    return made


@pytest.mark.parametrize("there", [SCIENTIFIC, TORCH, NEWER_TORCH, OLD_JAX, JAX],
                         ids=["scientific", "torch", "newer torch", "old jax", "jax"])  # fmt: skip
@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_nothing_that_is_there_is_moved(wheel, environments, tmp_path, there, version):
    folder = environments(version)
    site = folder / "lib" / f"python{version}" / "site-packages"
    for name, number in there.items():
        info = site / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        (info / "RECORD").write_text("")
        (info / "INSTALLER").write_text("pip\n")
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install",
         "--disable-pip-version-check", "--dry-run", "--quiet", "--report", str(report),
         str(wheel)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if "from versions: none" in done.stderr:
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    would = {
        each["metadata"]["name"].lower(): each["metadata"]["version"]
        for each in json.loads(report.read_text())["install"]
    }
    assert "taupy-profiler" in would
    assert {name: would[name] for name in would.keys() & there.keys()} == {}
    assert "pip" not in would
    assert len(would.keys() - NUMPY_AND_PANDAS) <= 13
