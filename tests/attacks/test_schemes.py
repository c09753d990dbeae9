"""Stores that send their clients to a URL."""

from __future__ import annotations

import pytest

from taupy.errors import DatabaseError
from taupy.store import places, trusted
from taupy.store.catalogue import Catalogue

pytestmark = pytest.mark.slow
EVIL = "s3://evil/profiles"


@pytest.fixture(autouse=True)
def no_word(monkeypatch):
    monkeypatch.setattr(trusted, "_trusts_files", False)


@pytest.fixture
def sent_elsewhere(place, monkeypatch):
    """A store whose files are now said to be at a URL; what is opened there is counted."""
    place("push", "--to", place.address)
    opened = []

    class Counting(places.LocalPlace):
        def __init__(self, where):
            opened.append(where)
            super().__init__(str(place.path / "files"))

    monkeypatch.setattr(places, "RemotePlace", Counting)
    with Catalogue.open(place.address) as catalogue:
        catalogue.connection.execute("UPDATE store SET value = %s WHERE name = 'files'", (EVIL,))
    place.opened = opened
    return place


COMMANDS = (["trials"], ["pprof", "1"], ["query", "SELECT 1"], ["store", "check"],
            ["store", "compact", "--yes"], ["trials", "tag", "1", "x"])  # fmt: skip


def test_a_url_is_not_used_until_the_user_says_so(sent_elsewhere):
    store = sent_elsewhere
    for words in COMMANDS:
        said = store(*words, "--db", store.address, code=1)
        assert EVIL in said and "--trust-files" in said
    assert "--trust-files" in store("push", "--to", store.address, code=1)
    assert "--trust-files" in store("pull", "1", "--from", store.address, "--db", "b.db", code=1)
    assert store.opened == []


def test_a_url_is_remembered_for_this_store_only(sent_elsewhere, monkeypatch):
    store = sent_elsewhere
    store("trials", "--db", store.address, "--trust-files")
    monkeypatch.setattr(trusted, "_trusts_files", False)
    store("pprof", "1", "--db", store.address)
    assert {*store.opened} == {EVIL}
    with pytest.raises(DatabaseError, match="--trust-files"):
        trusted.trusted("another store", EVIL)


def test_a_project_can_name_urls(sent_elsewhere):
    store = sent_elsewhere
    settings = store.path / "pyproject.toml"
    settings.write_text('[tool.taupy]\ntrust_files = ["s3://evi", "s3://evil/prof"]\n')
    store("trials", "--db", store.address, "--trust-folder", code=1)
    settings.write_text('[tool.taupy]\ntrust_files = ["s3://evil"]\n')
    store("trials", "--db", store.address)
    settings.write_text("[tool.taupy]\ntrust_files = 3\n")
    with Catalogue.open(store.address) as catalogue:
        catalogue.connection.execute("UPDATE store SET value = 's3://b' WHERE name = 'files'")
    assert "not a list of URLs" in store("trials", "--db", store.address, code=2)


@pytest.mark.parametrize("where", ["http://evil/", "ssh://evil/x", "memory://x"])
def test_other_schemes_are_refused_whatever_the_user_says(place, where):
    with Catalogue.open(place.address) as catalogue:
        catalogue.connection.execute("UPDATE store SET value = %s WHERE name = 'files'", (where,))
    place("trials", "--db", place.address, code=1)
    said = place("trials", "--db", place.address, "--trust-files", code=2)
    assert "a store's files are in a folder, or at a URL" in said
