"""What follows from a routine's file path: its module, its package, and whose code it is."""

from __future__ import annotations

import re

NO_FILE = "(no file)"

# The standard library is in .../lib/python3.11, however it was installed.
_LIBRARY = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib(64)?/python\d+(\.\d+t?)?)[/\\]")


def module_of(file: str | None) -> str:
    """`pkg/sub/__init__.py` is pkg.sub; a path outside any package stays a path."""
    if file is None:
        return NO_FILE
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


def is_library(path: str) -> bool:
    """Whether this file is part of the standard library or an installed package."""
    return path.startswith("<frozen") or _LIBRARY.search(path) is not None
