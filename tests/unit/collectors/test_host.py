"""Facts of the machine and the program: what is told, what is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.collectors import host

X86 = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz
cpu MHz\t\t: 2000.000
cache size\t: 49152 KB

processor\t: 1
vendor_id\t: GenuineIntel
cpu MHz\t\t: 3200.000
"""
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"


def proc(folder: Path, cpuinfo: str | None, meminfo: str | None) -> Path:
    for name, text in (("cpuinfo", cpuinfo), ("meminfo", meminfo)):
        if text is not None:
            (folder / name).write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_first_processor_describes_an_x86_machine(tmp_path):
    facts = host.host_metadata(proc(tmp_path, X86, "MemTotal:       24684084 kB\nMemFree: 1 kB\n"))
    assert facts["CPU Vendor"] == "GenuineIntel"
    assert facts["CPU Type"] == "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz"
    assert facts["CPU MHz"] == "2000.000"
    assert facts["Cache Size"] == "49152 KB"
    assert facts["Memory Size"] == "24684084 kB"


def test_a_machine_that_reports_less_has_fewer_facts_and_no_guesses(tmp_path):
    facts = host.host_metadata(proc(tmp_path, ARM, None))
    assert facts["CPU Vendor"] == "0x41"
    assert facts["CPU Type"] == "0xd0c"
    assert not {"CPU MHz", "Cache Size", "Memory Size"} & facts.keys()


def test_the_machine_is_described_without_proc(tmp_path):
    facts = host.host_metadata(tmp_path / "nowhere")
    assert facts["Hostname"] == os.uname().nodename == host.hostname()
    assert facts["OS Name"] == os.uname().sysname
    assert facts["Python Version"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["Python Implementation"] == sys.implementation.name
    assert int(facts["CPU Cores"]) >= int(facts["CPU Cores Allowed"]) >= 1


def test_the_command_line_can_be_pasted_into_a_shell(tmp_path):
    facts = host.program_metadata(["/usr/bin/python", "my prog.py", "it's"], "/data", str(tmp_path))
    assert facts["Command Line"] == """/usr/bin/python 'my prog.py' 'it'"'"'s'"""
    assert facts["Executable"] == "/usr/bin/python"
    assert facts["CWD"] == "/data"


def test_only_names_on_the_allow_list_leave_the_environment(tmp_path):
    environ = {
        "RANK": "3",
        "OMP_NUM_THREADS": "4",
        "SLURM_JOB_ID": "77",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "SLURM_JWT": "hush",
        "PYTHONPATH": "/home/somebody",
    }
    facts = host.program_metadata(["python"], "/", str(tmp_path), environ=environ)
    assert {name: facts[name] for name in facts if name in environ} == {
        "OMP_NUM_THREADS": "4",
        "RANK": "3",
        "SLURM_JOB_ID": "77",
    }
    assert "hush" not in "".join(facts.values())


def test_no_name_on_the_allow_list_sounds_like_a_secret():
    for name in host.ENVIRONMENT_NAMES:
        assert not any(word in name for word in ("KEY", "TOKEN", "SECRET", "PASS", "JWT", "URI"))


def test_the_start_is_in_microseconds_and_in_universal_time():
    facts = host.time_metadata(86400.25)
    assert facts["Starting Timestamp"] == "86400250000"
    assert facts["UTC Time"] == "1970-01-02T00:00:00Z"
    assert len(facts["Local Time"]) == len("1970-01-02T00:00:00+0000")


def test_a_program_in_a_clean_work_tree_has_a_commit_and_a_branch(tmp_path):
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "prog.py").write_text("pass\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / "untracked.db").write_text("a result is no change of the program\n")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    expected = {"Git Commit": commit, "Git Branch": "trunk", "Git Dirty": "no"}
    assert host.git_metadata(str(tmp_path)) == expected
    assert host.git_metadata(str(tmp_path / "prog.py")) == expected


def test_a_changed_program_is_dirty_and_a_detached_head_has_no_branch(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "prog.py").write_text("pass\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "checkout", "-q", "--detach")
    (tmp_path / "prog.py").write_text("changed\n")
    facts = host.git_metadata(str(tmp_path))
    assert facts["Git Dirty"] == "yes"
    assert "Git Branch" not in facts


@pytest.mark.parametrize("case", ["no repository", "no commit", "no folder"])
def test_without_a_commit_there_are_no_git_facts(tmp_path, case):
    if case == "no commit":
        git(tmp_path, "init", "-q")
    path = tmp_path / "gone" / "prog.py" if case == "no folder" else tmp_path
    assert host.git_metadata(str(path)) == {}


def test_a_missing_or_stuck_git_costs_no_more_than_its_time_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.git_metadata(str(tmp_path)) == {}
    stuck = tmp_path / "git"
    stuck.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(host, "GIT_TIMEOUT_S", 0.2)
    assert host.git_metadata(str(tmp_path)) == {}
