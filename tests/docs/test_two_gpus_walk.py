"""What docs/gpu.md shows of two public traces is what the commands print."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests import in_process

TRACES = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "traces"
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
SECTION = "## Two GPUs, from beginning to end"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TRACES.exists(), reason="TAUPY_SHARED_DATA has no traces"),
]


def shown() -> dict[str, list[str]]:
    """Each command of the section, with the lines below it."""
    text = PAGE.read_text().partition(f"{SECTION}\n")[2].partition("\n## ")[0]
    commands: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in re.findall(r"^ {4}(.*)$", text, re.MULTILINE):
        if line.startswith("$ taupy "):
            lines = commands.setdefault(line.removeprefix("$ taupy "), [])
        else:
            lines.append(line)
    return commands


def test_the_commands_print_what_the_page_shows(tmp_path):
    for name in ("qwen_h100", "qwen_mi300"):
        (tmp_path / f"{name}.json.gz").symlink_to(TRACES / f"{name}.json.gz")
    commands = shown()
    assert sum(map(len, commands.values())) > 15
    for command, lines in commands.items():
        done = in_process.taupy(*shlex.split(command), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        printed = [line.rstrip() for line in done.stdout.splitlines()]
        for line in lines:  # a row may be cut: the page leaves out the names of kernels
            assert any(real.startswith(line) for real in printed), f"taupy {command}: {line}"


def test_the_words_have_the_numbers_of_the_output():
    text = PAGE.read_text().partition(f"{SECTION}\n")[2].partition("\n## ")[0]
    output = "\n".join(line for lines in shown().values() for line in lines)
    prose = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    numbers = re.findall(r"\d+\.\d+ (?:ms|%)", prose)
    assert len(numbers) >= 3
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number.removesuffix(' %'))}", output), number
