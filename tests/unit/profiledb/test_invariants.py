"""Each law is noticed when broken, and only then."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from taupy.model.invariants import check, mended
from tests.builders import deep_profile, gpu_profile, small_profile, wide_profile


@pytest.mark.parametrize("profile", [small_profile(), deep_profile(1000), wide_profile(1000)])
def test_a_lawful_profile_is_left_as_it_is(profile):
    assert check(profile) == []
    assert mended(profile) is profile


def broken(change):
    profile = small_profile()
    change(profile.threads[0].tree)
    return check(profile)


def test_exclusive_below_zero():
    def change(tree):
        tree.exclusive["misses"][0] = -1
        tree.inclusive["misses"][0] -= 1

    assert broken(change) == ["thread 0.0.0: misses: exclusive below 0"]


def test_exclusive_above_inclusive():
    def change(tree):
        tree.exclusive["time"][4] = 51

    assert "thread 0.0.0: time: exclusive above inclusive" in broken(change)


def test_inclusive_that_is_not_the_sum():
    def change(tree):
        tree.inclusive["time"][0] += 1

    assert broken(change) == [
        "thread 0.0.0: time: inclusive is not exclusive plus the children's inclusive on 1 rows"
        " (row 0: 151, not 150)"
    ]


def test_subroutines_that_are_not_the_childrens_calls():
    def change(tree):
        tree.subroutines[1] = 6

    assert broken(change) == [
        "thread 0.0.0: subroutines are not the children's calls on 1 rows (row 1: 6, not 7)"
    ]


def test_a_stream_adds_up_like_a_host_thread():
    assert check(gpu_profile()) == []
    profile = gpu_profile()
    profile.threads[1].tree.inclusive["time"][0] += 1
    assert check(profile) == [
        "thread 0.1.0: time: inclusive is not exclusive plus the children's inclusive"
        " on 1 rows (row 0: 5801, not 5800)"
    ]


def test_a_launch_of_a_missing_row_is_reported_and_left_out():
    profile = gpu_profile()
    profile.threads[2].launches = [replace(profile.threads[2].launches[0], row=99)]
    assert check(profile) == ["thread 0.1.1: 1 launches refer to a missing row"]
    assert mended(profile).threads[2].launches == []


def test_columns_of_different_lengths():
    assert broken(lambda tree: tree.calls.pop()) == ["thread 0.0.0: columns have different lengths"]


def test_a_parent_after_its_child():
    def change(tree):
        tree.parent[1] = 2

    assert broken(change) == ["thread 0.0.0: a row's parent does not precede it"]


def test_two_roots():
    def change(tree):
        tree.parent[4] = -1

    assert broken(change) == ["thread 0.0.0: 2 roots instead of one"]


def test_a_timer_that_is_not_there():
    def change(tree):
        tree.timer[2] = 3

    assert broken(change) == ["thread 0.0.0: a row refers to a missing timer"]


def test_a_metric_with_one_half():
    def change(tree):
        del tree.exclusive["misses"]

    assert broken(change) == ["thread 0.0.0: metrics without both inclusive and exclusive: misses"]


def test_mending_cuts_a_circle_of_parents_and_keeps_every_row():
    profile = small_profile()
    tree = profile.threads[0].tree
    tree.parent[:] = array("q", [-1, 3, 1, 2, 0])  # 1 -> 3 -> 2 -> 1
    fixed = mended(profile)
    tree = fixed.threads[0].tree
    assert check(fixed)[0] == "thread 0.0.0: 2 roots instead of one"
    assert sorted(tree.exclusive["time"]) == [10, 20, 30, 40, 50]
    names = [fixed.timers[timer].name for timer in tree.timer]
    under = {
        value: None if above < 0 else tree.exclusive["time"][above]
        for value, above in zip(tree.exclusive["time"], tree.parent, strict=True)
    }
    assert names[0] == "<module>"
    assert under[50] == 10
    assert [under[value] for value in (20, 30, 40)].count(None) == 1
