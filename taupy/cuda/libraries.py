"""Where CUDA's libraries and programs are: those of pip's wheels, else those of the system."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_SYSTEM = ("/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64", "/opt/cuda/lib64")


def candidates(stem: str) -> Iterator[Path]:
    """Files of a library (such as `libnvrtc`), the most likely first: those in NVIDIA's wheels (a
    folder per library up to CUDA 12, a single one since 13), then in toolkits; newest first."""
    folders = []
    for entry in sys.path:
        root = Path(entry or ".") / "nvidia"
        if root.is_dir():
            folders += [*sorted(root.glob("cu[0-9]*/lib"), reverse=True), *root.glob("*/lib")]
    folders += [Path(folder) for folder in _SYSTEM]
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob(f"{stem}.so.*"), key=_version, reverse=True):
            if path not in seen and ".alt." not in path.name:
                seen.add(path)
                yield path


def programs(name: str) -> Iterator[Path]:
    """Files of a command-line tool (such as `nvdisasm`) in NVIDIA's wheels, on PATH, in toolkits,
    and in Triton's package."""
    folders: list[Path] = []
    triton = []
    for entry in sys.path:
        root = Path(entry or ".")
        folders += [*sorted(root.glob("nvidia/cu[0-9]*/bin"), reverse=True)]
        folders += root.glob("nvidia/*/bin")
        triton.append(root / "triton/backends/nvidia/bin")
    on_path = shutil.which(name)
    folders += [Path(on_path).parent] if on_path else []
    folders += [Path("/usr/local/cuda/bin"), Path("/opt/cuda/bin"), *triton]
    for path in dict.fromkeys(folder / name for folder in folders):
        if path.is_file() and os.access(path, os.X_OK):
            yield path


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.split(".so.")[-1].split(".") if part.isdigit())


def load(stem: str, names: Sequence[str] = ()) -> tuple[ctypes.CDLL | None, str]:
    """The first of a library's files that loads, and its path; or None and the reason.

    Args:
        stem: "libnvrtc".
        names: names for the system's loader if all files have failed.
    """
    problems = []
    for place in [*map(str, candidates(stem)), *names]:
        try:
            return ctypes.CDLL(place), place
        except OSError as problem:
            problems.append(str(problem))
    return None, problems[-1] if problems else f"there is no {stem}"
