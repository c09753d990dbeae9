"""Text of library files on a page: only libraries', of this machine, as they were."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import replace

import pytest

from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import contents
from taupy.report.library_source import library_code
from tests.builders import call, host, profile_of

TEXT = 'def work(x):\n    return x\n\ntoken = "ghp_aaaabbbbccccddddeeeeffffgggghhhh1234"\n'
MS = 1_000_000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site-packages" / "lib").mkdir(parents=True)
    path = tmp_path / "site-packages" / "lib" / "work.py"
    path.write_text(TEXT)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return tmp_path


def trial_of(folder, path, **more):
    """A trial of this machine with 20 ms of its own in a library's routine, and its database."""
    work = Timer("work", "lib/work.py", 1, path=str(path))
    own = call(Timer("main", "main.py", 1, path=str(folder / "main.py")), 1, 5 * MS,
               [call(work, 4, 20 * MS)])  # fmt: skip
    profile = profile_of(host(own), started_at=time.time(), source="taupy run",
                         metadata={"Hostname": platform.node()})  # fmt: skip
    db = ProfileDB.open(folder / "a.db", create=True)
    number = add_profile(db, replace(profile, **more))
    return db, next(trial for trial in db.trials() if trial.id == number)


def held(folder, path, **more):
    db, trial = trial_of(folder, path, **more)
    with db:
        return library_code(db, trial, {"main.py"})


def test_a_library_file_is_read_with_its_routines_and_without_its_secrets(folder):
    code = held(folder, folder / "site-packages/lib/work.py")
    (file,), (routine,) = code.files, code.routines
    assert file.file == "lib/work.py" and file.lines[:2] == TEXT.split("\n")[:2]
    assert "ghp_aaaa" not in "\n".join(file.lines)
    assert (routine.name, routine.line, routine.ns, routine.calls) == ("work", 1, 20 * MS, 4)


@pytest.mark.parametrize(
    "why", ["link", "outside", "other", "changed", "machine", "imported", "own"]
)
def test_nothing_else_is_read(folder, why):
    path, secret = folder / "site-packages/lib/work.py", folder / "secret.py"
    secret.write_text("password = 1\n")
    os.utime(secret, (1_000_000_000, 1_000_000_000))
    more, own = {}, {"main.py"}
    if why == "link":  # a library's name, and another file behind it
        path.unlink()
        path.symlink_to(secret)
    if why == "outside":
        path = folder / "site-packages/../secret.py"
    if why == "other":
        path = path.rename(path.with_suffix(".key"))
    if why == "changed":
        later = time.time() + 100
        os.utime(path, (later, later))
    if why == "machine":
        more = {"metadata": {"Hostname": "another"}}
    if why == "imported":
        more = {"source": "pprof: a.pb.gz"}
    if why == "own":
        own.add("lib/work.py")
    db, trial = trial_of(folder, path, **more)
    with db:
        assert library_code(db, trial, own).files == []


def test_a_page_has_it_only_if_asked_and_says_so(folder):
    db, trial = trial_of(folder, folder / "site-packages/lib/work.py")
    with db:
        without = contents.of_trial(db, trial)
        asked = contents.of_trial(db, trial, with_libraries=True)
    assert [file["file"] for file in without.source] == [] and list(without.end) == []
    (file,) = asked.source
    assert (file["of"], file["file"]) == ("libraries", "lib/work.py")
    assert "def work(x):" in file["text"]
    assert "1 library file" in asked.end[-1]


def test_a_page_that_finds_none_says_so(folder):
    db, trial = trial_of(folder, folder / "site-packages/lib/work.py", source="pprof: a.pb.gz")
    with db:
        assert "no text of libraries" in contents.of_trial(db, trial, with_libraries=True).end[-1]
