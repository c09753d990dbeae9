"""Small call paths folded: fewer rows, the same sums."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.formats import csv_, folding, speedscope
from taupy.formats.folding import FOLDED, Folding, folded
from taupy.model import invariants
from taupy.model.progress import SILENT
from tests.builders import call, host, profile_of, random_profile
from tests.unit.formats.comparing import one, short_paths

PROGRAM = call(
    *("main", 1, 100),
    [call("small", 1, 1, [call("leaf", 1, 2)]), call("large", 1, 890), call("tiny", 4, 3)],
)


def test_call_paths_below_a_share_become_one_with_their_sums():
    """Of 996 ns: small has 3, tiny 3, which is less than 1 %."""
    profile = profile_of(host(PROGRAM))
    smaller, count = folded(profile, Folding(share=0.01))
    assert count == 3
    (measured,) = smaller.threads
    assert short_paths(smaller, measured) == {
        "main": (1, 6, 996, 100),
        "main > large": (1, 0, 890, 890),
        f"main > {FOLDED.name}": (5, 0, 6, 6),
    }
    assert invariants.check(smaller) == []


def test_call_paths_beyond_a_depth_are_folded():
    smaller, count = folded(profile_of(host(PROGRAM)), Folding(depth=1))
    assert count == 1
    (measured,) = smaller.threads
    assert f"main > small > {FOLDED.name}" in short_paths(smaller, measured)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0, 0.001, 0.05, 0.5, 1]), st.integers(1, 5))
def test_sums_and_calls_stay_what_they_were(seed, share, depth):
    profile = random_profile(Random(seed))
    smaller, count = folded(profile, Folding(share, depth))
    assert len(invariants.check(smaller)) <= len(invariants.check(profile))
    for before, after in zip(profile.threads, smaller.threads, strict=True):
        assert len(after.tree) <= len(before.tree)
        for metric, column in before.tree.exclusive.items():
            known, still = (
                [value for value in values if value == value]
                for values in (column, after.tree.exclusive[metric])
            )
            if not invariants.unsummed(before.tree, metric):
                assert sum(still) == pytest.approx(sum(known))
        assert [event.count for event in after.user_events] == [
            event.count for event in before.user_events
        ]
        assert all(event.row is None or event.row < len(after.tree) for event in after.user_events)
    assert count or smaller is profile


@pytest.mark.parametrize("format", [csv_.FORMATS[1], speedscope.FORMAT], ids=lambda one: one.name)
def test_files_get_smaller_and_keep_the_total(tmp_path, format):
    leaves = [call(f"routine_{number}", 1, 1) for number in range(100)]
    profile = profile_of(host(call("main", 1, 896, leaves)))
    smaller, _ = folded(profile, Folding(share=0.01))
    sizes = []
    for number, each in enumerate((profile, smaller)):
        target = tmp_path / f"{number}.x"
        format.write(each, target, SILENT)
        sizes.append(target.stat().st_size)
    assert sizes[1] < sizes[0] / 5
    if format.read is not None:
        again = one(speedscope, tmp_path / "1.x")
        assert again.threads[0].tree.inclusive["time"][0] == 996


def test_nothing_small_is_nothing_folded():
    profile = profile_of(host(call("main", 1, 5)))
    assert folding.folded(profile, Folding(0.5, 3)) == (profile, 0)
