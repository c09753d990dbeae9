"""Full disks and servers that go away: no trial is stored by half, and none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from taupy.errors import DatabaseError
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.store.catalogue import Catalogue, Store
from taupy.store.check import check
from tests.builders import UUID, wide_profile
from tests.store.conftest import UNPRIVILEGED, ended_at_random
from tests.store.test_store import profiles

pytestmark = pytest.mark.slow


def wide(place, count=6, paths=4000):
    """A database of trials whose files have 130 kB each."""
    with ProfileDB.open(place.path / "wide.db", create=True) as db:
        for number in range(1, count + 1):
            profile = wide_profile(paths, seed=number)
            profile.uuid = UUID.format(100 + number)
            add_profile(db, profile)


def assert_whole_so_far(place, address, database):
    """Trials are whole or absent, and no file is without a trial."""
    with Store.open(address) as store:
        checked = check(store, read=True)
    assert (checked.lost, checked.orphans) == ({}, [])
    if checked.trials:
        place("pull", "*", "--from", address, "--db", f"{checked.trials}.db")
        pulled = profiles(place.path / f"{checked.trials}.db")
        assert len(pulled) == checked.trials
        assert pulled.items() <= profiles(place.path / database).items()
    return checked.trials


def used_kib(disk):
    facts = os.statvfs(disk)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize // 1024


def pushed(place, address, database, code=0):
    said = place("push", "--db", database, "--to", address, code=code)
    assert "Traceback" not in said
    return said


def test_a_full_disk_of_files_ends_a_push_in_one_line(place, new_address, small_disk):
    resize = small_disk(place.path / "disk", 500)
    address = new_address()
    place("store", "create", "--db", address, "--files", "disk/files")
    wide(place)
    said = pushed(place, address, "wide.db", code=1)
    assert "No space left" in said and len(said.splitlines()) == 2, said
    assert 0 < assert_whole_so_far(place, address, "wide.db") < 6
    resize(4000)
    pushed(place, address, "wide.db")
    assert assert_whole_so_far(place, address, "wide.db") == 6


def test_a_full_disk_of_the_catalogue_ends_a_push_in_one_line(place, server, small_disk):
    import psycopg

    disk = server / "disk"  # the server may not open pytest's folders
    resize = small_disk(disk, 50_000, UNPRIVILEGED)
    anywhere = f"postgresql://postgres@/postgres?host={server}"
    with psycopg.connect(anywhere, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        connection.execute("CREATE DATABASE small TABLESPACE small")
        try:
            address = anywhere.replace("/postgres?", "/small?")
            place("store", "create", "--db", address, "--files", "small")
            wide(place, paths=20_000)
            resize(used_kib(disk) + 800)
            said = pushed(place, address, "wide.db", code=1)
            assert "No space left" in said and len(said.splitlines()) <= 3, said
            assert assert_whole_so_far(place, address, "wide.db") < 6
            resize(100_000)
            pushed(place, address, "wide.db")
            assert assert_whole_so_far(place, address, "wide.db") == 6
        finally:
            connection.execute("DROP DATABASE small WITH (FORCE)")
            connection.execute("DROP TABLESPACE small")


def test_a_server_that_crashes_in_mid_push_loses_nothing(place, running):
    wide(place)
    ends = []

    def crash(_):
        running.stop("immediate")
        running.start()

    while len(ends) < 4 or 1 not in ends:
        words = ("push", "--db", "wide.db", "--to", place.address)
        _, code, said = ended_at_random(words, place.path, 0.6 * (1 + len(ends) % 4), crash)
        ends.append(code)
        assert len(ends) < 20, "no crash came in mid push"
        assert code in (0, 1) and "Traceback" not in said, said
        place("store", "check", "--db", place.address, "--mend")
        assert_whole_so_far(place, place.address, "wide.db")
        with Catalogue.open(place.address) as catalogue:
            catalogue.connection.execute("DELETE FROM trial WHERE id % 3 = 0")
        place("store", "check", "--db", place.address, "--mend")
    pushed(place, place.address, "wide.db")
    assert assert_whole_so_far(place, place.address, "wide.db") == 6


def asked(place, *words, **variables):
    """What a command says, as a process."""
    return subprocess.run(
        [sys.executable, "-m", "taupy", *words], cwd=place.path, env={**os.environ, **variables},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def assert_one_line(done, reason):
    assert done.returncode == 1 and reason in done.stderr, done
    assert len(done.stderr.splitlines()) == 1 and not done.stdout, done


def test_a_server_that_restarts_in_mid_question_is_one_line(place, running):
    place("push", "--to", place.address)
    words = ("compare", "1", "2", "--by", "callpath", "--db", place.address)
    expected = asked(place, *words)
    with Catalogue.open(place.address) as other, other.transaction() as connection:
        connection.execute("LOCK TABLE file IN ACCESS EXCLUSIVE MODE")
        command = [sys.executable, "-m", "taupy", *words]
        asking = subprocess.Popen(command, cwd=place.path, stderr=subprocess.PIPE, text=True)
        while not connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
            assert asking.poll() is None
        running.stop()
        running.start()
        said = asking.communicate(timeout=300)[1]
        assert asking.returncode == 1 and len(said.splitlines()) == 1, said
        assert place.address in said and "connection" in said
        with suppress(DatabaseError):
            other.close()
    assert asked(place, *words).stdout == expected.stdout


def test_a_full_temporary_folder_is_one_line(place, small_disk):
    wide(place, 1, 20_000)
    place("push", "--db", "wide.db", "--to", place.address)
    resize = small_disk(place.path / "tmp", 1200)
    tmp = {"TMPDIR": str(place.path / "tmp")}
    for words in (
        ("query", "SELECT count(*) FROM callpaths WHERE trial_id = 1", "--db", place.address),
        ("pull", "1", "--from", place.address, "--db", "b.db"),
    ):
        assert_one_line(asked(place, *words, **tmp), "full")
        assert not list((place.path / "tmp").iterdir())
    assert not (place.path / "b.db").exists()
    place("trials", "tag", "1", "new", "--db", "wide.db")
    done = asked(place, "push", "--db", "wide.db", "--to", place.address, **tmp)
    assert done.returncode == 1 and "full" in done.stderr and "Traceback" not in done.stderr
    resize(100_000)
    assert asked(place, "pull", "1", "--from", place.address, "--db", "b.db", **tmp).returncode == 0
    assert profiles(place.path / "b.db").keys() == profiles(place.path / "wide.db").keys()


def test_a_wrong_password_is_one_line_and_loses_no_run(place, running):
    secret, wrong = "right-word", "wrong-word"
    with Catalogue.open(place.address) as catalogue:
        catalogue.connection.execute(f"CREATE ROLE asked LOGIN SUPERUSER PASSWORD '{secret}'")
    address = place.address.replace("postgres@", "asked@")
    (place.path / "program.py").write_text("print('done')\n")
    (place.path / "pass").write_text(f"*:*:*:*:{wrong}\n")
    (place.path / "pass").chmod(0o600)
    own = {"PGPASSFILE": str(place.path / "pass")}
    with running.asking_for_passwords_of("asked"):
        for words in (("trials", "--db", address), ("store", "check", "--db", address)):
            assert_one_line(asked(place, *words, **own), "password authentication failed")
        done = asked(place, "run", "--db", address, "program.py", **own)
        assert done.returncode == 0 and "push it later with" in done.stderr
        assert wrong not in done.stderr and "Traceback" not in done.stderr
        (place.path / "pass").write_text(f"*:*:*:*:{secret}\n")
        assert "7 trials added" in asked(place, "push", "--to", address, **own).stderr
