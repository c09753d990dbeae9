"""Commands that read a database import what they cannot do without."""

import subprocess
import sys

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile

HEAVY = {
    "click", "csv", "ctypes", "difflib", "hashlib", "json", "matplotlib", "numpy", "pandas",
    "rich", "sqlite_utils", "subprocess", "threading", "zipfile",
}  # fmt: skip

READER = """
import argparse, ast, dataclasses, pathlib, sqlite3, sys
argparse.ArgumentParser().format_help()  # 3.14 colours it
before = set(sys.modules)
from taupy.commands import main
assert main(sys.argv[1:]) == 0
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("reading")
    with ProfileDB.open(path / "taupy.db", create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, small_profile(2))
    return path


@pytest.mark.parametrize(
    "command",
    ["pprof", "pprof --tree", "pprof --by module", "trials", "compare 1 2", "pivot"],
)
def test_a_command_that_reads_imports_nothing_heavy(folder, command):
    environment = {"TMPDIR": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    # -S: what an editable install imports to find us is not the command's doing.
    code = f"import sys; sys.path += {sys.path!r}\n{READER}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *command.split()],
        capture_output=True, text=True, cwd=folder, env=environment, timeout=60,
    )  # fmt: skip
    loaded = set(done.stderr.split())
    assert "taupy.profiledb.database" in loaded, done.stderr
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith(("taupy.record", "taupy.collectors"))}
    assert "taupy.profiledb.writer" not in loaded
