"""`taupy run` stands before every program: it imports what it cannot do without."""

import subprocess
import sys
import sysconfig

import pytest

from taupy.instrument import launch
from taupy.state.folder import open_run

HEAVY = {
    "ctypes.util", "dataclasses", "difflib", "hashlib", "inspect", "json", "pathlib", "random",
    "shutil", "signal", "sqlite3", "subprocess", "sysconfig", "tempfile", "threading", "tokenize",
    "typing", "urllib.parse",
}  # fmt: skip

OF_OPTIONS = {
    "argparse", "collections", "contextlib", "enum", "functools", "gettext", "re", "types",
    "warnings", "importlib", "taupy.instrument.boot",
}  # fmt: skip
"""What a command line with options needs; it takes as long to import as an interpreter to start."""
ARGPARSE = """
import argparse
argparse.ArgumentParser().format_help()  # 3.14 colours it, by dataclasses
"""
LAUNCHER = """
import ctypes, os, sys
before = set(sys.modules)
sys.argv[1:] = WORDS
def execve(*_):
    print(*sorted(set(sys.modules) - before))
    sys.stdout.flush()
    os._exit(0)
os.execve = execve
from taupy.commands import main
main()
"""


@pytest.mark.parametrize(
    "before, words, heavy",
    [
        (ARGPARSE, ["run", "--quiet", "-c", "pass"], HEAVY),
        ("", ["run", "-c", "pass"], HEAVY | OF_OPTIONS),
        ("open('script.py', 'w').close()", ["run", "script.py"], HEAVY | OF_OPTIONS),
    ],
    ids=["options", "no options", "script"],
)
def test_the_launcher_imports_nothing_heavy(before, words, heavy, tmp_path):
    environment = {"TAUPY_STATE_DIR": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"}
    # -S: what an editable install imports to find us is not the launcher's doing.
    code = f"{before}\n{LAUNCHER.replace('WORDS', repr(words))}"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{code}"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60
    )
    loaded = set(done.stdout.split())
    assert "taupy.instrument.launch" in loaded, done.stderr
    assert sorted(loaded & heavy) == []


def test_a_run_is_stored_by_the_taupy_that_measured_it(tmp_path):
    """Not by one that is installed, whose folder comes first."""
    for name in ("installed", "ours"):
        commands = tmp_path / name / "taupy" / "commands"
        commands.mkdir(parents=True)
        for package in (commands.parent, commands):
            (package / "__init__.py").touch()
        (commands.parent / "importing.py").write_text("def begin(): pass")
        (commands / "storer.py").write_text(f"def store(run): print({name!r}, run)")
    code = launch._STORER.format(
        paths=[str(tmp_path / "installed"), str(tmp_path / "ours")], home=str(tmp_path / "ours")
    )
    command = [sys.executable, "-I", "-S", "-c", code, "a run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "ours a run\n", done.stderr


def test_a_storer_finds_what_it_needs_without_site(tmp_path):
    """Also if the program lies among the packages, whose folder is then on its path."""
    packages = sysconfig.get_path("purelib")
    settings = launch.settings_here(packages, str(tmp_path))
    assert "" not in settings.module_path
    with open_run(str(tmp_path)) as folder:
        command = launch.storer_command(folder, settings.module_path)
    code = "import sys, numpy; sys.exit('site' in sys.modules)"
    at = command.index(b"-c") + 1
    command[at] = b"import sys; sys.path.extend(%a);%b" % (settings.module_path, code.encode())
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
