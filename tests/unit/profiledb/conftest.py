"""A fresh, writable trial database in the test's own folder."""

from __future__ import annotations

import pytest

from taupy.profiledb.database import ProfileDB


@pytest.fixture
def db(tmp_path):
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as opened:
        yield opened
        assert opened.verify() == []
