"""Names that lead out of a store's folder, and what lies in it but is no file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from taupy.errors import DatabaseError
from taupy.formats.tau.export import _folders
from taupy.model.metric import Metric
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.merge import merge
from taupy.profiledb.writer import add_profile
from taupy.store.files import TrialKey
from taupy.store.manifest import is_of
from taupy.store.places import LocalPlace, place_of
from tests.builders import UUID, small_profile
from tests.in_process import taupy

WHOSE = UUID.format(1)
GOOD = f"app=mnist/month=2026-11/{WHOSE}.call.0123abcd.parquet"


def test_a_name_that_taupy_gives_is_believed():
    key = TrialKey(WHOSE, "mnist", "2026-11-26T00:00:00")
    assert GOOD.startswith(key.file)
    assert is_of(GOOD, "call", WHOSE, "mnist")
    assert is_of(GOOD.replace(WHOSE, "joint"), "call", WHOSE, "mnist")


@pytest.mark.parametrize(
    "name",
    [
        f"../{GOOD}",
        f"/{GOOD}",
        GOOD.replace("2026-11", "2026-11/.."),
        GOOD.replace("2026-11", "../../x"),
        GOOD.replace(WHOSE, UUID.format(2)),
        GOOD.replace(WHOSE, "../../x"),
        GOOD.replace("mnist", "secret"),
        GOOD.replace(".call.", ".launch."),
        f"{GOOD}\n",
        f"{GOOD}\0",
        "/etc/passwd",
        "taupy-store.json",
        "",
    ],
)
def test_any_other_name_is_not(name):
    assert not is_of(name, "call", WHOSE, "mnist")


ODD_UUIDS = ["", "../../../../tmp/x", "a/b-0000000", "..", "a\0b00000000", "x" * 200, "0190000\n"]


@pytest.mark.parametrize("uuid", ODD_UUIDS, ids=ascii)
def test_a_trial_with_such_a_uuid_makes_no_path_and_is_not_merged(tmp_path, uuid):
    with pytest.raises(DatabaseError, match="is not the uuid of a trial"):
        _ = TrialKey(uuid, "app", "2026-11").file
    source = tmp_path / "source.db"
    with ProfileDB.open(source, create=True) as db:
        add_profile(db, small_profile(1))
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("UPDATE trial SET uuid = ?", (uuid,))
        connection.commit()
    target = tmp_path / "target.db"
    with pytest.raises(DatabaseError, match=r"which is none; see `taupy doctor"):
        merge(str(target), [str(source)])
    assert not target.exists()
    found = taupy("doctor", source)
    assert found.returncode == 1
    assert "is none: the trial is neither merged nor pushed" in found.stdout
    assert taupy("pprof", "--db", source).returncode == 0, "reading goes on"


def test_a_month_and_an_application_stay_within_a_component():
    key = TrialKey(WHOSE, "../../etc", "../../x")
    assert key.file == f"app=..%2F..%2Fetc/month=..%2F..%2Fx/{WHOSE}"
    assert ".." not in key.file.split("/")


@pytest.mark.parametrize("name", ["../x", "/", "a/../b", "..", "\0", "a//b"])
def test_a_metric_leads_out_of_no_folder_of_an_export(name):
    (folder,) = _folders([Metric(name, "")]).values()
    assert "/" not in folder and "\0" not in folder and folder not in (".", "..")


# --- the folder itself


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "files"
    (root / "app=a").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    return root


@pytest.mark.parametrize(
    "name", ["../secret", "app=a/../../secret", "/etc/passwd", "", "a//b", "."]
)
def test_a_name_stays_below_the_folder(folder, name):
    place = LocalPlace(str(folder))
    for act in (place.read, place.create, place.stamp, place.remove):
        with pytest.raises(DatabaseError, match="is not the name of a file"):
            act(name)


def test_no_link_is_followed(folder):
    place = LocalPlace(str(folder))
    (folder / "app=a" / "link").symlink_to("../../secret")
    (folder / "app=l").symlink_to("../")
    for name in ("app=a/link", "app=l/secret"):
        with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
            place.read(name)
    assert place.stamp("app=a/link") is None
    with pytest.raises(OSError, match="File exists"):
        place.create("app=a/link")
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        place.create("app=l/new")
    assert dict(place.sizes()) == {}
    assert (folder.parent / "secret").read_text() == "secret"


def test_only_regular_files_are_read(folder):
    place = LocalPlace(str(folder))
    os.mkfifo(folder / "app=a" / "pipe")
    with pytest.raises(OSError, match="is a named pipe, not a file"):
        place.read("app=a/pipe")
    assert place.stamp("app=a/pipe") is None


@pytest.mark.parametrize(
    "where", ["http://x/", "ssh://x/y", "zip://a::http://x/y", "simplecache::s3://b", "memory://x"]
)
def test_other_schemes_are_no_place_for_files(where):
    with pytest.raises(Exception, match="a store's files are in a folder, or at a URL"):
        place_of(where)
