"""A share of the observer's proof; `make observer` runs all of it."""

from __future__ import annotations

import importlib.util

import pytest

from tests.observer import compare


def test_there_are_30_trainings():
    assert len(compare.MODELS) == len({*compare.MODELS}) == 30
    assert {*compare.SHARE} < {*compare.MODELS}


def test_a_difference_is_seen():
    plain = {"losses": ["0x1p+0"], "hooks": [0]}
    assert compare.differences(plain, dict(plain)) == []
    assert compare.differences(plain, {"losses": ["0x1p+0"], "hooks": [1]}) == ["hooks"]
    assert compare.differences(plain, {"losses": ["0x1p+0"]}) == ["hooks"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed: pip install torch==2.13.0",
)
def test_trainings_do_not_notice_that_they_are_measured():
    result = compare.compare(compare.SHARE, compare.ENGINES[:1])
    assert {name: found for name, found in result.items() if any(found.values())} == {}
