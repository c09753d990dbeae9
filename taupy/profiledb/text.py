"""Strings on their way into the database.

Names come from measured programs and may hold lone surrogates, which SQLite cannot take.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text, with what UTF-8 cannot hold (lone surrogates) as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
