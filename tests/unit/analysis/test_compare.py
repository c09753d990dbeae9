"""Trials side by side: medians, differences, ratios, shares, impact."""

from __future__ import annotations

import math

import pytest

from taupy.analysis.compare import compared, median


def by_key(comparison):
    return {row.key: row for row in comparison.rows}


def test_rows_come_by_their_impact_on_the_whole():
    before = {"f": 100.0, "g": 50.0, "h": 10.0, "gone": 30.0}
    after = {"f": 105.0, "g": 20.0, "h": 10.0, "new": 40.0}
    found = compared([[before], [after]], [[190.0], [175.0]])
    assert [(row.key, row.impact) for row in found.rows] == [
        ("new", 40.0),
        ("g", -30.0),
        ("gone", -30.0),
        ("f", 5.0),
        ("h", 0.0),
    ]
    assert sum(row.impact for row in found.rows) == 175.0 - 190.0


def test_difference_ratio_and_share():
    found = compared([[{"f": 40.0}], [{"f": 50.0}]], [[80.0], [200.0]])
    (row,) = found.rows
    assert (row.difference(1), row.ratio(1)) == (10.0, 1.25)
    assert (found.share(row, 0), found.share(row, 1)) == (50.0, 25.0)


def test_what_is_absent_is_not_zero():
    found = by_key(compared([[{"gone": 3.0}], [{"new": 4.0}]]))
    assert found["gone"].values == (3.0, None)
    assert found["new"].values == (None, 4.0)
    for row in found.values():
        assert (row.difference(1), row.ratio(1)) == (None, None)
    assert (found["gone"].sides, found["new"].sides) == ((0,), (1,))


def test_a_value_of_zero_is_a_value_but_no_divisor():
    (row,) = compared([[{"f": 0.0}], [{"f": 4.0}]]).rows
    assert (row.values, row.difference(1), row.ratio(1)) == ((0.0, 4.0), 4.0, None)


def test_repeated_runs_give_the_median_of_those_that_have_the_row():
    runs = [{"f": 1.0}, {"f": 9.0, "g": 7.0}, {"f": 2.0}]
    found = by_key(compared([runs, [{"f": 4.0}]]))
    assert found["f"].values == (2.0, 4.0)
    assert found["g"].values == (7.0, None)
    assert (found["g"].present(0), found["g"].present(1)) == (1, 0)
    assert [math.isnan(value) for value in found["g"].runs[0]] == [True, False, True]


def test_of_three_sides_the_one_that_differs_most_decides():
    found = compared([[{"f": 10.0, "g": 10.0}], [{"f": 11.0, "g": 10.0}], [{"f": 10.0, "g": 3.0}]])
    assert [(row.key, row.impact) for row in found.rows] == [("g", -7.0), ("f", 1.0)]


def test_ratios_of_one_side_only_have_no_impact():
    found = compared([[{"f": 0.5, "gone": 0.9}], [{"f": 0.7}]], additive=False)
    assert [(row.key, round(row.impact, 9)) for row in found.rows] == [("f", 0.2), ("gone", 0.0)]


@pytest.mark.parametrize(
    ("values", "middle"),
    [([3.0], 3.0), ([3.0, 1.0], 2.0), ([5.0, 1.0, 2.0], 2.0), ([math.nan, 4.0], 4.0)],
)
def test_a_median(values, middle):
    assert median(values) == middle


def test_the_median_of_nothing_is_nothing():
    assert math.isnan(median([]))


def test_rows_of_equal_size_stand_in_the_order_of_the_profile():
    names = [f"routine {number}" for number in range(50)]  # a set has this order hardly ever
    found = compared([[dict.fromkeys(names, 1.0)], [{"new": 9.0}]])
    assert [row.key for row in found.rows] == ["new", *names]


def test_rows_that_are_not_shown_add_up_to_what_their_trials_have():
    rows = compared([[{"a": 1, "b": 2, "c": 4}], [{"a": 1, "b": 9, "c": 4}]]).rows
    shown = rows[:1]
    assert [*shown.keys] == ["b"]
    assert [rows.others(shown, side, rows.sides[side]) for side in (0, 1)] == [5, 5]
    assert rows.others(shown, 0, [{"a": 3, "b": 1, "no row": 100}]) == 3
    assert rows.others(shown, 0, [{"b": 1}]) is None
    assert rows.others(shown, 0, [{"a": 3, "b": 1}, {"a": 5, "no row": 7}]) == 4
    assert rows.others(shown, 0, ()) is None
