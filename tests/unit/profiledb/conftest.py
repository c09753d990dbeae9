"""A fresh, writable trial database in the test's own folder."""

from __future__ import annotations

import pytest

from tests.builders import database_at


@pytest.fixture
def db(tmp_path):
    with database_at(tmp_path / "taupy.db") as opened:
        yield opened
        assert opened.verify() == []
