"""Whether calls take longer the more of them there have been."""

from __future__ import annotations

from itertools import pairwise

import pytest

from taupy.analysis.findings.call_growth import call_growth


def doubling(time_of_call, first=16, doublings=6):
    """Parts of the calls as they are noted: of the first ones, and of as many as there were."""
    ends = [0, *(first << power for power in range(doublings + 1))]
    for start, end in pairwise(ends):
        yield end - start, sum(time_of_call(number) for number in range(start, end))


@pytest.mark.parametrize(
    ("time_of_call", "power"),
    [
        (lambda number: 100.0, 0),
        (lambda number: 50.0 * (number + 1), 1),
        (lambda number: 3.0 * (number + 1) ** 2, 2),
        (lambda number: (number + 1) ** 0.5, 0.5),
    ],
)
def test_the_power_is_that_of_the_number_of_calls(time_of_call, power):
    growth = call_growth(doubling(time_of_call))
    assert growth.power == pytest.approx(power, abs=0.15)
    assert growth.grows == (power >= 1)
    assert growth.stays == (power == 0)


def test_the_first_and_the_last_calls_are_told_with_their_time():
    growth = call_growth(doubling(lambda number: 1000.0 * (number + 1)))
    assert growth[:2] == (64, 32_500.0)  # a sixteenth of 1,024
    assert growth[2:4] == (512, 768_500.0)
    assert growth.clause == (
        "time per call grows with the number of calls: "
        "32.5 us in the first 64, 768 us in the last 512"
    )


def test_a_single_step_is_no_growth():
    """Later calls may be of another kind."""
    growth = call_growth([(100, 1e4), (100, 1e4), (200, 4e6), (400, 1e6), (800, 8e5)])
    assert not growth.grows


def test_calls_that_prepare_something_do_not_hide_that_later_ones_take_longer():
    """As 500 concatenations with pandas did, the first of which load code."""
    per_call = {16: 1850, 17: 1198, 33: 924, 66: 1600, 132: 2564, 236: 4658}
    growth = call_growth((calls, 1e3 * us * calls) for calls, us in per_call.items())
    assert not growth.stays
    per_call |= {66: 1000, 132: 950, 236: 1050}
    assert call_growth((calls, 1e3 * us * calls) for calls, us in per_call.items()).stays


@pytest.mark.parametrize("parts", [[], [(500, 1e6)], [(500, 1e6), (1000, 9e6)]])
def test_nothing_is_said_where_calls_have_not_doubled_often_enough(parts):
    assert call_growth(parts) is None


def test_few_calls_since_the_last_note_are_none_of_their_own():
    parts = [*doubling(lambda number: number + 1.0), (3, 9e9)]
    assert call_growth(parts)[2] == 512 + 3
