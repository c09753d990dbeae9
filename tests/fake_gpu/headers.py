"""NVIDIA's own headers of CUPTI on this machine, and their versions.

The simulated CUPTI is written against them, and the layouts that taupy assumes are compared with
them. They come from the wheels that the tests install, from a CUDA toolkit, or, for other versions,
from the folder TAUPY_CUPTI_HEADERS (filled by `scripts/record_cupti_layouts.py FOLDER`).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REASON = (
    "no headers of CUPTI and CUDA: pip install 'taupy-profiler[test]' brings them, or a CUDA "
    "toolkit, or TAUPY_CUPTI_HEADERS names a folder"
)
NEEDED = ("cupti_range_profiler.h", "cuda.h", "cuda_runtime_api.h", "crt/host_defines.h")


class Headers(NamedTuple):
    """A version ("13.0") and the folders that a compiler needs for it."""

    version: str
    folders: tuple[Path, ...]

    @property
    def options(self) -> list[str]:
        return [f"-I{folder}" for folder in self.folders]


def compiler() -> str | None:
    """A C++ compiler, because some of NVIDIA's headers are not C."""
    return os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")


def installed() -> list[Headers]:
    """One per version, beginning with that of this Python's packages."""
    found: dict[str, Headers] = {}
    for folders in _candidates():
        chosen = [_first(folders, name) for name in NEEDED]
        if None not in chosen:
            version = _version(chosen[0])
            if _cuda_version(chosen[1]) == version:  # otherwise they do not compile together
                found.setdefault(version, Headers(version, tuple(dict.fromkeys(chosen))))
    return list(found.values())


def _candidates() -> Iterator[list[Path]]:
    wheels = [path for entry in sys.path for path in Path(entry, "nvidia").glob("*/include")]
    toolkit = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")]
    yield wheels
    yield wheels + toolkit
    yield toolkit
    if named := os.environ.get("TAUPY_CUPTI_HEADERS"):
        for version in sorted(Path(named).iterdir()):
            yield [version]


def _first(folders: list[Path], name: str) -> Path | None:
    return next((folder for folder in folders if (folder / name).exists()), None)


def _cuda_version(folder: Path) -> str:
    number = re.search(r"#define CUDA_VERSION (\d+)", (folder / "cuda.h").read_text("latin-1"))
    return f"{int(number[1]) // 1000}.{int(number[1]) % 1000 // 10}" if number else ""


def _version(folder: Path) -> str:
    number = re.search(r"#define CUPTI_API_VERSION (\d+)", (folder / "cupti_version.h").read_text())
    assert number is not None
    api = int(number[1])
    if api >= 130000:
        return f"{api // 10000}.{api // 100 % 100}"
    return {24: "12.6", 26: "12.8", 27: "12.9", 28: "12.9"}.get(api, f"API {api}")
