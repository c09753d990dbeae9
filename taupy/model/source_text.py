"""Read the text of a source file as the interpreter reads it."""

from __future__ import annotations

import os

from taupy.state.folder import open_named

LARGEST = 1 << 20
"""Bytes of a source file; larger ones are not read."""


def read(path: str) -> tuple[bytes, float] | None:
    """The content of a file, and when it was written [s since the epoch].

    None for what is no readable regular file (a pipe, a member of a zip file), or is too large.
    """
    try:
        with open_named(path) as file:
            status = os.fstat(file.fileno())
            return None if status.st_size > LARGEST else (file.read(LARGEST), status.st_mtime)
    except (OSError, ValueError):
        return None


def decoded(data: bytes) -> str:
    """Source text as the interpreter decodes it, with `\\n` at the ends of lines."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError:
        import io
        import tokenize

        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            text = data.decode(encoding, "replace")
        except (SyntaxError, LookupError):
            text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
