"""Joining files and deleting old trials change no answer, whatever ends them."""

from __future__ import annotations

import random
from subprocess import Popen

import pytest

from taupy.errors import DatabaseError
from taupy.model.question import VALUES, Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from taupy.store import compact
from taupy.store.catalogue import Store
from taupy.store.check import check
from tests.builders import UUID, random_profile, small_profile
from tests.store.conftest import ended_at_random
from tests.store.test_store import profiles

pytestmark = pytest.mark.slow


@pytest.fixture
def filled(place):
    """Twelve trials of one application more, all pushed."""
    with ProfileDB.open(place.path / "taupy.db", readonly=False) as db:
        for number in range(20, 32):
            add_profile(db, random_profile(random.Random(number), number))
    place("push", "--to", place.address)
    place.files = lambda: [*(place.path / "files").rglob("*.parquet")]
    return place


def answers(address, opened_as=opened):
    with opened_as(address) as db:
        trials = tuple(trial.id for trial in db.trials())
        return [
            values(db, Question(asked, by=by, values=VALUES)).columns
            for asked in (trials, trials[3:7], trials[8:9])
            for by in (("trial", "callpath"), ("trial", "thread", "callpath", "parent"), ("depth",))
        ]


def assert_sound(address, joined=True):
    with Store.open(address) as store:
        checked = check(store, read=True)
        assert (checked.lost, checked.orphans) == ({}, [])
        assert bool(compact.planned(store)) != joined
    return checked


def test_joined_files_hold_what_the_small_ones_held(filled):
    before, count = answers(filled.address), len(filled.files())
    assert "--yes" in filled("store", "compact", "--db", filled.address)
    assert len(filled.files()) == count  # a dry run
    with opened(filled.address) as reader:  # from before
        trials = [trial.id for trial in reader.trials()]
        assert "became" in filled("store", "compact", "--db", filled.address, "--yes")
        assert len(filled.files()) < count / 2
        reader.copy.add_all(trials[:3])
    assert answers(filled.address) == before
    assert assert_sound(filled.address).trials == 18
    assert "no small files" in filled("store", "compact", "--db", filled.address, "--yes")
    filled("pull", "*", "--from", filled.address, "--db", "b.db")
    assert profiles(filled.path / "b.db") == profiles(filled.path / "taupy.db")
    assert "18 trials already there" in filled("push", "--to", filled.address)


def test_a_reader_follows_files_that_were_joined(filled):
    with opened(filled.address) as reader:
        one = answers(filled.address, lambda _: reader)
        filled("store", "compact", "--db", filled.address, "--yes")
    with opened(filled.address) as reader:
        again = answers(filled.address, lambda _: reader)
    assert one == again


def test_trials_grow_and_go_out_of_joined_files(filled):
    filled("store", "compact", "--db", filled.address, "--yes")
    with ProfileDB.open(filled.path / "taupy.db", readonly=False) as db:
        for trial in db.trials()[5:9]:
            db.tag(trial.id, "late")
    assert "4 trials completed" in filled("push", "--to", filled.address)
    assert_sound(filled.address, joined=False)
    dry = filled("store", "retain", "--db", filled.address, "--days", "1", "--keep", "tag:late")
    assert "14 trials older than 1 days; --yes" in dry
    words = ("--days", "1", "--keep", "tag:late", "--yes")
    assert "14 trials deleted" in filled("store", "retain", "--db", filled.address, *words)
    assert_sound(filled.address, joined=False)
    filled("store", "compact", "--db", filled.address, "--yes")
    assert assert_sound(filled.address).trials == 4
    filled("pull", "*", "--from", filled.address, "--db", "b.db")
    pulled = profiles(filled.path / "b.db")
    assert len(pulled) == 4 and pulled.items() <= profiles(filled.path / "taupy.db").items()
    assert "0 trials older" in filled("store", "retain", "--db", filled.address, "--days", "90000")


def test_joined_files_are_joined_with_later_ones(filled):
    filled("store", "compact", "--db", filled.address, "--yes")
    with ProfileDB.open(filled.path / "taupy.db", readonly=False) as db:
        for number in range(40, 46):
            add_profile(db, random_profile(random.Random(number), number))
    filled("push", "--to", filled.address)
    before = answers(filled.address)
    assert "became" in filled("store", "compact", "--db", filled.address, "--yes")
    assert answers(filled.address) == before
    assert assert_sound(filled.address).trials == 24
    filled("pull", "*", "--from", filled.address, "--db", "b.db")
    assert profiles(filled.path / "b.db") == profiles(filled.path / "taupy.db")


def test_joining_that_is_killed_loses_nothing(filled):
    before = answers(filled.address)
    killed = 0
    for attempt in range(6):
        words = ("store", "compact", "--yes", "--db", filled.address)
        killed += ended_at_random(words, filled.path, 0.3 + 0.3 * attempt, Popen.kill)[0]
        filled("store", "check", "--db", filled.address, "--read", "--mend")
        assert answers(filled.address) == before
    assert killed
    filled("store", "compact", "--db", filled.address, "--yes")
    assert answers(filled.address) == before
    assert_sound(filled.address)


def test_a_damaged_file_is_not_joined(filled):
    damaged = next(file for file in filled.files() if f"{UUID.format(25)}.call." in file.name)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with Store.open(filled.address) as store, pytest.raises(DatabaseError, match="damaged"):
        list(compact.compact(store))
    with Store.open(filled.address) as store:
        checked = check(store, read=True)
    assert checked.lost == {UUID.format(25): [str(damaged.relative_to(filled.path / "files"))]}
    assert checked.orphans == []


def test_nobody_pushes_while_files_are_joined(filled):
    with Store.open(filled.address) as store, store.catalogue.pushing():
        said = filled("store", "compact", "--db", filled.address, "--yes", code=1)
    assert "being pushed" in said
    for words, option in (
        (("check", "--yes"), "--yes"),
        (("compact", "--mend"), "--mend"),
        (("compact", "--days", "3"), "--days"),
        (("retain",), "--days N"),
    ):
        assert option in filled("store", *words, "--db", filled.address, code=2)


def test_portions_are_filled_by_size(tmp_path, place):
    with ProfileDB.open(place.path / "taupy.db", readonly=False) as db:
        for number in range(20, 26):
            add_profile(db, small_profile(number))
    place("push", "--to", place.address)
    with Store.open(place.address) as store:
        (size,) = store.catalogue.row(
            "SELECT max(bytes) FROM file WHERE holds = 'call' AND starts_with(name, 'app=app/')"
        )
        done = [*compact.compact(store, 3 * size)]
        assert all(plan.bytes <= 3 * size for plan in done)
    assert max(plan.files for plan in done) >= 2
    assert_sound(place.address, joined=False)
