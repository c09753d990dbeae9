"""Make strings storable in the database.

Names come from measured programs and may contain lone surrogates, which SQLite rejects.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """The text, with characters that UTF-8 cannot encode (lone surrogates) as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def all_storable(texts: list[str]) -> list[str]:
    """`storable` applied to each text; usually a single check of all of them suffices."""
    return texts if "".join(texts).isascii() else [storable(text) for text in texts]
