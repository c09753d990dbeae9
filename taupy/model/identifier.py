"""What identifies a trial in every database and store: its uuid."""

from __future__ import annotations

import re

_UUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,99}", re.ASCII)


def is_uuid(text: str) -> bool:
    """Whether a text identifies a trial; it then is safe as a part of a path."""
    return _UUID.fullmatch(text) is not None
