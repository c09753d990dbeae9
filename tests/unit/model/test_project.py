"""Settings of a project: what is wrong with them is said, and stops no program."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import taupy
from taupy.commands import options
from taupy.errors import NOTICES
from taupy.model import project
from taupy.state import places


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(places, "_trusted_here", set())
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("TAUPY_DB", raising=False)
    return tmp_path / "pyproject.toml"


def database():
    return options.database_or_store(argparse.Namespace(db=None))


def test_the_database_is_relative_to_the_projects_folder(file):
    file.write_text('[tool.taupy]\ndb = "profiles/all.db"\n')
    assert database() == str(file.parent / "profiles/all.db")
    assert NOTICES == []


GUARDED = """[tool.taupy]
db = "postgresql://u@h/d"
cluster = "tcp://h:8786"
keep_secrets = true
trust_files = ["s3://b"]
app = "a"
"""


def test_a_project_makes_nothing_reach_out_until_it_is_trusted(file, monkeypatch):
    file.write_text(GUARDED)
    assert project.project_settings() == {"app": "a"}
    assert database() == str(file.parent / "below/taupy.db")
    (said,) = NOTICES
    assert "`db`, `cluster`, `keep_secrets`, `trust_files` of [tool.taupy] in" in said
    assert "--trust-folder" in said
    NOTICES.clear()
    project.trust_project()
    for _ in range(2):
        assert database() == "postgresql://u@h/d"
        assert project.project_settings()["keep_secrets"] is True
        monkeypatch.setattr(places, "_trusted_here", set())  # a later process
    assert NOTICES == []
    assert (file.parent / "state" / "trusted").stat().st_mode & 0o077 == 0


def test_what_trust_says_is_one_folder_only(file, tmp_path, monkeypatch):
    file.write_text(GUARDED)
    project.trust_project()
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyproject.toml").write_text(GUARDED)
    monkeypatch.chdir(other)
    assert project.project_settings() == {"app": "a"}


@pytest.mark.parametrize("value", ["false", '""', "[]"])
def test_settings_that_reach_nowhere_need_no_trust(file, value):
    file.write_text(f"[tool.taupy]\nkeep_secrets = {value}\ncluster = {value}\ndb = 'x.db'\n")
    assert project.project_settings()["db"] == "x.db"
    assert NOTICES == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.taupy\ndb =", "cannot be read, so it sets nothing"),
        ("a = " + "[" * 20_000, "sets nothing: it is nested too deeply"),
        ("a = " + "9" * 5_000, "sets nothing: Exceeds the limit"),
        ("#" * (1 << 20) + "\n", "sets nothing: it has more than"),
        ("tool = 3", ""),
        ("[tool]\ntaupy = 3", "is not a table"),
        ("[tool.taupy]\ndb = 3", "is not a string, and not used: 3"),
        ('[tool.taupy]\nexperimnt = "e"', "no such setting: experimnt (did you mean experiment?)"),
    ],
)
def test_what_is_wrong_is_said_once_and_nothing_is_refused(file, text, said):
    file.write_text(text)
    for _ in range(2):
        assert database() == str(file.parent / "below/taupy.db")
    assert [said in notice for notice in NOTICES] == ([True] if said else [])


def test_every_setting_that_is_read_has_a_name_in_the_list():
    read = {"db", "match", "sets", "metrics", "derived", "trust_files", "watch", "include"}
    for source in Path(taupy.__file__).parent.rglob("*.py"):
        text = source.read_text()
        read |= set(re.findall(r'project(?:_settings\(\))?\.get\("(\w+)"', text))
        read |= set(re.findall(r'\b(?:number|_patterns)\("(\w+)",[^)]*project\)', text))
    assert read <= {*project.NAMES}
    docs = Path(taupy.__file__).parent.parent / "docs"
    page = "".join(page.read_text() for page in docs.glob("*.md"))
    documented = set(re.findall(r"\[tool\.taupy\.(\w+)\]", page))
    for block in re.findall(r"\n    \[tool\.taupy\]((?:\n    .*)*)", page):
        documented |= set(re.findall(r"\n    (\w+) =", block))
    assert documented and documented <= {*project.NAMES}
