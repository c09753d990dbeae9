"""What follows from a routine's file path: its module, its package, and whose code it is."""

from __future__ import annotations

import posixpath
import re

NO_FILE = "(no file)"
LIBRARY = "LIBRARY"
"""Group of routines whose path does not show that they are an installed package's."""

# The standard library is in .../lib/python3.11, however it was installed.
_LIBRARY = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib(64)?/python\d+(\.\d+t?)?)[/\\]")

# A cell's file is named by its content, in a folder named by the kernel's process.
_CELLS = re.compile(
    r"/ipykernel_\d+/(-?\d+)\.py|/ipython-input-(?:\d+-)?(-?\d+)\.py"
    r"|<ipython-input-\d+-([0-9a-f]+)>|/marimo_\d+/__marimo__cell_(\w+?)_?\.py"
)
CELL = "cell "
"""Begins the name of a notebook's cell; its number follows, which depends on its content."""


def one_name(file: str) -> str:
    """The one spelling of a file's path: `./small.py` and `sub/../small.py` are small.py, and a
    notebook's cell has the same name in every kernel."""
    if match := _CELLS.search(file):
        return CELL + str(match[match.lastindex or 0])
    if not file or file.startswith("<") or "://" in file:
        return file
    return posixpath.normpath(file[1:] if file.startswith("//") else file)


def module_of(file: str | None) -> str:
    """`pkg/sub/__init__.py` is pkg.sub; a path outside any package stays a path."""
    if file is None:
        return NO_FILE
    file = one_name(file)
    if frozen := re.fullmatch(r"<frozen (.+)>", file):
        return frozen[1]
    stem = re.sub(r"\.(py|pyc|pyx|pyw)$", "", file)
    parts = stem.split("/")
    if file == stem or not all(part.isidentifier() for part in parts):
        return file
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def in_packages(path: str) -> str | None:
    """The part of a path below the last site-packages or dist-packages, None outside of these."""
    folders = re.split(r"/(?:site|dist)-packages/", path)
    return folders[-1] if len(folders) > 1 else None


def is_library(path: str, groups: str = "") -> bool:
    """Whether this file is part of the standard library or an installed package.

    Args:
        groups: of the timer, if the file is a timer's.
    """
    if path.startswith("<frozen") or _LIBRARY.search(path) is not None:
        return True
    return LIBRARY in groups.split("|")
