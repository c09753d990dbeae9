"""Files of a store that lie behind a URL: fsspec's, with errors of its own."""

from __future__ import annotations

from typing import ClassVar

import pytest

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

from taupy.store import places  # noqa: E402

pytestmark = pytest.mark.slow


class Broken(Exception):
    """As what serves a URL raises it: no OSError."""


class Remote(MemoryFileSystem):
    """Files in memory that can become out of reach."""

    protocol = "remote"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    is_reached = True

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).replace("remote://", "memory://"))

    def unstrip_protocol(self, name):
        return f"remote://{name}"

    def open(self, path, mode="rb", **more):
        if not Remote.is_reached:
            raise Broken("out of\nreach")
        return super().open(path, mode, **more)


@pytest.fixture
def remote(place, new_address, monkeypatch):
    fsspec.register_implementation("remote", Remote, clobber=True)
    monkeypatch.setattr(places, "SCHEMES", (*places.SCHEMES, "remote"))
    monkeypatch.setattr(Remote, "store", {})
    monkeypatch.setattr(Remote, "pseudo_dirs", [""])
    address = new_address()
    place("store", "create", "--db", address, "--files", "remote://bucket/profiles")
    place.address = address
    return place


def test_a_store_behind_a_url(remote):
    assert "6 trials added" in remote("push", "--to", remote.address)
    assert all(name.startswith("/bucket/profiles/") for name in Remote.store)
    for words in (("pprof", "2", "--tree"), ("compare", "1", "2", "--by", "callpath"), ("pivot",)):
        assert remote(*words, "--db", remote.address) == remote(*words), words
    Remote().pipe("/bucket/profiles/app=x/month=2026-11/left.call.0.parquet", b"left")
    assert "1 file of no trial" in remote("store", "check", "--db", remote.address, code=1)
    assert "deleted" in remote("store", "check", "--mend", "--db", remote.address)
    assert "became" in remote("store", "compact", "--yes", "--db", remote.address)
    words = ("store", "retain", "--days", "1", "--keep", "2", "--yes", "--db", remote.address)
    assert "5 trials deleted" in remote(*words)
    assert "1 trial" in remote("store", "check", "--read", "--db", remote.address)
    assert remote("pprof", "2", "--tree", "--db", remote.address) == remote("pprof", "2", "--tree")


def test_a_url_out_of_reach_is_one_line(remote, monkeypatch):
    monkeypatch.setattr(Remote, "is_reached", False)
    for words in (("trials", "--db"), ("push", "--to"), ("store", "check", "--db")):
        said = remote(*words, remote.address, code=1)
        assert "remote://bucket/profiles" in said and "out of reach" in said
        assert len(said.splitlines()) == 1, said
