"""Possible locations of libcupti: pip wheels first, then CUDA toolkits.

A library that the program itself has loaded (PyTorch's) takes precedence over all of these; only
the native collector, in the measured process, can see it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OVERRIDE = "TAUPY_CUPTI"
"""Environment variable: the libcupti to use, if the program does not load one itself."""

_LIBRARY = "libcupti.so"
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")


def libraries(package_folders: Iterable[str]) -> list[str]:
    """Paths of libcupti, best first; in each folder, the newest major version first.

    Args:
        package_folders: folders with packages (`sys.path`).
    """
    paths: list[str] = []
    if chosen := os.environ.get(OVERRIDE):
        paths.append(chosen)
    for folder in package_folders:
        paths += _in_folders(_folders_of_wheels(os.path.join(folder, "nvidia")))
    toolkits = [os.environ[name] for name in _TOOLKITS if os.environ.get(name)]
    for toolkit in [*toolkits, "/usr/local/cuda", "/opt/cuda"]:
        places = ("extras/CUPTI/lib64", "lib64")
        paths += _in_folders(os.path.join(toolkit, place) for place in places)
    return list(dict.fromkeys(paths))


def _folders_of_wheels(vendor: str) -> list[str]:
    try:
        names = sorted(os.listdir(vendor), reverse=True)
    except OSError:
        return []
    folders = [name for name in names if name.startswith("cu")]
    # One folder for all since CUDA 13 (cu13); before, one for each library (cuda_cupti).
    folders.sort(key=lambda name: not name[2:].isdigit())
    return [os.path.join(vendor, name, "lib") for name in folders]


def _in_folders(folders: Iterable[str]) -> list[str]:
    paths: list[str] = []
    for folder in folders:
        try:
            names = [name for name in os.listdir(folder) if _major(name) is not None]
        except OSError:
            continue
        # libcupti.so.13 before .12; the name without a version last.
        paths += [
            os.path.join(folder, name)
            for name in sorted(names, key=lambda name: _major(name) or 0, reverse=True)
        ]
    return paths


def _major(name: str) -> int | None:
    """The version of a libcupti, 0 if its name says none; None if it is none."""
    version = name.removeprefix(_LIBRARY)
    if version in ("", name):
        return 0 if name == _LIBRARY else None
    return int(version[1:]) if version[0] == "." and version[1:].isdecimal() else None
