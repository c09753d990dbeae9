"""Libraries for LD_PRELOAD: a full disk, failing calls, a simulated PMU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def built(source: Path, folder: Path) -> Path | None:
    """Build the library of a C file in the folder; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    target = folder / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", target, source, "-ldl"]
    subprocess.run(command, check=True)
    return target
