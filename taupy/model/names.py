"""What follows from a routine's file path: its module, its package, and whose code it is."""

from __future__ import annotations

import posixpath

from taupy.pattern import pattern

NO_FILE = "(no file)"
LIBRARY = "LIBRARY"
"""Group of routines whose path does not show that they are an installed package's."""

_PACKAGES = ("site-packages", "dist-packages")
_ENDINGS = ("py", "pyc", "pyx", "pyw")

# A cell's file is named by its content, in a folder named by the kernel's process.
_CELLS = pattern(
    r"/ipykernel_\d+/(-?\d+)\.py|/ipython-input-(?:\d+-)?(-?\d+)\.py"
    r"|<ipython-input-\d+-([0-9a-f]+)>|/marimo_\d+/__marimo__cell_(\w+?)_?\.py"
)
_OF_CELLS = ("ipykernel_", "ipython-input-", "/marimo_")
CELL = "cell "
"""Begins the name of a notebook's cell; its number follows, which depends on its content."""


def one_name(file: str) -> str:
    """The one spelling of a file's path: `./small.py` and `sub/../small.py` are small.py, and a
    notebook's cell has the same name in every kernel."""
    may_be_cell = any(part in file for part in _OF_CELLS)
    if may_be_cell and (match := _CELLS.search(file)):
        return CELL + str(match[match.lastindex or 0])
    if not file or file.startswith("<") or "://" in file:
        return file
    return posixpath.normpath(file[1:] if file.startswith("//") else file)


def module_of(file: str | None) -> str:
    """`pkg/sub/__init__.py` is pkg.sub; a path outside any package stays a path."""
    if file is None:
        return NO_FILE
    file = one_name(file)
    frozen = file.removeprefix("<frozen ").removesuffix(">")
    if file == f"<frozen {frozen}>" and frozen:
        return frozen
    stem, dot, ending = file.rpartition(".")
    stem = stem if dot and ending in _ENDINGS else file
    parts = stem.split("/")
    if file == stem or not all(part.isidentifier() for part in parts):
        return file
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def in_packages(path: str) -> str | None:
    """The part of a path below the last site-packages or dist-packages, None outside of these."""
    _, folder, below = path.replace("/dist-packages/", "/site-packages/").rpartition(
        "/site-packages/"
    )
    return below if folder else None


def is_library(path: str, groups: str = "") -> bool:
    """Whether this file is part of the standard library or an installed package.

    Args:
        groups: of the timer, if the file is a timer's.
    """
    if path.startswith("<frozen") or _lies_in_library(path):
        return True
    return LIBRARY in groups.split("|")


def _lies_in_library(path: str) -> bool:
    """Whether a folder is that of packages, or the standard library's: .../lib/python3.11, however
    it was installed."""
    if "-packages" not in path and "python" not in path:
        return False
    *folders, _ = path.replace("\\", "/").split("/")
    for at, folder in enumerate(folders):
        if folder in _PACKAGES:
            return True
        is_version = at > 0 and folder.startswith("python") and folders[at - 1] in ("lib", "lib64")
        if is_version and _is_version(folder.removeprefix("python")):
            return True
    return False


def _is_version(text: str) -> bool:
    """Whether a text is a version as the standard library's folder has it: 3, 3.11, 3.13t."""
    major, dot, minor = text.partition(".")
    return major.isdecimal() and (not dot or minor.removesuffix("t").isdecimal())
