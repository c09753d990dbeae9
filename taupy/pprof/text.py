"""Text on a terminal: how wide it is, and how it is cut."""

from __future__ import annotations

import re
import unicodedata

# Text of these only takes one column a letter: ASCII, Latin, lines of boxes.
_NARROW = re.compile("[ -~\u00a0-\u02ff\u2026\u2500-\u257f]*")
_ELLIPSIS = "\u2026"


_STEP = " => "
"""Stands between the routines of a call path."""


def width(value: str) -> int:
    """Columns that the text takes on a terminal: two for wide letters."""
    if value.isascii() or _NARROW.fullmatch(value):
        return len(value)
    return sum(_letter_width(letter) for letter in value)


def cut(value: str, limit: int) -> str:
    """At most `limit` columns (0: all). A name is cut in the middle: both of its ends tell.

    A call path is cut at its root, by whole routines, as long as the last one fits.
    """
    if not limit or width(value) <= limit:
        return value
    if limit == 1:
        return _ELLIPSIS
    if _STEP in value:
        return _leaf(value, limit)
    head = _fitting(value, (limit - 1) // 2)
    tail = _fitting(value[::-1], limit - 1 - width(head))[::-1]
    return head + _ELLIPSIS + tail


def _leaf(path: str, limit: int) -> str:
    """The end of a call path: `… => f => g`."""
    *callers, end = path.split(_STEP)
    room = limit - width(_ELLIPSIS + _STEP)
    if width(end) > room:
        return cut(end, limit)
    while callers and width(callers[-1] + _STEP + end) <= room:
        end = callers.pop() + _STEP + end
    return _ELLIPSIS + _STEP + end


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
