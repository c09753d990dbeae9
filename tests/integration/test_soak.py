"""A few rounds of `make soak`, each of whose seeds does something else."""

from __future__ import annotations

import pytest

from tests import soak


@pytest.fixture(scope="session")
def full_disk(tmp_path_factory):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return soak.preload(tmp_path_factory.mktemp("preload"))


@pytest.mark.slow
@pytest.mark.parametrize("action", sorted(soak.ACTIONS))
def test_nothing_is_lost_or_left_behind(tmp_path, full_disk, action):
    assert soak.one_round(tmp_path, 1, full_disk, [action]) == ""
