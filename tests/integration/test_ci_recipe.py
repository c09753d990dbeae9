"""The workflow of examples/ci: its commands, run in their order in a repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / "examples" / "ci" / "performance.yml"

BENCH = """\
def work(n):
    return sum(i * i for i in range(n))
def main():
    for _ in range(10):
        work({})
main()
"""


def commands():
    """Name of a step -> what it runs."""
    found = {}
    for name, block, line in re.findall(
        r"- name: (.+)\n(?: +if: .+\n)? +run: (?:\|\n((?: {10}.+\n)+)|(.+)\n)",
        WORKFLOW.read_text(),
    ):
        found[name] = textwrap.dedent(block) if block else line
    return found


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A clone whose main branch has a benchmark, with taupy on its PATH."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b.c")
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "taupy").write_text(f'#!/bin/sh\nexec {sys.executable} -m taupy "$@"\n')
    (bin / "taupy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    origin, clone = tmp_path / "origin", tmp_path / "work" / "clone"
    subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
    (origin / "bench.py").write_text(BENCH.format(5_000))
    subprocess.run(["git", "add", "."], cwd=origin, check=True)
    subprocess.run(["git", "commit", "-qm", "bench"], cwd=origin, check=True)
    subprocess.run(["git", "clone", "-q", origin, clone], check=True)
    return clone


def run(repository, step):
    command = commands()[step].replace("${{ github.base_ref }}", "main")
    assert "${{" not in command
    return subprocess.run(["bash", "-ec", command], cwd=repository, capture_output=True, text=True)


def test_the_workflow_installs_what_this_project_is_called():
    project = (ROOT / "pyproject.toml").read_text()
    (name,) = re.findall(r'^name = "(taupy[\w-]*)"$', project, re.MULTILINE)
    assert commands()["Install"] == f"pip install {name}"
    assert [*commands()] == ["Install", "Check out the baseline beside the candidate", "Gate",
                             "Show the report"]  # fmt: skip


@pytest.mark.slow
def test_the_commands_of_the_workflow_stop_a_slow_commit(repository, tmp_path):
    (repository / "bench.py").write_text(BENCH.format(40_000))
    assert run(repository, "Check out the baseline beside the candidate").returncode == 0
    gate = run(repository, "Gate")
    assert gate.returncode == 3, gate.stderr
    assert run(repository, "Show the report").returncode == 0
    assert (tmp_path / "summary.md").read_text().startswith("### GATE FAILED: cpu")
    suite = ET.parse(repository / "gate.xml").getroot()[0]
    assert suite.attrib == {
        "name": "taupy gate", "tests": "1", "failures": "1", "errors": "0", "skipped": "0"
    }  # fmt: skip
    assert suite[0][0].tag == "failure" and "%" in suite[0][0].attrib["message"]
