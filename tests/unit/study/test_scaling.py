"""Speed-up, efficiency, balance, correlation, outliers: numbers worked out by hand."""

from __future__ import annotations

import math
from random import Random

import pytest

from taupy.study.scaling import balance, correlations, in_order, outliers, scaled


def test_numbers_come_by_size_and_words_as_they_came():
    assert in_order(["16", "2", "1e1", "2"]) == ["2", "1e1", "16"]
    assert in_order(["b", "a", "10", "b"]) == ["b", "a", "10"]
    assert in_order(["nan", "1"]) == ["nan", "1"]


def test_strong_scaling():
    rows = scaled({"4": [30.0], "1": [100.0, 90.0, 110.0], "2": [50.0]}, "strong")
    assert [(r.value, r.runs, r.median, r.minimum, r.maximum) for r in rows] == [
        ("1", 3, 100.0, 90.0, 110.0),
        ("2", 1, 50.0, 50.0, 50.0),
        ("4", 1, 30.0, 30.0, 30.0),
    ]
    assert [r.speedup for r in rows] == pytest.approx([1, 2, 10 / 3])
    assert [r.efficiency for r in rows] == pytest.approx([1, 1, 10 / 12])


def test_strong_scaling_against_a_baseline_that_is_not_one():
    rows = scaled({"2": [60.0], "8": [20.0], "4": [30.0]}, "strong", baseline="4")
    assert [r.speedup for r in rows] == pytest.approx([0.5, 1, 1.5])
    assert [r.efficiency for r in rows] == pytest.approx([1, 1, 0.75])


def test_weak_scaling():
    rows = scaled({"1": [10.0], "4": [16.0]}, "weak")
    assert [r.speedup for r in rows] == pytest.approx([1, 2.5])
    assert [r.efficiency for r in rows] == pytest.approx([1, 0.625])


@pytest.mark.parametrize("scaling", ["strong", "weak", "none"])
def test_words_have_no_efficiency(scaling):
    rows = scaled({"fp32": [10.0], "bf16": [4.0]}, scaling)
    assert [r.value for r in rows] == ["fp32", "bf16"]
    assert [r.efficiency for r in rows] == [None, None]
    assert [r.speedup for r in rows] == ([None, None] if scaling == "weak" else [1, 2.5])


def test_zero_and_nothing_are_no_division():
    assert scaled({}) == []
    assert scaled({"1": []}) == []
    rows = scaled({"0": [0.0], "1": [5.0]}, "strong")
    assert [(r.speedup, r.efficiency) for r in rows] == [(None, None), (0.0, None)]


def test_balance():
    shared = balance([2.0, 4.0, 6.0, 4.0])
    assert (shared.parts, shared.mean, shared.minimum, shared.maximum) == (4, 4, 2, 6)
    assert shared.stddev == pytest.approx(math.sqrt(2))
    assert (shared.imbalance, shared.lost) == (0.5, 2.0)
    assert balance([7.0]) is None
    assert balance([0.0, 0.0]) is None


def correlation(fact, values):
    rows = correlations({"fact": fact}, {"time": values})
    return rows[0] if rows else None


def test_a_straight_line_correlates_wholly():
    row = correlation(["1", "2", "3", "4"], [5.0, 3.0, 1.0, -1.0])
    assert (row.trials, row.pearson, row.spearman, row.explained) == pytest.approx((4, -1, -1, 1))


def test_a_curve_correlates_in_ranks():
    row = correlation(["1", "2", "3", "4", "5"], [1.0, 4.0, 9.0, 16.0, 125.0])
    assert row.spearman == pytest.approx(1)
    assert row.pearson == pytest.approx(260 / math.sqrt(10 * 11174))


def test_equal_values_share_their_ranks():
    row = correlation(["1", "1", "2", "3"], [10.0, 20.0, 20.0, 30.0])
    # ranks 1.5 1.5 3 4 and 1 2.5 2.5 4: covariance 3.75 of sqrt(4.5 * 4.5)
    assert row.spearman == pytest.approx(3.75 / 4.5)


def test_words_explain_the_variance_between_their_groups():
    # means 2 and 6 about 4: between 16, within 4, in all 20
    row = correlation(["a", "a", "b", "b"], [1.0, 3.0, 5.0, 7.0])
    assert (row.pearson, row.spearman, row.explained) == (None, None, pytest.approx(16 / 20))


@pytest.mark.parametrize(
    ("fact", "values"),
    [
        (["1", "2", "3"], [1.0, 2.0, 3.0]),  # too few
        (["1", "1", "1", "1"], [1.0, 2.0, 3.0, 4.0]),  # the fact does not vary
        (["1", "2", "3", "4"], [2.0, 2.0, 2.0, 2.0]),  # the quantity does not
        (["a", "b", "c", "d"], [1.0, 2.0, 3.0, 4.0]),  # every trial its own word
        (["1", None, "3", "4"], [1.0, 2.0, 3.0, 4.0]),
        (["1", "2", "3", "4"], [1.0, None, 3.0, math.nan]),
        (["1.0", "1", "1.00", "1e0"], [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_what_says_nothing_gives_no_row(fact, values):
    assert correlation(fact, values) is None


def test_huge_and_tiny_numbers_correlate_alike():
    for scale in (1e-300, 1.0, 1e300):
        row = correlation(["1", "2", "3", "5"], [scale * value for value in (2, 1, 4, 3)])
        assert row.pearson == pytest.approx(0.529, abs=1e-3)


def test_one_far_point_does_not_come_first():
    far = [str(x) for x in (1, 2, 1, 2, 1, 100)]
    steady = [str(x) for x in (1, 2, 3, 4, 5, 7)]
    rows = correlations({"far": far, "steady": steady}, {"t": [2.0, 1.0, 3.0, 3.5, 4.0, 60.0]})
    assert [row.fact for row in rows] == ["steady", "far"]
    assert rows[1].explained > rows[0].explained


def test_outliers_lie_beyond_the_modified_z_score():
    # median 10, distances 1 0 1 0 2 -> MAD 1; (20 - 10) * 0.6745 / 1
    found = outliers([9.0, 10.0, 11.0, 10.0, 20.0, 8.5])
    assert [place for place, _ in found] == [4]
    assert outliers([1.0, 1.0, 1.0, 90.0]) == []  # too few
    assert outliers([5.0] * 9) == []
    ((place, score),) = outliers([5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0])  # MAD is 0
    assert (place, score) == (6, pytest.approx(7 / 1.2533))


def test_noise_seldom_gives_outliers():
    random = Random(1)
    count = sum(len(outliers([random.gauss(100, 5) for _ in range(20)])) for _ in range(500))
    assert count < 0.01 * 500 * 20
