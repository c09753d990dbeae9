"""Files of routines as they are shown: without what differs between machines."""

from __future__ import annotations

import re
from typing import Final

_LIBRARY: Final = re.compile(
    r".*[/\\](?:site-packages|dist-packages|lib(?:64)?/python\d+(?:\.\d+t?)?)[/\\]", re.DOTALL
)


def shown_file(path: str) -> str:
    """Relative to site-packages or the standard library where it lies in one of them."""
    return _LIBRARY.sub("", path, count=1) or path
