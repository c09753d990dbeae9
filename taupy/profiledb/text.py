"""Strings on their way into the database.

Names come from measured programs and may hold lone surrogates, which SQLite cannot take.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text, with what UTF-8 cannot hold (lone surrogates) as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def all_storable(texts: list[str]) -> list[str]:
    """Each of these texts as `storable` gives it; one look at all of them is mostly enough."""
    return texts if "".join(texts).isascii() else [storable(text) for text in texts]
