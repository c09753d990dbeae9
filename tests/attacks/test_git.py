"""A repository from elsewhere makes git run nothing when a run's commit is looked up."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from taupy.collectors.host import git_metadata

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *arguments):
    command = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x", *arguments]
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **quiet}
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "prog.py").write_text("1")
    (folder / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    os.utime(folder / "prog.py", (1, 1))  # git then compares the content
    return folder


SETTINGS = [
    ("filter.evil.clean", "{}; cat"),
    ("filter.evil.smudge", "{}; cat"),
    ("filter.evil.process", "{}"),
    ("core.fsmonitor", "{}; false"),
    ("core.hooksPath", "{folder}/hooks"),
    ("core.pager", "{}"),
    ("pager.status", "{}"),
    ("core.sshCommand", "{}"),
    ("diff.external", "{}"),
    ("diff.evil.textconv", "{}"),
    ("core.alternateRefsCommand", "{}"),
    ("status.submoduleSummary", "true"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_no_setting_of_a_repository_runs_a_program(repository, tmp_path, name, value):
    mark = tmp_path / "mark"
    touch = f"touch {mark}"
    hooks = repository / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (hooks / hook).write_text(f"#!/bin/sh\n{touch}\n")
        (hooks / hook).chmod(0o755)
    git(repository, "config", name, value.replace("{}", touch).replace("{folder}", str(repository)))
    if name == "filter.evil.clean":
        git(repository, "config", "filter.evil.required", "true")
    facts = git_metadata(str(repository))
    assert facts == {
        "Git Commit": git(repository, "rev-parse", "HEAD"),
        "Git Branch": "main",
        "Git Dirty": "no",
    }
    assert not mark.exists()


def test_a_submodules_settings_run_no_program(repository, tmp_path):
    mark = tmp_path / "mark"
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", "-q",
        str(repository), "sub")  # fmt: skip
    git(repository, "commit", "-q", "-m", "two")
    git(repository / "sub", "config", "filter.evil.clean", f"touch {mark}; cat")
    os.utime(repository / "sub" / "prog.py", (1, 1))
    assert git_metadata(str(repository))["Git Dirty"] == "no"
    assert not mark.exists()


def test_what_has_changed_is_still_seen(repository):
    assert git_metadata(str(repository))["Git Dirty"] == "no"
    (repository / "prog.py").write_text("2")
    assert git_metadata(str(repository))["Git Dirty"] == "yes"
    git(repository, "commit", "-qam", "two")
    assert git_metadata(str(repository))["Git Dirty"] == "no"
    (repository / "new.py").write_text("3")
    assert git_metadata(str(repository))["Git Dirty"] == "no"
    git(repository, "add", "new.py")
    assert git_metadata(str(repository))["Git Dirty"] == "yes"
    git(repository, "checkout", "-q", "--detach")
    assert "Git Branch" not in git_metadata(str(repository))


def test_a_repository_without_a_commit_has_no_facts(tmp_path):
    git(tmp_path, "init", "-q")
    assert git_metadata(str(tmp_path)) == {}
