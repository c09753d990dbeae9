"""Tests and intervals for few runs and many routines, against truth that was made."""

from __future__ import annotations

import math
from itertools import combinations

import pytest

from taupy.analysis import significance as s

np = pytest.importorskip("numpy")


def test_three_against_three_can_never_tell():
    assert s.smallest_p(3, 3) == pytest.approx(0.1)
    assert s.smallest_p(5, 5) == pytest.approx(2 / 252)
    assert not s.can_tell(3, 3, 0.05)
    assert s.can_tell(4, 4, 0.05) and s.can_tell(3, 5, 0.05)
    assert s.smallest_p(1, 1) == 1.0 and s.smallest_p(0, 5) == 1.0
    assert s.runs_needed(0.05) == 5
    assert s.runs_needed(0.001) == 7  # 2/C(12, 6) = 0.0022, 2/C(14, 7) = 0.0006


def test_orders_of_runs_by_mann_and_whitneys_u():
    for first, second in ((2, 3), (4, 4), (3, 5)):
        counts = [0] * (first * second + 1)
        for chosen in combinations(range(first + second), first):
            counts[sum(chosen) - first * (first - 1) // 2] += 1
        assert s._rank_sum_counts(first, second) == counts


def test_the_interval_of_a_ratio_is_as_wide_as_it_must_be():
    # Of 5 x 5 pairs, those from the third to the third last: P(U <= 2) = 4/252.
    first, second = [10.0, 11.0, 12.0, 13.0, 14.0], [20.0, 22.0, 24.0, 26.0, 28.0]
    ratios = sorted(two / one for one in first for two in second)
    interval = s.ratio_interval(first, second)
    assert (interval.low, interval.high) == (ratios[3 - 1], ratios[-3])
    assert interval.confidence == pytest.approx(1 - 2 * 4 / 252)
    assert s.ratio_interval([1.0] * 3, [2.0] * 3) is None
    assert s.ratio_interval([0.0, 1, 1, 1, 1], [1.0] * 5) is None


def test_intervals_hold_the_truth_as_often_as_they_say():
    random = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        first = np.exp(random.normal(0, 0.1, 5))
        second = 1.3 * np.exp(random.normal(0, 0.1, 5))
        interval = s.ratio_interval(list(first), list(second))
        held += interval.low <= 1.3 <= interval.high
    assert held / 400 >= 0.94  # 96.8 % promised; 0.94 is three standard deviations below


def test_one_routine_by_itself_is_the_permutation_test():
    first, second = [1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0]
    found = s.tested([first], [second])
    assert found.p == found.adjusted == [pytest.approx(2 / math.comb(8, 4))]
    same = s.tested([[1.0, 2.0, 3.0, 4.0]], [[1.0, 2.0, 3.0, 4.0]])
    assert same.p == [1.0]


def test_what_never_varies_is_no_evidence():
    found = s.tested([[5.0] * 5, [0.0] * 5], [[5.0] * 5, [0.0] * 5])
    assert found.adjusted == [1.0, 1.0]


def noisy(random, routines, runs, spread=0.02, common=0.02):
    """Times of routines over runs; some runs are slower in everything."""
    times = np.exp(random.normal(0, spread, (routines, runs)))
    return times * np.exp(random.normal(0, common, (1, runs)))


def test_false_alarms_are_no_more_than_promised():
    random = np.random.default_rng(2)
    alarms = sum(bool((s.shuffled(noisy(random, 30, 10), 5)[1] <= 0.05).any()) for _ in range(300))
    assert alarms <= 300 * 0.05 + 3 * math.sqrt(300 * 0.05 * 0.95)


def test_a_planted_regression_among_many_routines_is_found():
    random = np.random.default_rng(3)
    found = 0
    for _ in range(40):
        times = noisy(random, 200, 10)
        times[17, 5:] *= 1.2
        adjusted = s.shuffled(times, 5)[1]
        found += adjusted[17] <= 0.05
    assert found >= 38


def test_holm_cannot_see_among_many_what_maxt_sees():
    random = np.random.default_rng(4)
    times = noisy(random, 50, 10)
    times[0, 5:] *= 1.3
    first, second = times[:, :5], times[:, 5:]
    assert s.tested(first, second, "holm").adjusted[0] > 0.05
    assert s.tested(first, second, "maxt").adjusted[0] < 0.05
    assert s.tested(first, second, "none").adjusted[0] < 0.05


def test_corrections_by_hand():
    p = [0.01, 0.04, 0.03, 0.5]
    assert s.corrected(p, "holm") == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert s.corrected(p, "bh") == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert s.corrected(p, "none") == p


def test_many_runs_are_shuffled_by_a_fixed_sample():
    random = np.random.default_rng(5)
    times = noisy(random, 3, 40)
    times[0, 20:] *= 1.5
    first = s.shuffled(times, 20)
    again = s.shuffled(times, 20)
    assert (first[1] == again[1]).all()
    assert first[1][0] == pytest.approx(1 / (s.MOST_SHUFFLES + 1))
