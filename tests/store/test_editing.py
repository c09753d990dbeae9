"""Tags, names, deletions and derived metrics of a store, by the commands that change a file."""

from __future__ import annotations

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.store import push as pushing
from taupy.store.catalogue import Store
from taupy.store.check import check
from taupy.store.reading import StoreDB
from tests.in_process import taupy

pytestmark = pytest.mark.slow

COMMANDS = [
    "trials tag 1 fast",
    "trials tag tag:base fast",
    "trials tag 1 fast",
    "trials untag 2 fast",
    "trials untag 2 fast",
    "trials rename 3 another name",
    "trials rename 3 other",
    "trials delete 4 --yes",
    "trials delete 4 --yes",
    "derive add waste time/calls --unit ns",
    "derive add waste time*2/calls --unit ns --description more",
    "derive add again waste+1 --unit B",
    "derive show waste",
    "derive delete nothing",
    "trials",
    "trials show 1",
    "trials tag:fast",
    "derive delete waste",
    "derive list",
]


def test_changes_are_those_of_a_file(place):
    place("push", "--to", place.address)
    for command in COMMANDS:
        said = []
        for name in (str(place.path / "taupy.db"), place.address):
            done = taupy(*command.split(), "--db", name, cwd=place.path)
            said.append((done.returncode, done.stdout, done.stderr.replace(name, "DB")))
        assert said[0] == said[1], command
    with Store.open(place.address) as store:
        checked = check(store, read=True)
    assert (checked.trials, checked.lost, checked.orphans) == (5, {}, [])


def test_what_a_file_cannot_do_is_refused(place):
    place("push", "--to", place.address)
    with ProfileDB.open(place.path / "taupy.db") as db:
        (first, second) = next(
            (one, other) for one in db.trials() for other in db.trials()
            if one.id != other.id
            and (one.application, one.experiment) == (other.application, other.experiment)
        )  # fmt: skip
    words = ("trials", "rename", str(first.id), second.name, "--db", place.address)
    assert "has another trial" in place(*words, code=1)
    words = ("trials", "delete", "1", "--yes", "--compact", "--db", place.address)
    assert "store compact" in place(*words, code=2)
    with StoreDB(place.address) as store:
        assert len(store.trials()) == 6


def test_a_tag_of_the_store_survives_pushes(place, monkeypatch):
    place("push", "--to", place.address)
    place("trials", "tag", "1", "here", "--db", place.address)
    assert "6 trials already there" in place("push", "--to", place.address)
    place("trials", "tag", "1", "there")
    assert "1 trial completed" in place("push", "--to", place.address)
    write = pushing._write

    def as_somebody_tags(rows, *rest):
        monkeypatch.setattr(pushing, "_write", write)
        place("trials", "tag", "1", "meanwhile", "--db", place.address)
        return write(rows, *rest)

    place("trials", "tag", "1", "last")
    monkeypatch.setattr(pushing, "_write", as_somebody_tags)
    assert "1 trial completed" in place("push", "--to", place.address)
    with StoreDB(place.address) as store:
        assert store.trial(1).tags == ("here", "last", "meanwhile", "there")
    place("push", "--to", place.address)
    place("trials", "untag", "1", "last", "--db", place.address)
    assert "6 trials already there" in place("push", "--to", place.address)
    next((place.path / "files").rglob("*.call.*")).unlink()
    assert "1 trial completed" in place("push", "--to", place.address)
    with StoreDB(place.address) as store:
        assert {"here", "meanwhile", "there"} <= {*store.trial(1).tags}
