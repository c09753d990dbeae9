"""Looks at several threads at one moment count as fewer when these do the same in step."""

import pytest

from taupy.record.in_step import InStep


def looks_at(*moments: str) -> InStep:
    """Of looks of 10 ns; each word has the line of each thread at one moment."""
    in_step = InStep()
    for places in moments:
        for thread, place in enumerate(places):
            in_step.add("work", place, thread, 10)
    return in_step


@pytest.mark.parametrize(
    ("moments", "pairs", "alike", "effect"),
    [
        (("aa", "bb", "aa", "bb"), 800, 800, 2.0),  # two looks tell no more than one
        (("aa", "bb", "ab", "ba"), 800, 400, 1.0),  # as independent ones
        (("ab", "ba", "ab", "ba"), 800, 0, 1.0),  # in turn: they tell more, which is left
        (("aaa", "bbb"), 1200, 1200, 3.0),
    ],
)
def test_the_effect_is_that_of_pairs_at_the_same_place(moments, pairs, alike, effect):
    in_step = looks_at(*moments)
    squares = 100 * sum(map(len, moments))
    assert in_step.effect(pairs, alike, squares) == pytest.approx(effect)
    assert in_step.together == {"work"}


def test_one_thread_has_no_pairs():
    in_step = looks_at("a", "b")
    assert in_step.effect(0.0, 0.0, 0.0) == 1.0
    assert not in_step.together
