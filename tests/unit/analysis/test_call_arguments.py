"""Whether the calls of a routine that were looked at have the same arguments again."""

from __future__ import annotations

import random

import pytest

from taupy.analysis.findings.call_arguments import CallArguments


@pytest.mark.parametrize(
    ("compared", "different", "others", "come_again"),
    [
        (480, 12, 0, True),
        (480, 120, 0, True),
        (480, 121, 0, False),
        (20, 1, 0, False),  # too few show nothing
        (480, 12, 200, False),  # most may have others
        (0, 0, 480, False),
    ],
)
def test_arguments_come_again_where_few_calls_have_new_ones(
    compared, different, others, come_again
):
    assert CallArguments(compared, different, others).come_again == come_again


@pytest.mark.parametrize(("calls", "looked_at"), [(1_000, 600), (20_000, 1_500), (90_000, 4_000)])
@pytest.mark.parametrize("times", [1, 10, 30])
def test_arguments_differ_where_too_few_calls_looked_at_have_the_same(calls, looked_at, times):
    """However many calls there are: few of many that are looked at seldom meet the same again."""
    drawn = random.Random(1)
    arguments = [number // times for number in range(calls)]
    seen = drawn.sample(arguments, looked_at)
    looked = CallArguments(looked_at, len(set(seen)))
    assert looked.differ(calls) == (times == 1)


@pytest.mark.parametrize("looked", [CallArguments(300, 300), CallArguments(0, 0, 900)])
def test_nothing_is_known_of_calls_of_which_few_were_looked_at(looked):
    assert not looked.differ(10_000_000)


def test_the_clause_gives_both_numbers():
    assert CallArguments(480, 12).clause == "of 480 calls looked at, 12 different arguments"
    assert CallArguments(480, 1).clause == "480 calls looked at, all with the same arguments"
