"""Long text on a terminal goes through a pager, and nothing else does."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

PROGRAM = (
    "import sys; from taupy.pprof import pager\n"
    "pager.write((f'line {n}\\n' for n in range(int(sys.argv[1]))), sys.stdout)"
)


def on_a_terminal(lines, pager, rows=10):
    """What a terminal of so many rows shows when so many lines are written."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "PAGER": pager}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(lines)],
        stdin=follower, stdout=follower, stderr=follower, env=environment,
    )  # fmt: skip
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # EIO: the last writer has closed the terminal
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert child.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def test_text_longer_than_the_window_goes_through_the_pager():
    shown = on_a_terminal(10, "sed s/^/paged:/")
    assert shown == "".join(f"paged:line {n}\n" for n in range(10))


@pytest.mark.parametrize(
    ("lines", "pager"),
    [(9, "sed s/^/paged:/"), (10, ""), (10, "cat"), (10, "/no/such/pager")],
    ids=["it fits", "none wanted", "cat", "none installed"],
)
def test_text_is_written_directly_otherwise(lines, pager):
    assert on_a_terminal(lines, pager) == "".join(f"line {n}\n" for n in range(lines))


def test_a_pager_that_ends_early_is_no_error():
    assert on_a_terminal(100_000, "head -n 1") == "line 0\n"


def test_a_pipe_sees_no_pager():
    environment = {**os.environ, "TERM": "xterm", "PAGER": "sed s/^/paged:/"}
    command = [sys.executable, "-c", PROGRAM, "50"]
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert output.stdout == "".join(f"line {n}\n" for n in range(50))
