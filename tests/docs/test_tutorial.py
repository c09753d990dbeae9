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

pytestmark = pytest.mark.slow
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"(    \$ taupy (.*)\n)((?:    .+\n)+)")
PYTORCH = "## The same with PyTorch"
PIECE = re.compile(r"^    .+\n(?:    .+\n|\n(?=    ))*", re.M)
"""An indented block: commands, of which the last one's output follows; or a cell, or its output."""
WRITES = bool(os.environ.get("TAUPY_WRITE_DOCS"))
WIDTH = 100 if WRITES else 400
"""The page has what fits; which columns that are depends on the numbers in them."""
STEADY = ("forward", "loss", "backward", "optimizer", "import", "(import)", ".taupy application")
"""Rows that are there whatever the versions and the machine."""
FIXED = (
    "Where the time goes", "your code", "imports", "measured completely", "not measured:",
    "next: taupy report", "Adam.update", "LINES", "ROUTINES", "Verdict", "NOT THE SAME", "wrote",
    "mnist.py:", "test accuracy", "python mnist.py", "s  notebook ",
    "taupy: trial 1: ", "taupy: next: taupy report 1",
)  # fmt: skip
"""What stands on every machine where the page says so."""
CELLS = """
import os, sys
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
for cell in sys.argv[1:]:
    shell.run_cell(cell).raise_error()
os._exit(0)
"""


def shown(folder, command):
    """What a command of taupy prints in a window."""
    return printed_by(folder, ["-m", "taupy", *shlex.split(command)])


def printed_by(folder, words):
    """What a program of Python prints in a window."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    environment = {
        **os.environ, "PAGER": "cat", "NO_COLOR": "1", "TERM": "dumb",
        "TAUPY_STATE_DIR": str(folder / "state"), "TAUPY_DB": str(folder / "taupy.db"),
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, stdout=theirs, stderr=theirs
    )
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


def test_each_block_of_the_tutorial_runs_with_numpy_alone(tmp_path):
    for name in ("mnist.py", "digits.py", "digits.csv.gz"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    text = PAGE.read_text()
    before, heading, after = text.partition(PYTORCH)
    pieces = PIECE.findall(before)
    made = dict[str, str]()
    cells = [re.sub("^    ", "", piece, flags=re.M) for piece in pieces if piece[4] == "%"]
    commands = [piece for piece in pieces if piece.startswith("    $ taupy ")]
    assert (len(commands), len(cells)) == (5, 2)
    for piece in commands:
        *_, last = lines = re.findall(r"    \$ taupy .*\n", piece)
        for line in lines:
            printed = shown(tmp_path, line[12:])
        now = without_middle(printed)
        made[piece] = "".join(lines) + indented(now)
        compare_fixed(piece[piece.index(last) + len(last) :], now)
    assert "<html" in (tmp_path / "mnist.html").read_text()
    if importlib.util.find_spec("IPython") is not None:
        now = printed_by(tmp_path, ["-c", CELLS, *cells])
        piece = pieces[pieces.index(next(each for each in pieces if "%%taupy" in each)) + 1]
        made[piece] = indented(now)
        compare_fixed(piece, now)
    if WRITES:
        for old, new in made.items():
            before = before.replace(old, new)
        PAGE.write_text(before + heading + after)


def without_middle(lines):
    """Without what the program says of all its epochs but the first and the last."""
    epochs = [at for at, line in enumerate(lines) if line.startswith("epoch ")]
    return [*lines[: epochs[0] + 1], "...", *lines[epochs[-1] :]] if len(epochs) > 2 else lines


def indented(lines):
    return "\n".join(f"    {line}".rstrip() for line in lines).rstrip() + "\n"


def compare_fixed(told, now):
    if not WRITES:
        # Which routine is the hottest depends on how busy the machine is.
        told = re.sub(r"; (most in|hottest is|no hot spot) .*", "", told)
        missing = [each for each in FIXED if each in told and each not in "\n".join(now)]
        assert missing == [], now


@needs_torch
@pytest.mark.timeout(3600)  # a C++ compiler reads all of PyTorch's headers, three times
def test_the_tutorial_shows_what_its_commands_print(folder):
    text = PAGE.read_text()
    made = {}
    blocks = BLOCK.findall(text, text.index(PYTORCH))
    for line, command, told in blocks:
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
            # Behind a name may stand where the routine is mostly.
            is_there = [any(f" {name} " in f"{row} " for row in of) for of in (rows, old)]
            assert is_there[0] or not is_there[1], name
    assert len(made) == len(blocks) == 5
    if WRITES:
        for old, new in made.items():
            text = text.replace(old, new)
        PAGE.write_text(text)
