"""Show long text on a terminal in a pager, and everything else directly.

A pager is used only if standard output and input are terminals and the text is longer than the
window. `PAGER` replaces `less`; an empty `PAGER` or `PAGER=cat` disables the pager.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def write(lines: Iterator[str], out: IO[str]) -> None:
    """Write the lines to `out`, or to a pager if they do not fit the window."""
    height = _window_height(out)
    head = list(islice(lines, height)) if height else []
    if height and sum(line.count("\n") for line in head) >= height:
        pager = _start_pager()
        if pager is not None:
            _feed(pager, chain(head, lines))
            return
    for line in chain(head, lines):
        out.write(line)
    out.flush()  # a closed pipe is noticed here, not at interpreter exit


def _window_height(out: IO[str]) -> int:
    """Lines of the window; 0 if input or output is not a terminal."""
    if out is not sys.stdout or os.environ.get("TERM", "") in ("", "dumb"):
        return 0
    try:
        if not (out.isatty() and sys.stdin is not None and sys.stdin.isatty()):
            return 0
        return os.get_terminal_size(out.fileno()).lines
    except (OSError, ValueError):
        return 0


def _start_pager() -> subprocess.Popen[str] | None:
    import shlex
    import subprocess

    command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or command == ["cat"]:
        return None
    # Keep colours, quit if the text fits one screen, do not wrap long lines.
    environment = {"LESS": "FRSX", **os.environ}
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="replace"
        )
    except OSError:
        return None


def _feed(pager: subprocess.Popen[str], lines: Iterator[str]) -> None:
    assert pager.stdin is not None
    with suppress(BrokenPipeError):  # the user quit the pager
        try:
            pager.stdin.writelines(lines)
        finally:
            pager.stdin.close()  # or Python 3.13 reports unwritten text when it discards the stream
    while True:
        try:
            pager.wait()
            return
        except KeyboardInterrupt:
            continue  # Ctrl-C stops a search in the pager; q ends it
