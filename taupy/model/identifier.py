"""What identifies a trial in every database and store: its uuid."""

from __future__ import annotations

_SHORTEST, _LONGEST = 8, 100


def is_uuid(text: str) -> bool:
    """Whether a text identifies a trial; it then is safe as a part of a path."""
    fits = _SHORTEST <= len(text) <= _LONGEST and text.isascii()
    return fits and text[0] != "-" and text.replace("-", "").isalnum()
