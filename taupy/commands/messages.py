"""Messages of commands: single lines on stderr, escaped here and only here."""

from __future__ import annotations

import sys

from taupy.escaping import visible


def say(*lines: str) -> None:
    """Write each text as one line after `taupy: `, control characters escaped, in one write."""
    text = "".join(f"taupy: {visible(line)}\n" for line in lines)
    print(text, end="", file=sys.stderr, flush=True)


def tell(line: str, *, end: str) -> None:
    """Write a line that is continued (a question), or that the next one overwrites.

    Args:
        end: written unescaped: taupy's own terminal sequences.
    """
    print(visible(line), end=end, file=sys.stderr, flush=True)
