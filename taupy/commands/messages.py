"""Messages of commands: single lines on stderr, escaped here and only here."""

from __future__ import annotations

import select
import sys

from taupy.escaping import visible

_PATIENCE_MS = 500


def say(*lines: str) -> None:
    """Write each text as one line after `taupy: `, control characters escaped, in one write."""
    text = "".join(f"taupy: {visible(line)}\n" for line in lines)
    if lines:  # even an empty write stops a job in the background (`stty tostop`)
        print(text, end="", file=sys.stderr, flush=True)


def leave_word(descriptor: int, *lines: str) -> None:
    """As `say`, to a descriptor on which nothing may wait for the reader: of a program that has
    ended, whose parent may read after that only. What cannot be written at once is left out, and
    so is everything where it would stop the program's job (`stty tostop`, in the background).

    The calling process must end soon: the thread that writes may be left waiting.
    """
    import os
    from _thread import start_new_thread  # `threading` takes long to import
    from contextlib import suppress

    text = "".join(f"taupy: {visible(line)}\n" for line in lines)
    data = text.encode(errors="backslashreplace")
    try:
        if os.isatty(descriptor) and is_in_background(descriptor):
            import termios

            if termios.tcgetattr(descriptor)[3] & termios.TOSTOP:
                return
        whole = len(data) <= select.PIPE_BUF  # so much is written as a whole, or not at all
        pieces = [data] if whole else data.splitlines(keepends=True)
        over, writes = os.pipe()
    except OSError:
        return

    def write() -> None:
        with suppress(OSError):
            for piece in pieces:
                os.write(descriptor, piece)
        os.close(writes)

    start_new_thread(write, ())
    # A lock's timeout is a moment of the clock, which a library may have replaced (libfaketime).
    end = select.poll()
    end.register(over, 0)
    end.poll(_PATIENCE_MS)


def is_in_background(terminal: int) -> bool:
    """Whether this process is in the background of a terminal, which must be its own."""
    import os

    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:
        return False  # the terminal of another session, which stops nobody in this one


def tell(line: str, *, end: str) -> None:
    """Write a line that is continued (a question), or that the next one overwrites.

    Args:
        end: written unescaped: taupy's own terminal sequences.
    """
    print(visible(line), end=end, file=sys.stderr, flush=True)
