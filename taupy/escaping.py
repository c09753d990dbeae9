"""Untrusted text on its way to a terminal, a page, a picture or a spreadsheet; how wide the
first is.

Names, metadata and values come from measured programs and foreign files, and may hold
anything: terminal escapes, line breaks, letters that reverse the direction of text, markup,
spreadsheet formulas. Whatever leaves taupy for a reader passes one of these functions:

- `visible` for one line on a terminal or in a log; `guarded` for lines that are complete
- `csv_cell` for a spreadsheet, `markdown` for Markdown, `json_visible` for JSON
- `html` for a page, which begins with `page_head`
- `framed` for a page within another one

`columns` is the one answer to how wide a line on a terminal may be.

Errors escape their own message (`errors.TaupyError`); `pprof/terminal.py` guards every line
that it writes, and no other module writes to the terminal (tests/unit/test_escaping.py).
Files for other programs (JSON, Parquet, SQLite, protobuf) keep values exactly.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

# C0 and C1 controls, line and paragraph separators, surrogates, what XML cannot hold, and
# what turns the direction of text or hides in it.
_UNSAFE = (
    *((0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E)),
    *((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF)),
    *((0xFFF9, 0xFFFB), (0xFFFE, 0xFFFF), (0xD800, 0xDFFF), (0xE0000, 0xE007F)),
)
_SHORT = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


def _is_unsafe(code: int) -> bool:
    return any(first <= code <= last for first, last in _UNSAFE)


class _Letters(dict[int, str]):
    """What `str.translate` puts in the place of each letter, computed when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = self.escape(code) if _is_unsafe(code) else chr(code)
        return self[code]

    def escape(self, code: int) -> str:
        if code in _SHORT:
            return _SHORT[code]
        if code < 0x100:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class _JsonLetters(_Letters):
    def escape(self, code: int) -> str:
        if code < 0x10000:
            return f"\\u{code:04x}"
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


class _Entities(_Letters):
    def escape(self, code: int) -> str:
        return f"&#x{code:x};"


class _Underscores(_Letters):
    def escape(self, code: int) -> str:
        return "_"


_LETTERS = _Letters()
_ENTITIES = _Entities({ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"})
_UNDERSCORES = _Underscores()
_LINES = _Letters({0x0A: "\n"})
_PAGES = _Letters({0x09: "\t", 0x0A: "\n", 0x0D: "\r"})
_JSON_LETTERS = _JsonLetters()
_MARKDOWN = {ord(letter): f"\\{letter}" for letter in r"\`*_{}[]<>|~#$&"}
_HTML = {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord('"'): "&quot;",
    ord("'"): "&#x27;",
}


def visible(text: str) -> str:
    """The text on one line, with every control character as an escape: `\\n`, `\\x1b`."""
    return text if text.isprintable() else text.translate(_LETTERS)


def unhidden(text: str) -> str:
    """A name for a file or a heading that takes no escapes: `_` in place of such characters."""
    return text.translate(_UNDERSCORES)


def guarded(text: str, *, colored: bool = False) -> str:
    """Lines that are complete, with what none of our lines may hold as escapes.

    Args:
        colored: the terminal's escapes for colours stay as they are.
    """
    if text.removesuffix("\n").isprintable():
        return text
    if not colored or "\x1b" not in text:
        return text.translate(_LINES)
    import re

    parts = re.split("(\x1b\\[[0-9;]*m)", text)
    parts[::2] = [part.translate(_LINES) for part in parts[::2]]
    return "".join(parts)


def json_visible(encoded: str) -> str:
    """Text that is JSON already with JSON's own escapes: its value does not change."""
    return encoded if encoded.isascii() else encoded.translate(_JSON_LETTERS)


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, also inside a table."""
    return visible(text).translate(_MARKDOWN)


# --- spreadsheets ------------------------------------------------------------

_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_SEPARATOR = ";"
"""What separates cells in locales whose decimal point is a comma."""


def csv_cell(text: str) -> str:
    """Text that stays text in a spreadsheet: what looks like a formula gets a `'` in front."""
    return visible(_SEPARATOR.join(map(_plain_cell, text.split(_SEPARATOR))))


def _plain_cell(text: str) -> str:
    return f"'{text}" if text.lstrip(' \t\r\n"').startswith(_FORMULA) else text


# --- pages and pictures ------------------------------------------------------


def html(text: str) -> str:
    """Text as the content of an element or of a quoted attribute."""
    return visible(text).translate(_HTML)


def entities(text: str) -> str:
    """Text of an XML file that is read back: nothing of it is lost, and nothing of it is seen."""
    return text.translate(_ENTITIES)


def guarded_page(page: str) -> str:
    """A page of another program's making, without letters that turn or hide text."""
    return page if page.isascii() and page.isprintable() else page.translate(_PAGES)


def framed(page: str, title: str, height: int) -> str:
    """One of our pages as a frame of another, which its scripts can neither read nor change."""
    text = page.replace("&", "&amp;").replace('"', "&quot;")
    return (
        f'<iframe sandbox="allow-scripts" title="{html(title)}" srcdoc="{text}" '
        f'style="width: 100%; height: {height}px; border: 0"></iframe>'
    )


def content_security_policy(scripts: Iterable[str] = ()) -> str:
    """The head line of one of our pages: it loads nothing, and runs these scripts only.

    Args:
        scripts: the whole text of each inline script; its hash is in the policy.
    """
    import base64
    import hashlib

    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    allowed = " ".join(f"'sha256-{digest.decode()}'" for digest in hashes)
    parts = [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "style-src 'unsafe-inline'",
        *([f"script-src {allowed}"] if allowed else []),
    ]
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(parts)}">'


def page_head(title: str, style: str, scripts: Iterable[str] = ()) -> str:
    """What one of our pages begins with, up to its body; see `content_security_policy`."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{content_security_policy(scripts)}
<title>{html(title)}</title>
<style>{style}</style>
</head>"""


def columns(stream: IO[str] | None, piped: int | None = None) -> int:
    """Columns of the window in which a stream is read: what COLUMNS says, or else its terminal, or
    else 80.

    Args:
        piped: those of a pipe or file, where COLUMNS does not count: readline sets it for all child
            processes of a program that imports it, and what scripts read is not cut. None: as on
            a terminal, for text that is laid out for people.
    """
    if piped is not None and not is_terminal(stream):
        return piped
    given = os.environ.get("COLUMNS", "")
    try:
        if given.isdigit() and int(given):
            return int(given)
        return os.get_terminal_size(stream.fileno() if stream else -1).columns or 80
    except (OSError, ValueError):
        return 80


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether this is an open stream on a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False
