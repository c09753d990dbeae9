"""A program with more rights than its caller does nothing on behalf of the caller's variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from taupy.state import rights
from taupy.state.folder import open_run

OTHER_GROUP = 65533
OPTIONS = [("-I", "-E"), ("-s",), ("-P",)]
WRAPPER = """
#define _GNU_SOURCE
#include <unistd.h>
int main(int count, char **words)
{
    if (words[1][0] == 'e' && setresgid(getegid(), getegid(), getegid()) != 0)
        return 8;
    execv(words[2], words + 2);
    return 9;
}
"""
CALLER = """
import os, sys
from taupy.instrument.runfolder import boot_id, make_run_folder, process_start, read_settings
from taupy.instrument.runfolder import write_settings
from taupy.state.folder import open_run
left, mark, wrapper, how, *options = sys.argv[1:]
with open_run(left) as folder:
    settings = read_settings(folder)
settings.engine = "native" if "-I" in options else "python"
settings.root_pid, settings.root_start = os.getpid(), process_start(os.getpid())
settings.boot_id = boot_id()
settings.engine_options["storer_argv"] = [
    os.fsencode(word) for word in ("/bin/sh", "-c", f"touch {mark}", "x")
]
with open_run(left) as folder:
    for name in folder.names():
        if name.endswith(".part"):
            (folder / name).unlink()
    write_settings(folder, settings)
os.environ["TAUPY_BOOT"] = left
python = [sys.executable, *options, "-c", "pass"]
os.execv(wrapper, [wrapper, how, *python]) if wrapper else os.execv(python[0], python)
"""


@pytest.fixture
def left_over(runs, native):
    """The run folder of a program that was killed."""
    runs.run("import os\nos.kill(os.getpid(), 9)\n", "--no-watch")
    (folder,) = runs.state.glob("run-*")
    return folder


@pytest.fixture
def set_group(tmp_path):
    """A program with the rights of a group that its caller is not in."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to a group that the user is not in")
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        pytest.skip("no C compiler here")
    source, program = tmp_path / "wrapper.c", tmp_path / "wrapper"
    source.write_text(WRAPPER)
    subprocess.run([compiler, "-o", program, source], check=True)
    os.chown(program, -1, OTHER_GROUP)
    program.chmod(0o2755)
    return program


def call(runs, left_over, wrapper, how, *options):
    mark = runs.folder / "mark"
    command = [sys.executable, "-c", CALLER, left_over, mark, wrapper, how, *options]
    done = subprocess.run(command, env=runs.environ(), cwd="/", capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    return mark.exists()


def test_a_command_with_raised_rights_reads_no_variable_of_taupys(runs, set_group):
    runs.environment = {"TAUPY_DB": "nowhere.db"}
    command = [set_group, "as started", sys.executable, "-m", "taupy", "trials"]
    done = subprocess.run(
        command, env=runs.environ(), cwd=runs.folder, capture_output=True, text=True, timeout=60
    )
    assert "nowhere" not in done.stderr and "no database" in done.stderr
    runs.environment = {"HOME": str(runs.folder)}
    command[4:] = ["taupy", "run", "--db", "taupy.db", "-c", "print(1)"]
    done = subprocess.run(
        command, env=runs.environ(), cwd=runs.folder, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("1\n", 0)
    assert "this run is not measured" in done.stderr
    assert not (runs.folder / ".local").exists()


@pytest.mark.parametrize("options", OPTIONS)
def test_the_caller_itself_may_name_the_command(runs, left_over, options):
    assert call(runs, left_over, "", "", *options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("how", ["as started", "equal ids"])
def test_a_set_group_program_runs_no_command_of_its_caller(
    runs, left_over, set_group, how, options
):
    assert not call(runs, left_over, set_group, how, *options)


@pytest.mark.parametrize("ids", [(1, 1, 2), (1, 2, 1), (2, 1, 1)])
@pytest.mark.parametrize("asked", ["getresuid", "getresgid"])
def test_ids_that_differ_are_raised_rights(monkeypatch, asked, ids):
    assert not rights.are_raised()
    monkeypatch.setattr(rights.posix, asked, lambda: ids)
    assert rights.are_raised()


@pytest.mark.parametrize("secure", [0, 1])
def test_the_kernels_word_for_raised_rights_is_heard(monkeypatch, secure):
    with open("/proc/self/auxv", "rb") as file:
        words = file.read()
    size = rights._WORD
    at = next(at for at in range(0, len(words), 2 * size) if words[at] == rights._AT_SECURE)
    changed = words[: at + size] + bytes([secure]) + words[at + size + 1 :]
    monkeypatch.setattr(rights, "_content", lambda path, size: changed)
    assert rights.are_raised() == bool(secure)


def test_a_process_that_may_not_read_its_own_facts_has_raised_rights(monkeypatch):
    def refuse(path, size):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rights, "_content", refuse)
    assert rights.are_raised()


def test_a_group_or_capabilities_that_the_owner_lacks_are_seen(monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(rights.posix, "geteuid", lambda: tmp_path.stat().st_uid or 1000)
    monkeypatch.setattr(rights, "_capabilities", lambda: 1 << 35)
    folder = type("Opened", (), {"descriptor": os.open(tmp_path, os.O_RDONLY)})
    gid = os.fstat(folder.descriptor).st_gid
    monkeypatch.setattr(rights.posix, "getegid", lambda: gid)
    assert not rights.exceed(folder)
    monkeypatch.setattr(rights, "_capabilities", lambda: 1 << 13)
    assert rights.exceed(folder)
    monkeypatch.setattr(rights, "_capabilities", lambda: 0)
    monkeypatch.setattr(rights.posix, "getegid", lambda: gid + 1)
    assert rights.exceed(folder)
    os.close(folder.descriptor)


@pytest.mark.parametrize("kind", ["user", "mnt", "pid_for_children"])
def test_another_namespace_is_a_change_of_rights(monkeypatch, kind):
    before, real = rights.now(), os.stat
    assert rights.now() == before
    elsewhere = {f"/proc/self/ns/{kind}": "/"}
    monkeypatch.setattr(rights.posix, "stat", lambda path: real(elsewhere.get(path, path)))
    assert rights.now() != before


def test_the_capabilities_are_those_of_the_kernel():
    with open("/proc/self/status", encoding="ascii") as file:
        expected = next(line for line in file if line.startswith("CapPrm"))
    assert rights._capabilities() == int(expected.split()[1], 16)


def test_a_run_folder_has_the_users_group_even_in_a_folder_of_another(runs, native):
    runs.state.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(runs.state, -1, OTHER_GROUP)
    runs.state.chmod(0o2700)
    source = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', 'pass'])"
    done = runs.run(source, "--engine", native)
    assert "not measured" not in done.stderr
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 2


def test_a_run_folder_that_another_group_owns_is_not_used_by_isolated_ones(left_over):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to a group that the user is not in")
    os.chown(left_over, -1, OTHER_GROUP)
    with open_run(str(left_over)) as folder:
        assert rights.exceed(folder)
