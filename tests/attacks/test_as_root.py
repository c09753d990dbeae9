"""Attacks by a real second user. They need root, or a user namespace with more than one user:
`make as-root`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from taupy import magic, notebook
from taupy.errors import DatabaseError
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.attacks.journals import leave_journal, make_it_name
from tests.builders import small_profile
from tests.in_process import taupy
from tests.integration.conftest import Runs

OTHER = 4242


def _may_become_another() -> bool:
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    return any(first <= OTHER < first + count for first, _, count in ranges)


pytestmark = pytest.mark.skipif(
    not _may_become_another(), reason="only root can be two users; see `make as-root`"
)


@pytest.fixture
def open_place():
    """A folder that both users reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="taupy-attack-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def database(open_place):
    path = open_place / "shared" / "taupy.db"
    path.parent.mkdir()
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, small_profile(1))
    return path


def as_other(act):
    """Do something as the second user; whether it succeeded."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("mode", [0o1777, 0o777])
@pytest.mark.parametrize("names_a_file", [False, True])
def test_another_users_journal_changes_and_deletes_nothing(
    database, open_place, mode, names_a_file
):
    victim = open_place / "thesis.tex"
    victim.write_text("chapter 1")
    made = open_place / "made"
    shutil.copytree(database.parent, made)
    journal = leave_journal(made / "taupy.db")
    if names_a_file:
        make_it_name(journal, victim)
    made.chmod(0o755)
    journal.chmod(0o644)
    database.parent.chmod(mode)
    target = database.with_name("taupy.db-journal")
    assert as_other(lambda: shutil.copy(journal, target))
    assert target.stat().st_uid == OTHER
    before = database.read_bytes()
    for words in (["trials"], ["trials", "tag", "1", "x"], ["query", "SELECT 1"], ["report"]):
        found = taupy(*words, "--db", database)
        assert found.returncode == 1, words
        said = "names another file" if names_a_file else "--trust-folder"
        assert said in found.stderr and found.stderr.count("\n") == 1
    with pytest.raises(DatabaseError), ProfileDB.open(database, create=True):
        pass
    assert database.read_bytes() == before and victim.read_text() == "chapter 1"


def test_another_users_folder_and_link_are_named_as_such(database, open_place):
    assert not as_other(lambda: database.with_name("x").touch()), "it is root's"
    theirs = open_place / "theirs"
    theirs.mkdir()
    os.chown(theirs, OTHER, OTHER)
    assert as_other(lambda: (theirs / "link.db").symlink_to(database))
    found = taupy("trials", "--db", theirs / "link.db")
    assert found.returncode == 1 and f"is a link of user {OTHER}" in found.stderr
    shutil.copy(database, theirs / "taupy.db")
    leave_journal(theirs / "taupy.db")
    found = taupy("trials", "--db", theirs / "taupy.db")
    assert found.returncode == 1 and f"belongs to user {OTHER}" in found.stderr


@pytest.mark.slow
def test_another_user_neither_reads_nor_changes_a_run(open_place):
    runs = Runs(open_place)
    source = """
import os, select
open("begun", "w").close()
while not os.path.exists("go"):
    select.select((), (), (), 0.01)
