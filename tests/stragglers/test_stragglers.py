"""A share of the stragglers; `make observer` runs them with PyTorch (OBSERVER=--share: a few)."""

from __future__ import annotations

import importlib.util

import pytest

from tests.stragglers import judge
from tests.stragglers.judge import Named


def test_there_are_20_variants():
    variants = judge.expected()
    assert len(variants) == 20
    assert all(names for _, names in variants.values())
    assert {*judge.SHARE} < {*variants}


def test_a_wrong_rank_or_cause_is_not_named():
    def said(*steps):
        return [Named(rank, frozenset(names)) for rank, names in steps]

    assert judge.is_named(said((1, {"burn", "pad"})), 1, ("pad",))
    assert not judge.is_named(said((0, {"burn", "pad"})), 1, ("pad",))
    assert not judge.is_named(said((1, {"burn", "run"})), 1, ("pad",))
    assert not judge.is_named(said((None, set())), 1, ("pad",))
    turns = [(0, {"pad"}), (1, {"pad"}), (0, {"pad"}), (1, {"pad"})]
    assert judge.is_named(said((1, {"pad"}), *turns), None, ("pad",))
    assert not judge.is_named(said((1, {"pad"}), *turns[:2], *turns[:1]), None, ("other",))
    assert not judge.is_named(said((1, {"pad"}), *turns[1:]), None, ("pad",))
    assert not judge.is_named(said((1, {"pad"})), None, ("pad",))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch is not installed: pip install torch==2.13.0",
)
def test_stragglers_are_named_with_their_reason():
    assert [name for name, is_named in judge.judge(judge.SHARE).items() if not is_named] == []
