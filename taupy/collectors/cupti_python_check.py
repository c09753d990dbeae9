"""Whether NVIDIA's cupti-python can record GPU work here, checked before the program starts.

The package is not imported; its metadata is enough.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

PACKAGE = "cupti-python"
AT_LEAST = (13, 4)
"""Earlier versions deliver records that are valid during the callback only, and open a separate
CUPTI."""

REMEDY = "pip install 'taupy-profiler[cupti]' (it includes CUPTI 13.4 or later)"


def installed() -> str:
    """The package and its version, "cupti-python 13.4.0"; "" if it is not installed."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def cuda_major() -> int:
    """The major version of CUDA for which it was built; 0 if it is not installed."""
    number = installed().rpartition(" ")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def _absent() -> list[str]:
    """Packages that it requires and that are not installed. CUPTI itself may be a program's own."""
    required = importlib.metadata.requires(PACKAGE) or []
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in required if "extra" not in line]
    return [name for name in names if name != "nvidia-cuda-cupti" and not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def problem() -> str:
    """Why it cannot be used, with the remedy; "" if it can."""
    version = installed()
    if not version or importlib.util.find_spec("cupti") is None:
        return f"{PACKAGE} is not installed: {REMEDY}"
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < AT_LEAST:
        return f"{version} is too old: {REMEDY}"
    if absent := _absent():
        return f"{version} needs {', '.join(absent)}, which is not installed: {REMEDY}"
    native = Path(__file__).parent.parent / "_native"
    if not any(native.glob("cupti_python.*.so")):
        return "the library that starts it was not compiled (see `taupy doctor`)"
    return ""