"""
    (open_place / "prog.py").write_text(source)
    with subprocess.Popen(
        [sys.executable, "-m", "taupy", "run", "--db",
         "taupy.db", "prog.py"], cwd=open_place, env=runs.environ(), stderr=subprocess.PIPE,
    ) as run:  # fmt: skip
        while not (open_place / "begun").exists():
            time.sleep(0.01)
        (folder,) = runs.state.glob("run-*")
        assert not as_other(lambda: os.listdir(folder))
        assert not as_other(lambda: os.listdir(runs.state))
        assert not as_other(lambda: (folder / "evil.part").touch())
        assert not as_other(lambda: Path(f"/proc/{run.pid}/environ").read_bytes())
        assert as_other(lambda: Path(f"/proc/{run.pid}/cmdline").read_bytes())
        claims = {"TAUPY_BOOT": f"{folder}/.{'0' * 32}"}
        claimant = subprocess.Popen(
            ["/bin/sleep", "60"], env=claims, user=OTHER, group=OTHER, extra_groups=[], cwd="/"
        )
        try:
            time.sleep(0.6)  # the watch looks around
            (open_place / "go").touch()
            said = run.stderr.read().decode()
        finally:
            claimant.kill()
            claimant.wait()
    assert run.returncode == 0
    assert "sleep" not in said
    names = taupy("query", "SELECT value FROM metadata", "--db", runs.database).stdout
    assert "sleep 60" not in names and "/bin/sleep" not in names


def test_another_users_state_folder_and_run_are_left_alone(open_place):
    runs = Runs(open_place)
    runs.state.mkdir(mode=0o700)
    os.chown(runs.state, OTHER, OTHER)
    found = runs.taupy("run", "--db", "taupy.db", "-c", "print(1)")
    assert (found.returncode, found.stdout) == (0, "1\n")
    assert f"belongs to user {OTHER}" in found.stderr
    assert list(runs.state.iterdir()) == []


@pytest.fixture
def shared(open_place):
    """Runs in a folder of the user's, in one for all in which the other user may put something."""
    folder = open_place / "all"
    folder.mkdir()
    folder.chmod(0o1777)
    own = folder / "own"
    own.mkdir(mode=0o700)
    return Runs(own)


def test_settings_of_another_user_above_are_ignored_until_trusted(shared):
    above = shared.folder.parent
    stolen = above / "stolen.db"
    settings = above / "pyproject.toml"
    settings.write_text('[tool.taupy]\ndb = "stolen.db"\nkeep_secrets = true\n')
    os.chown(settings, OTHER, OTHER)
    run = ("run", "-c", "print('ok')", "--password", "hunter2")
    done = shared.taupy(*run)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert f"{settings} is ignored, since {settings} belongs to user {OTHER}" in done.stderr
    assert "--trust-folder" in done.stderr and not stolen.exists()
    assert b"hunter2" not in shared.database.read_bytes()
    assert "stolen.db" in shared.taupy("doctor", "--trust-folder").stdout
    done = shared.taupy(*run)
    assert "ignored" not in done.stderr and b"hunter2" in stolen.read_bytes()


@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_or_a_link_leads_to_nobody_elses_settings(shared, is_link):
    theirs = shared.folder.parent / "theirs"
    theirs.mkdir()
    (theirs / "pyproject.toml").write_text("[tool.taupy]\napp = 'theirs'\n")
    os.chown(theirs, OTHER, OTHER)
    if is_link:
        (shared.folder / "pyproject.toml").symlink_to(theirs / "pyproject.toml")
    done = taupy("trials", cwd=shared.folder if is_link else theirs, env=shared.environ())
    assert f"is ignored, since {theirs} belongs to user {OTHER}" in done.stderr


def test_a_database_of_another_user_in_the_current_folder_is_not_the_default(shared, monkeypatch):
    with ProfileDB.open(shared.database, create=True) as db:
        add_profile(db, small_profile(1))
    os.chown(shared.database, OTHER, OTHER)
    before = shared.database.read_bytes()
    done = shared.taupy("run", "-c", "print('ok')")
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    own = shared.folder / f"taupy-{os.getuid()}.db"
    assert f"belongs to user {OTHER}, so the database is {own.name}" in done.stderr
    assert own.exists() and shared.database.read_bytes() == before
    own_trials = shared.taupy("trials", "--csv").stdout
    assert own_trials != shared.taupy("trials", "--csv", "--db", "taupy.db").stdout
    monkeypatch.chdir(shared.folder)
    with pytest.warns(UserWarning, match=f"belongs to user {OTHER}, so the database is {own.name}"):
        assert list(notebook.open().trials().id) == [1]
        assert magic.Profile().database == str(own)
    os.chown(own, OTHER, OTHER)
    assert f"so the database is {Path.home() / own.name}" in shared.taupy("trials").stderr
    trusting = shared.taupy("trials", "--trust-folder", "--csv").stdout
    assert trusting == shared.taupy("trials", "--csv", "--db", "taupy.db").stdout
