from __future__ import annotations

import math
from array import array

import pytest

from taupy.model.step_times import quantile, step_times
from tests.builders import steps


def marks(times: list[int]) -> str:
    letters = {"": ".", "warm-up": "w", "outlier": "o"}
    return "".join(letters[mark] for mark in step_times(steps(times)).marks)


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ([100], "."),
        ([900, 300, 100, 101, 99, 100, 100, 100], "ww......"),
        ([100, 100, 101, 99, 100, 100, 180, 100], "......o."),
        ([100, 100, 100, 100, 100, 119], "......"),  # not by 20 %
        ([100, 150, 60, 130, 80, 140, 110, 70], "........"),  # noise hides no outlier, and is none
        ([800, 700, 600, 500, 400, 300, 200, 100], "www....."),
    ],
)
def test_warm_up_and_outliers(times, wanted):
    assert marks(times) == wanted


def test_warm_up_counts_in_no_rate():
    found = step_times(steps([900_000, *[100_000] * 9]))
    assert (found.median_ns, found.p95_ns) == (100_000, 100_000)
    assert found.per_second == pytest.approx(1e4)
    assert found.samples_per_second is None  # those of the first step alone are known


def test_rates_are_of_the_steps_whose_amount_is_known():
    series = steps([100_000] * 4)
    series.values["tokens"] = array("d", [30, math.nan, 10, 20])
    assert step_times(series).tokens_per_second == pytest.approx(60 / 300e-6)


def test_several_steps_in_a_row_count_by_their_mean():
    series = steps([400, 400, 400])
    series.count[:] = type(series.count)("q", [4, 4, 4])
    found = step_times(series)
    assert found.median_ns == 100
    assert found.per_second == pytest.approx(1e7)


def test_a_quantile_lies_between_two_values():
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([7], 0.95) == 7
