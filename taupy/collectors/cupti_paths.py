"""Where libcupti may lie: pip wheels first, then CUDA toolkits.

One that the program itself has loaded (torch's) goes before all of these; that is seen in
the measured process only, by the native collector.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

OVERRIDE = "TAUPY_CUPTI"
"""Environment variable: the libcupti to use, if the program does not load one itself."""

_LIBRARY = re.compile(r"libcupti\.so(\.\d+)?\Z")
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")


def libraries(package_folders: Iterable[str]) -> list[str]:
    """Paths of libcupti, best first; the newest major version of a place goes first.

    Args:
        package_folders: where packages are installed (`sys.path`).
    """
    found: list[Path] = []
    if chosen := os.environ.get(OVERRIDE):
        found.append(Path(chosen))
    for folder in package_folders:
        found += _in_folders(_folders_of_wheels(Path(folder, "nvidia")))
    toolkits = [Path(os.environ[name]) for name in _TOOLKITS if os.environ.get(name)]
    for toolkit in [*toolkits, Path("/usr/local/cuda"), Path("/opt/cuda")]:
        found += _in_folders([toolkit / "extras/CUPTI/lib64", toolkit / "lib64"])
    return list(dict.fromkeys(map(str, found)))


def _folders_of_wheels(vendor: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(vendor), reverse=True)
    except OSError:
        return []
    folders = [name for name in names if name.startswith("cu")]
    # One folder for all since CUDA 13 (cu13); before, one for each library (cuda_cupti).
    folders.sort(key=lambda name: not name[2:].isdigit())
    return [vendor / name / "lib" for name in folders]


def _in_folders(folders: Iterable[Path]) -> list[Path]:
    found = []
    for folder in folders:
        try:
            names = [name for name in os.listdir(folder) if _LIBRARY.match(name)]
        except OSError:
            continue
        # libcupti.so.13 before .12; the bare name, which says no version, last.
        found += [folder / name for name in sorted(names, key=_major, reverse=True)]
    return found


def _major(name: str) -> int:
    number = _LIBRARY.match(name)
    return int(number[1][1:]) if number and number[1] else 0
