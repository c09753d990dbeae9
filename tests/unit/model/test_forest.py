"""Call paths as forests."""

from __future__ import annotations

from taupy.model.forest import callers_first
from tests.growth import is_linear


def test_each_row_comes_after_its_caller_wherever_that_is():
    assert [*callers_first([-1, 0, 0, 1])] == [0, 1, 2, 3]
    #        3 - 1 - 0, 3 - 2; 4
    assert [*callers_first([1, 3, 3, -1, -1])] == [3, 1, 0, 2, 4]


def test_rows_below_no_root_have_no_place_in_the_order():
    #        0 and 1 call each other, 2 is below them
    assert [*callers_first([1, 0, 1, -1, 3])] == [3, 4]


def test_a_chain_from_its_end_to_its_root_takes_linear_time():
    assert is_linear(lambda size: callers_first([*range(1, size), -1]), 10_000)
