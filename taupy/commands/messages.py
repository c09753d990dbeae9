"""What commands say beside their answer: single lines on stderr, escaped here and only here."""

from __future__ import annotations

import sys

from taupy.escaping import visible


def say(*lines: str) -> None:
    """Each text as one line after `taupy: `, whatever it quotes; all in one piece."""
    text = "".join(f"taupy: {visible(line)}\n" for line in lines)
    print(text, end="", file=sys.stderr, flush=True)


def tell(line: str, *, end: str) -> None:
    """A line that goes on (a question), or that the next one overwrites.

    Args:
        end: as it is: our own terminal escapes.
    """
    print(visible(line), end=end, file=sys.stderr, flush=True)
