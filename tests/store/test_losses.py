"""Full disks and servers that go away: no trial is stored by half, and none is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.store.catalogue import Catalogue, Store
from taupy.profiledb.store.check import check
from taupy.profiledb.writer import add_profile
from tests.builders import UUID, wide_profile
from tests.store.conftest import UNPRIVILEGED
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
    chance, ends = random.Random(7), []
    command = [sys.executable, "-m", "taupy", "push", "--db", "wide.db", "--to", place.address]
    for _ in range(4):
        pushing = subprocess.Popen(command, cwd=place.path, stderr=subprocess.PIPE, text=True)
        time.sleep(chance.uniform(0.5, 3))
        running.stop("immediate")
        running.start()
        _, said = pushing.communicate(timeout=300)
        ends.append(pushing.returncode)
        assert pushing.returncode in (0, 1) and "Traceback" not in said, said
        place("store", "check", "--db", place.address, "--mend")
        assert_whole_so_far(place, place.address, "wide.db")
        with Catalogue.open(place.address) as catalogue:
            catalogue.connection.execute("DELETE FROM trial WHERE id % 3 = 0")
        place("store", "check", "--db", place.address, "--mend")
    assert 1 in ends
    pushed(place, place.address, "wide.db")
    assert assert_whole_so_far(place, place.address, "wide.db") == 6
