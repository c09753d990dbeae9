"""What several files of tests share."""

from __future__ import annotations

import pytest

from taupy.profiledb.writer import add_profile
from tests.builders import database_at, small_profile


@pytest.fixture
def two_trials(tmp_path, monkeypatch):
    """The current folder, in which taupy.db has two trials."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAUPY_DB", raising=False)
    with database_at("taupy.db") as db:
        add_profile(db, small_profile(1))
        add_profile(db, small_profile(2))
    return tmp_path
