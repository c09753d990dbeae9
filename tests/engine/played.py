"""A package that plays PyTorch: its libraries, and taupy's that were compiled for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.engine.test_layers import STAND_IN
from tests.in_process import set_up_torch

SOURCES = Path(__file__).with_name("played_torch")
compiler = shutil.which("c++") or shutil.which("g++")


def build(folder: Path) -> None:
    """The library that plays libtorch_cpu and libc10, the package, and taupy's state folder."""
    library = folder / "libtorch_cpu.so"
    command = [compiler, "-std=c++17", "-shared", "-fPIC", "-pthread", "-I", SOURCES]
    command += [SOURCES / "played_torch.cc", "-Wl,-soname,libtorch_cpu.so", "-o", library]
    subprocess.run(command, check=True)
    put_torch(folder, library)
    done = set_up_torch(environment_of(folder))
    assert done.stdout.count(".so built and tested") == 2, done.stderr  # it has no operators


def put_torch(folder: Path, library: Path) -> Path:
    """The package, in a folder."""
    modules = folder / "torch" / "nn" / "modules"
    modules.mkdir(parents=True)
    for package in (modules, modules.parent):
        (package / "__init__.py").write_text("")
    (modules / "module.py").write_text(STAND_IN)
    torch = folder / "torch"
    shutil.copy(SOURCES / "__init__.py", torch)
    (torch / "version.py").write_text("__version__ = '2.99.0'\n")
    shutil.copytree(SOURCES / "distributed", torch / "distributed")
    for name in ("ATen", "torch"):
        shutil.copytree(SOURCES / name, torch / "include" / name)
    (torch / "lib").mkdir()
    for name in ("libtorch_cpu.so", "libc10.so"):
        shutil.copy2(library, torch / "lib" / name)
    return torch


def environment_of(folder: Path) -> dict[str, str]:
    """Of taupy with the PyTorch in a folder, and a state folder beside it."""
    return {
        **os.environ, "PYTHONPATH": str(folder), "TAUPY_STATE_DIR": str(folder / "state")
    }  # fmt: skip
