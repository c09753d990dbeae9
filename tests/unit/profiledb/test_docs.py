"""docs/database.md tells all tables, views and columns, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taupy.profiledb import api
from taupy.profiledb.migrations import SCHEMA_VERSION
from taupy.profiledb.schema import APPLICATION_ID
from taupy.profiledb.schema_views import VIEWS
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, small_profile

TEXT = (Path(__file__).parents[3] / "docs" / "database.md").read_text("utf-8")
SHORTHAND = "then mean, minimum, maximum, stddev of exclusive and of inclusive"
SPELLED = ", ".join(
    f"{value}_{what}"
    for value in ("exclusive", "inclusive")
    for what in ("mean", "minimum", "maximum", "stddev")
)


def documented(name, cell):
    """The words in one cell of the table row that begins with `name`."""
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1, f"{name} stands in {len(rows)} rows of docs/database.md"
    text = rows[0].split("|")[cell].replace(SHORTHAND, SPELLED)
    return [word.strip().partition(" (")[0] for word in text.split(",")]


@pytest.fixture
def stored(db):
    add_profile(db, small_profile(3))
    add_profile(db, small_profile(4))
    return db


def test_every_table_and_its_columns_stand_in_the_docs(db):
    tables = db.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    for (name,) in tables:
        columns = [column for _, column, *_ in db.rows(f"PRAGMA table_info({name})")]
        assert sorted(documented(name, 2)) == sorted(columns), name


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_and_its_columns_stand_in_the_docs(db, view):
    columns = [column for _, column, *_ in db.rows(f"PRAGMA table_info({view})")]
    assert sorted(documented(view, 3)) == sorted(columns[4:])


def test_every_frame_and_its_columns_stand_in_the_docs(stored):
    pytest.importorskip("pandas")
    add_profile(stored, gpu_profile(5))
    database = api.Database(stored.path)
    trial = database.trial(2)
    frames = {
        "trials()": database.trials(),
        "profile(metric)": trial.profile(),
        "callpaths(metric)": trial.callpaths(),
        "launches()": database.trial(3).launches(),
        "user_events()": trial.user_events(),
        "timeline()": trial.timeline(),
        "metadata()": trial.metadata(),
        "threads()": trial.threads(),
        "metrics()": trial.metrics(),
        "derived_metrics()": trial.derived_metrics(),
    }
    for name, frame in frames.items():
        assert documented(name, 2) == list(frame.columns)


def test_every_query_in_the_docs_runs(stored):
    queries = re.findall(r"^    SELECT .*?;$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(queries) == 2
    for query in queries:
        stored.rows(query)
    add_profile(stored, small_profile(5))
    assert stored.rows(queries[0].replace("= 3", "= 1"))[0][1] == 5e-5


def test_numbers_in_the_docs_are_those_of_the_code():
    assert f"0x{APPLICATION_ID:x}" in TEXT
    assert f"the schema's version, now {SCHEMA_VERSION}" in TEXT
