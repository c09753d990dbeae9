"""Files that users name for output: another user's link leads to none of this user's files."""

from __future__ import annotations

import os

import pytest

from taupy.errors import TaupyError
from taupy.frames import frame, write_parquet
from taupy.notebook import Page
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.state import changers
from tests import in_process
from tests.builders import small_profile
from tests.unit.roofline.build import cpu_trial


@pytest.fixture
def folder(tmp_path):
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        for number in (1, 2):
            add_profile(db, small_profile(number, metadata={"n": str(number)}))
        add_profile(db, cpu_trial(3))
    (tmp_path / "mine").write_text("chapter 1")
    return tmp_path


def give_away(link, monkeypatch):
    if os.geteuid() == 0:
        os.chown(link, 4242, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(changers, "user", lambda: 4242)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.html", ["report", "1", "-o"]),
        ("a.parquet", ["pprof", "1", "--parquet"]),
        ("a.html", ["roofline", "3", "-o"]),
        ("a.csv", ["roofline", "3", "-o"]),
        ("a.svg", ["roofline", "3", "-o"]),
        ("a.xml", ["compare", "1", "2", "--fail-on", "time > +5%", "--junit"]),
        ("a.png", ["sweep", "1", "2", "--by", "n", "--plot"]),
    ],
)
def test_a_command_writes_through_links_of_the_user_alone(folder, monkeypatch, name, words):
    link = folder / name
    link.symlink_to("mine")
    ended = in_process.taupy(*words, name, cwd=folder, env={**os.environ})
    assert ended.returncode != 2, ended.stderr
    assert (folder / "mine").read_bytes() != b"chapter 1" and link.is_symlink()
    (folder / "mine").write_text("chapter 1")
    give_away(link, monkeypatch)
    ended = in_process.taupy(*words, name, cwd=folder, env={**os.environ})
    assert (
        ended.returncode != 0 and f"{name} cannot be written: it is a link of user" in ended.stderr
    )
    assert (folder / "mine").read_text() == "chapter 1"


def test_notebooks_write_through_links_of_the_user_alone(folder, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    link = folder / "a"
    link.symlink_to("mine")
    ways = [
        lambda: Page("text", "title").save(link),
        lambda: write_parquet(frame([(1,)], ["id"]), link),
    ]
    for write in ways:
        write()
        assert (folder / "mine").read_bytes() != b"chapter 1"
        (folder / "mine").write_text("chapter 1")
    give_away(link, monkeypatch)
    for write in ways:
        with pytest.raises((OSError, TaupyError), match="is a link of user"):
            write()
    assert (folder / "mine").read_text() == "chapter 1"
