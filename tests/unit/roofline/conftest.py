"""Trials of `build.py` stored, and their work as the query gives it."""

from __future__ import annotations

import pytest

from taupy.profiledb.roofline_query import trial_work
from taupy.profiledb.writer import add_profile
from tests.builders import database_at


@pytest.fixture
def work(tmp_path):
    """Stores a profile and gives its work."""
    with database_at(tmp_path / "taupy.db") as db:

        def stored(profile):
            return trial_work(db, [db.trial(add_profile(db, profile))])[0]

        yield stored
        assert db.verify() == []
