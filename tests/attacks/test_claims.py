"""A process of somebody else cannot claim to be a child of a run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from taupy.watch import descendants

SLEEP = "import time\ntime.sleep(60)\n"


def test_the_number_is_on_no_command_line_and_not_in_the_folders_name(runs, native):
    done = runs.run(
        """
import os
entry = next(item for item in open("/proc/self/environ", "rb").read().split(b"\\0")
             if item.startswith(b"TAUPY_BOOT="))
number = entry.rpartition(b"/.")[2]
assert len(number) == 32, entry
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            assert number not in open(f"/proc/{name}/cmdline", "rb").read(), name
        except OSError:
            pass
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def tree(monkeypatch):
    """Descendants of this process, whose environment has the variable."""
    of_process = {os.getpid(): b"A=B\0TAUPY_BOOT=/run/.17\0C=D\0"}
    monkeypatch.setattr(descendants, "_environment", lambda pid: of_process.get(pid, b""))
    found = descendants.Descendants(os.getpid(), "/run")
    found.environments = of_process
    return found


@pytest.mark.parametrize(
    ("environment", "is_ours"),
    [
        (b"TAUPY_BOOT=/run/.17\0", True),
        (b"X=Y\0TAUPY_BOOT=/run/.17\0Z=1\0", True),
        (b"TAUPY_BOOT=/run\0", False),
        (b"TAUPY_BOOT=/run/.\0", False),
        (b"TAUPY_BOOT=/run/.16\0", False),
        (b"TAUPY_BOOT=/run/.170\0", False),
        (b"", False),
    ],
)
def test_an_orphan_needs_the_programs_own_value(tree, environment, is_ours):
    child = subprocess.Popen([sys.executable, "-S", "-c", SLEEP])
    try:
        tree.environments[child.pid] = environment
        assert tree._is_ours(child.pid, 1) == is_ours
    finally:
        child.kill()
        child.wait()


def test_an_orphan_of_another_user_is_none_of_the_runs(tree, monkeypatch):
    tree.environments[1 << 22] = tree.environments[os.getpid()]
    assert not tree._is_ours(1 << 22, 1)  # no such process
    assert tree._is_ours(os.getpid(), 1)
    mine = os.geteuid()
    monkeypatch.setattr(descendants.posix, "geteuid", lambda: mine + 1)
    assert not tree._is_ours(os.getpid(), 1)


def test_before_the_program_has_begun_nothing_is_claimed(tree):
    tree.environments[os.getpid()] = b"TAUPY_BOOT=/outer/.3\0"
    tree.environments[1] = b"TAUPY_BOOT=/run/.17\0"
    assert not tree._is_ours(os.getpid(), 1)
