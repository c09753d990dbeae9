"""Pairs of runs, judged after every pair."""

import random

import pytest

from taupy.study.conditions import RowRuns, parse
from taupy.study.sequential import (
    fewest_pairs,
    judged,
    median_sequence,
    pairs_to_go,
    wealth,
)


def verdict(text, first, second, unit="ns", **more):
    (ruling,) = judged(parse(text), [RowRuns("f", tuple(first), tuple(second))], unit, **more)
    return ruling


def test_the_wealth_of_a_bet():
    # 2^n times the mixture's chance of n pairs within: 1/2, 3/4, 5/6, ... one after another.
    assert wealth(0, 1) == pytest.approx(2 * 1 / 2)
    assert wealth(0, 2) == pytest.approx(4 * 1 / 2 * 3 / 4)
    assert wealth(0, 3) == pytest.approx(8 * 1 / 2 * 3 / 4 * 5 / 6)
    # One of two: (1/2 * 1/4) in either order.
    assert wealth(1, 2) == pytest.approx(4 * 1 / 2 * 1 / 4)
    assert wealth(3, 4) == wealth(1, 4)
    # It is a fair bet: what comes next leaves it where it is, on the average.
    assert (wealth(3, 10) + wealth(2, 10)) / 2 == pytest.approx(wealth(2, 9))


def test_seven_pairs_are_the_fewest_that_decide_at_five_percent():
    assert fewest_pairs(0.05) == 7
    ruling = verdict("time > +5%", [100.0] * 6, [120.0] * 6)
    assert ruling.verdict == "undecided"
    assert ruling.why == "too few pairs to tell: 6, and 7 are needed"
    ruling = verdict("time > +5%", [100.0] * 7, [120.0] * 7)
    assert (ruling.verdict, ruling.why) == ("fails", "7 of 7 pairs lie beyond the limit")
    assert ruling.change == pytest.approx(0.2)
    assert ruling.p == pytest.approx(1 / wealth(0, 7))
    assert verdict("time > +5%", [100.0] * 7, [104.0] * 7).verdict == "passes"
    assert verdict("time < -5%", [100.0] * 7, [90.0] * 7).verdict == "fails"
    assert verdict("time < -5%", [100.0] * 7, [96.0] * 7).verdict == "passes"
    assert verdict("time > +2 ms", [10e6] * 7, [13e6] * 7).verdict == "fails"


def test_conditions_and_rows_share_the_chance_of_a_false_failure():
    assert verdict("time > +5%", [1.0] * 7, [2.0] * 7, families=2).verdict == "undecided"
    rows = [RowRuns(name, (1.0,) * 8, (2.0,) * 8) for name in "fgh"]
    assert {one.verdict for one in judged(parse("time > +5%"), rows, "ns")} == {"undecided"}
    rows = [RowRuns(name, (1.0,) * 9, (2.0,) * 9) for name in "fgh"]
    assert {one.verdict for one in judged(parse("time > +5%"), rows, "ns")} == {"fails"}


def test_what_was_decided_stays_decided():
    later = [100.0] * 7 + [120.0] * 30
    assert verdict("time > +5%", [100.0] * 37, later).verdict == "passes"


def test_an_undecided_ruling_says_how_many_pairs_more_it_takes():
    # If one of four goes on to lie beyond the limit, 8 of 34 do.
    first, second = [100.0] * 8, [100.0] * 6 + [120.0] * 2
    ruling = verdict("time > +5%", first, second)
    assert ruling.why == ("2 of 8 pairs lie beyond the limit; at this noise it takes about 26 more")
    assert wealth(8, 34) >= 20 > wealth(8, 33)
    assert pairs_to_go(5, 10, 0.05) is None


def test_the_pairs_foreseen_are_those_it_takes_on_the_average():
    chance = random.Random(3)
    for beyond in (6, 7, 13):
        taken = []
        for _ in range(300):
            outside, pairs = beyond, 20
            while wealth(outside, pairs) < 20:
                outside += chance.random() < beyond / 20
                pairs += 1
            taken.append(pairs - 20)
        assert 0.6 < pairs_to_go(beyond, 20, 0.05) / sorted(taken)[150] < 1.6


def test_counts_that_agree_in_three_pairs_are_decided():
    ruling = verdict("calls > +0", [7.0] * 3, [8.0] * 3, "call")
    assert (ruling.verdict, ruling.why) == ("fails", "all runs agree")
    assert verdict("calls > +0", [7.0] * 3, [7.0] * 3, "call").verdict == "passes"
    assert verdict("calls > +0", [7.0] * 2, [8.0] * 2, "call").verdict == "undecided"
    assert verdict("calls > +0", [7.0, 8.0, 7.0], [8.0] * 3, "call").verdict == "undecided"


def test_the_interval_holds_the_order_statistics_that_the_wealth_leaves():
    values = [1.07, 1.01, 1.05, 1.02, 1.04, 1.03, 1.06]
    assert median_sequence(values[:6], 0.05) is None
    interval = median_sequence(values, 0.05)
    assert (interval.low, interval.high, interval.confidence) == (1.01, 1.07, 0.95)
    # Of 12 pairs, one at either end may be left out; of 11, none.
    assert wealth(1, 11) < 20 <= wealth(1, 12)
    values = [1.0, 1.08, 1.04, 1.05, 1.03, 1.06, 1.02, 1.01, 1.07, 1.025, 1.035, 1.045]
    assert median_sequence(values[:11], 0.05)[:2] == (1.0, 1.08)
    assert median_sequence(values, 0.05)[:2] == (1.01, 1.07)


def test_an_interval_never_grows_again():
    values = [1.0 + 0.001 * at for at in range(10)] + [0.5, 1.5] * 5
    widths = []
    for count in range(7, len(values) + 1):
        interval = median_sequence(values[:count], 0.05)
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gauss", "two speeds", "heavy"])
def test_looking_after_every_pair_fails_no_more_often_than_promised(noise):
    """1,000 comparisons whose median change is the limit itself: the worst case there is."""
    chance = random.Random(5)

    def time():
        if noise == "gauss":
            return chance.gauss(1, 0.03)
        if noise == "heavy":
            return 1 + chance.paretovariate(1.1) / 10
        return chance.choice([1, 1.2]) * chance.gauss(1, 0.001)

    failed = passed = 0
    for _ in range(1000):
        first = [time() for _ in range(60)]
        second = [1.05 * time() for _ in range(60)]
        found = verdict("time > +5%", first, second).verdict
        failed += found == "fails"
        passed += found == "passes"
    assert failed <= 50 and passed <= 50
