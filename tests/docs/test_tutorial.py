"""The tutorial's outputs: made by its own commands, and compared with what those print now.

    TAUPY_WRITE_DOCS=1 python -m pytest -m slow tests/docs/test_tutorial.py

writes them anew. Times differ from run to run and routines from version to version of PyTorch, so
the comparison is of headings, and of the rows that every version has, however long they take.
"""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
    ),
]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"(    \$ taupy (.*)\n)((?:    .+\n)+)")
WRITES = bool(os.environ.get("TAUPY_WRITE_DOCS"))
WIDTH = 100 if WRITES else 400
"""The page has what fits; which columns that are depends on the numbers in them."""
STEADY = ("forward", "loss", "backward", "optimizer", "import", "(import)", ".taupy application")
"""Rows that are there whatever the versions and the machine."""


def shown(folder, command):
    """What a command prints in a window."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    environment = {
        **os.environ, "PAGER": "cat", "NO_COLOR": "1", "TERM": "dumb",
        "TAUPY_STATE_DIR": str(folder / "state"), "TAUPY_DB": str(folder / "taupy.db"),
    }  # fmt: skip
    line = [sys.executable, "-m", "taupy", *shlex.split(command)]
    child = subprocess.Popen(line, cwd=folder, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    try:
        while more := os.read(ours, 65536):
            printed += more
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait() == 0, printed
    return printed.decode().replace("\r", "").splitlines()


def table(lines):
    """The headings and the rows of the first table, without rules and the title."""
    rules = [at for at, line in enumerate(lines) if re.fullmatch("-+", line)]
    if not rules:
        return lines, []
    body = lines[rules[1] + 1 :]
    ends = next((at for at, row in enumerate(body) if not row or set(row) == {"-"}), len(body))
    rows = [row for row in body[:ends] if not row.endswith("-others-")]
    return lines[rules[0] + 1 : rules[1]], rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tutorial")
    for name in ("torch_cnn.py", "digits.py", "digits.csv.gz"):
        shutil.copy(ROOT / "examples" / name, folder)
    subprocess.run(
        [sys.executable, "-m", "taupy", "setup", "torch"], check=True, stdout=subprocess.DEVNULL,
        env={**os.environ, "TAUPY_STATE_DIR": str(folder / "state")},
    )  # fmt: skip
    return folder


def test_the_tutorial_shows_what_its_commands_print(folder):
    text = PAGE.read_text()
    made = {}
    for line, command, told in BLOCK.findall(text):
        if not WRITES:
            command = re.sub(r" --(limit|min-share) \d+", "", command)
        headings, rows = table(shown(folder, command))
        made[line + told] = line + "".join(f"    {row}\n".rstrip(" ") for row in headings + rows)
        old = [row[4:] for row in told.splitlines()]
        if WRITES:
            continue
        if not rows:  # of the program
            assert [row.split()[0] for row in old] == [row.split()[0] for row in headings]
            continue
        first = next(at for at, row in enumerate(old) if row.split()[0][0].isdigit())
        assert {*" ".join(old[:first]).split()} <= {*" ".join(headings).split()}
        for name in STEADY:
            assert any(row.endswith(f" {name}") for row in rows) or not any(
                row.endswith(f" {name}") for row in old
            ), name
    assert len(made) == len(BLOCK.findall(text)) == 5
    if WRITES:
        for old, new in made.items():
            text = text.replace(old, new)
        PAGE.write_text(text)
