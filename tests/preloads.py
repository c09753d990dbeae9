"""Libraries of the tests for LD_PRELOAD: a full disk, calls that fail, a played PMU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def built(source: Path, folder: Path) -> Path | None:
    """The library of a C file, built in the folder; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    target = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", target, source, "-ldl"]
    subprocess.run(command, check=True)
    return target
