"""Text as it may be shown: escaped, measured, cut.

Names of routines, threads and files come from programs that we do not know.
"""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls, line and paragraph separators, surrogates, and what turns
# the direction of text or hides in it.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# Text of these only takes one column a letter: ASCII, Latin, lines of boxes.
_NARROW = re.compile("[ -~\u00a0-\u02ff\u2026\u2500-\u257f]*")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#$&])")
_ELLIPSIS = "\u2026"


def visible(value: str) -> str:
    """The same text with every control character as an escape: `\\n`, `\\x1b`."""
    if value.isascii() and value.isprintable():
        return value
    return _UNSAFE.sub(_escape, value)


def json_visible(encoded: str) -> str:
    """The same for text that is JSON already: its own escapes, so no change in value."""
    return encoded if encoded.isascii() else _UNSAFE.sub(_json_escape, encoded)


def markdown(value: str) -> str:
    """Text that Markdown shows as it is, also inside a table."""
    return _MARKDOWN.sub(r"\\\1", value)


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


def _escape(match: re.Match[str]) -> str:
    letter = match.group()
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(letter)
    if named is not None:
        return named
    code = ord(letter)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
