"""Stores whose manifest or files another writer has changed."""

from __future__ import annotations

import os
import time

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.store.catalogue import Catalogue
from taupy.store.files import Folder
from tests.builders import UUID
from tests.in_process import taupy

pytestmark = pytest.mark.slow


@pytest.fixture
def store(place):
    place("push", "--to", place.address)
    return place


def execute(store, sql, *values):
    with Catalogue.open(store.address) as catalogue:
        return catalogue.connection.execute(sql, values).rowcount


def files_of(store, trial, holds="interval_value"):
    with Catalogue.open(store.address) as catalogue:
        rows = catalogue.rows(
            "SELECT name FROM file WHERE trial_id = %s AND holds = %s", (trial, holds)
        )
    return [store.path / "files" / name for (name,) in rows]


READING = (("pprof", "2", "--tree"), ("report", "2"), ("compare", "1", "2", "--by", "callpath"),
           ("export", "2", "--format", "chrome", "-o", "x.json"),
           ("query", "SELECT count(*) FROM interval_value"))  # fmt: skip


def refused(store, *words):
    """What a command says that ends with an error, in one line."""
    began = time.process_time()
    found = taupy(*words, cwd=store.path)
    assert found.returncode == 1, words
    assert found.stderr.count("\n") == 1, found.stderr
    assert time.process_time() - began < 60
    return found.stderr


@pytest.mark.parametrize("name", ["../thesis.tex", "app=app/month=2026-01/../../../thesis.tex"])
def test_deleting_a_trial_deletes_no_file_outside_of_the_store(store, name):
    thesis = store.path / "thesis.tex"
    thesis.write_text("chapter 1")
    # Stores of before have no such constraint, and an owner may drop it.
    execute(store, "ALTER TABLE file DROP CONSTRAINT IF EXISTS name_is_below")
    assert execute(store, "UPDATE file SET name = %s WHERE trial_id = 2 AND holds = 'call'", name)
    assert "names '" in refused(store, "pull", "2", "--from", store.address, "--db", "b.db")
    store("trials", "delete", "2", "--yes", "--db", store.address)
    store("push", "1", "--to", store.address)
    assert thesis.read_text() == "chapter 1"


def test_a_trial_deletes_no_file_of_another_one(store):
    (other,) = files_of(store, 3)
    name = str(other.relative_to(store.path / "files"))
    where = "WHERE trial_id = 2 AND holds = 'interval_value'"
    execute(store, "DELETE FROM file WHERE trial_id = 3")  # as if hidden, in a project
    assert execute(store, f"UPDATE file SET name = %s {where}", name)
    assert "is no file of this trial" in refused(
        store, "pprof", "2", "--tree", "--db", store.address
    )
    store("trials", "delete", "2", "--yes", "--db", store.address)
    assert other.exists()


@pytest.mark.parametrize("kind", ["pipe", "zero", "link"])
def test_what_is_no_file_stops_nobody(store, kind):
    (file,) = files_of(store, 2)
    copy = store.path / "copy"
    file.rename(copy)
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero" if kind == "zero" else copy)
    for words in READING:
        assert file.name in refused(store, *words, "--db", store.address), words
    assert file.name in refused(store, "pull", "2", "--from", store.address, "--db", "b.db")
    if kind == "link":
        copy.chmod(0o444)
    assert copy.exists()


def test_a_damaged_file_is_named_and_gives_no_numbers(store):
    (file,) = files_of(store, 2)
    content = bytearray(file.read_bytes())
    stamps = file.stat()
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    for words in READING:
        said = refused(store, *words, "--db", store.address)
        assert f"trial {UUID.format(2)} is damaged" in said, words
        assert file.name in said
    assert store("pprof", "1", "--tree", "--db", store.address) == store("pprof", "1", "--tree")


@pytest.mark.parametrize(("other", "words"), [("rows + 1", " of its "), ("0", " more than its 0 ")])
def test_a_file_with_other_rows_than_the_manifest_says_is_damaged(store, other, words):
    execute(store, f"UPDATE file SET rows = {other} WHERE trial_id = 2 AND holds = 'launch'")
    said = refused(store, "pull", "2", "--from", store.address, "--db", "b.db")
    assert f"trial {UUID.format(2)} is damaged" in said and words in said and "rows" in said


def test_a_file_is_hashed_when_it_is_first_read_and_when_it_has_changed(store, monkeypatch):
    hashed = []
    digest = Folder.digest

    def noted(self, name):
        hashed.append(name)
        return digest(self, name)

    monkeypatch.setattr(Folder, "digest", noted)
    words = ("compare", "1", "2", "--by", "callpath", "--db", store.address)
    first = store(*words)
    assert len(hashed) == len({*hashed}) >= 4
    hashed.clear()
    assert store(*words) == first
    assert hashed == []
    (file,) = files_of(store, 2)
    os.utime(file)
    assert store(*words) == first
    assert [store.path / "files" / name for name in hashed] == [file]


def test_what_was_compared_is_remembered_only_in_a_folder_of_ones_own(store, own_cache):
    words = ("pprof", "2", "--tree", "--db", store.address)
    store(*words)
    (kept,) = (own_cache / "taupy").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()
    os.mkfifo(kept)
    store(*words)
    kept.unlink()
    own_cache.chmod(0o777)
    store(*words)
    assert not kept.exists()


def test_a_trial_whose_uuid_is_a_path_is_not_pushed(store):
    with ProfileDB.open(store.path / "taupy.db", readonly=False) as db, db.transaction() as inside:
        inside.execute("UPDATE trial SET uuid = '../../../victim/x' WHERE id = 1")
        inside.execute("UPDATE trial SET uuid = ? WHERE id = 2", (UUID.format(8),))
    said = store("push", "--to", store.address, code=1)
    assert "trial 1 was not pushed: its uuid" in said
    assert "1 trial added" in said, "the others are"
    assert not list(store.path.rglob("victim"))
