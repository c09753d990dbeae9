"""Text on a terminal: how wide it is, and how it is cut."""

from __future__ import annotations

import re
import unicodedata

# Text of these only takes one column a letter: ASCII, Latin, lines of boxes.
_NARROW = re.compile("[ -~\u00a0-\u02ff\u2026\u2500-\u257f]*")
_ELLIPSIS = "\u2026"


def width(value: str) -> int:
    """Columns that the text takes on a terminal: two for wide letters."""
    if value.isascii() or _NARROW.fullmatch(value):
        return len(value)
    return sum(_letter_width(letter) for letter in value)


def cut(value: str, limit: int) -> str:
    """At most `limit` columns (0: all), cut in the middle: both ends of a name tell."""
    if not limit or width(value) <= limit:
        return value
    if limit == 1:
        return _ELLIPSIS
    head = _fitting(value, (limit - 1) // 2)
    tail = _fitting(value[::-1], limit - 1 - width(head))[::-1]
    return head + _ELLIPSIS + tail


def _fitting(value: str, limit: int) -> str:
    taken = 0
    for at, letter in enumerate(value):
        taken += _letter_width(letter)
        if taken > limit:
            return value[:at]
    return value


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
