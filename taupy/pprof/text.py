"""Measure and cut text for a terminal."""

from __future__ import annotations

import re
import unicodedata

# Characters that are one column wide: ASCII, Latin, box drawing.
_NARROW = re.compile("[ -~\u00a0-\u02ff\u2026\u2500-\u257f]*")
_ELLIPSIS = "\u2026"


_STEP = " => "
"""Separator between the routines of a call path."""


def width(value: str) -> int:
    """Width of the text in columns: two for each wide letter."""
    if value.isascii() or _NARROW.fullmatch(value):
        return len(value)
    return sum(_letter_width(letter) for letter in value)


def cut(value: str, limit: int) -> str:
    """Cut text to `limit` columns (0: do not cut). A name is cut in the middle.

    A call path loses whole routines at its root, as long as the last routine fits.
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
