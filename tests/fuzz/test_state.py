"""Runs of taupy's own, changed at random: see `state.py`."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.fuzz.state import attempt, fuzz, packed, seeds


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return seeds(tmp_path_factory.mktemp("seeds"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


def test_unchanged_runs_are_stored(runs, place):
    for number, run in enumerate(runs):
        packed(run, place / f"{number}.taupy-run", Random(5))
        assert attempt(place / f"{number}.taupy-run", place / "taupy.db") == "stored"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_changed_runs_are_refused_or_stored_never_more(runs, place, seed):
    counts, faults = fuzz(runs, Random(seed), time.monotonic() + 60, place, 40)
    assert faults == []
    assert min(counts.values()) > 0
    assert list((place / "state").iterdir()) == []
