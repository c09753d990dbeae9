"""Paths of routines' files for display: without the parts that differ between machines."""

from __future__ import annotations

import re
from typing import Final

_LIBRARY: Final = re.compile(
    r".*[/\\](?:site-packages|dist-packages|lib(?:64)?/python\d+(?:\.\d+t?)?)[/\\]", re.DOTALL
)


def library_folder(path: str) -> str | None:
    """The site-packages or standard library in which a file lies."""
    folder = _LIBRARY.match(path)
    return None if folder is None else folder[0]


def shown_file(path: str) -> str:
    """The path relative to site-packages or the standard library, if it lies in one of them."""
    return _LIBRARY.sub("", path, count=1) or path
