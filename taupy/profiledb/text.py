"""Strings on their way into the database and out to people.

Names come from measured programs and may hold anything: lone surrogates, which
SQLite cannot take, and control characters, which a terminal must not get.
"""

from __future__ import annotations


def storable(text: str) -> str:
    """The same text, with what UTF-8 cannot hold (lone surrogates) as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shown(text: str) -> str:
    """The text on one line, with all that is not printable as backslash escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
