"""Installing beside an older scientific stack, using, removing: what was there is there after."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

THERE = ["numpy==1.26.4", "pandas==2.1.4", "rich==13.5.2", "click==8.1.7", "sqlalchemy==2.0.23"]
BUILT = shutil.ignore_patterns(
    ".venv*", ".git", "build", "dist", "*.so", "__pycache__", "*.egg-info"
)

PROGRAM = """
import numpy, pandas
print(pandas.DataFrame({"x": numpy.arange(4)})["x"].sum(), numpy.__version__, pandas.__version__)
"""


class Environment:
    def __init__(self, folder):
        self.folder, self.python = folder, folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        self.site = next(folder.glob("venv/lib/python*/site-packages"))
        self.variables = {
            **{
                k: v for k, v in os.environ.items() if not k.startswith(("TAUPY", "XDG_", "PYTHON"))
            },
            **{"HOME": str(folder), "TAUPY_STATE_DIR": str(folder / "state")},
        }

    def run(self, *words):
        return subprocess.run(
            [str(self.python.with_name(words[0])), *words[1:]], env=self.variables,
            cwd=self.folder, capture_output=True, text=True, timeout=540,
        )  # fmt: skip

    def pip(self, *words):
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *words)

    def frozen(self):
        return set(self.pip("freeze").stdout.splitlines())


def test_what_was_there_before_is_there_after(tmp_path):
    if sys.version_info >= (3, 13):
        pytest.skip("NumPy 1.26 has no wheels for this Python")
    here = Environment(tmp_path)
    stack = here.pip("install", "--only-binary", ":all:", *THERE)
    if "from versions: none" in stack.stderr:
        pytest.skip("no package index can be reached")
    assert stack.returncode == 0, stack.stderr
    before, hooks = here.frozen(), {*here.site.glob("*.pth")}
    assert {*THERE} <= {line.lower() for line in before}
    source = shutil.copytree(ROOT, tmp_path / "source", ignore=BUILT)  # pip builds in it
    installed = here.pip("install", str(source))
    assert installed.returncode == 0, installed.stderr
    with_taupy = here.frozen()
    assert before < with_taupy
    assert here.pip("check").returncode == 0

    (tmp_path / "program.py").write_text(PROGRAM)
    ran = here.run("taupy", "run", "program.py")
    assert ran.stdout == "6 1.26.4 2.1.4\n", ran.stderr
    assert "trial 1" in ran.stderr
    for words in (
        ["pprof"],
        ["report"],
        ["report", "-o", "page.html"],
        ["trials", "tag", "1", "x"],
    ):
        assert here.run("taupy", *words).returncode == 0, words
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")

    cleaned = here.run("taupy", "clean", "--all")
    assert cleaned.returncode == 0, cleaned.stderr
    named = re.search(r"pip uninstall (.*)", cleaned.stderr)[1].split()
    of_taupy = {re.match(r"[\w.-]+", line)[0].lower() for line in with_taupy - before}
    assert {*named} == of_taupy
    assert here.pip("uninstall", "--yes", *named).returncode == 0
    assert here.frozen() == before
    assert {*here.site.glob("*.pth")} == hooks
    assert not [*here.site.glob("taupy*")]
    assert (tmp_path / "taupy.db").exists()
