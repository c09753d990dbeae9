"""The last rank is told what took it longer since the previous collective."""

from __future__ import annotations

import numpy as np

from taupy.ranks.data import Rank
from taupy.ranks.matching import of_ranks
from taupy.ranks.stretches import LEFT_OUT, OwnTimes, longer
from tests.builders import SAMPLED_FROM_NS, collectives, steps, stretches

DATA, FORWARD, WAITS = 0, 1, 2
KEYS = np.array([0, 1, LEFT_OUT])


def job_of(*asked, together=5):
    """Ranks that came to their collectives at these moments, and left `together` later."""
    ends = [max(times) + together for times in zip(*asked, strict=True)]
    return of_ranks(
        [
            Rank(number, [collectives(times, ends, ranks=f"0-{len(asked) - 1}", size=len(asked))])
            for number, times in enumerate(asked)
        ]
    )


def own(ends, *listed):
    held = stretches(ends, *listed)
    return OwnTimes(held, np.array(held.row), KEYS)


def told(job, *held):
    return [
        (item.rank, item.number, item.key, item.excess_ns)
        for item in longer(job, dict(enumerate(held)))
    ]


def test_each_collective_has_its_own_last_rank_and_reason():
    job = job_of([10, 90], [60, 75])
    first = own([10, 90], {DATA: 6, FORWARD: 4}, {DATA: 20, FORWARD: 5, WAITS: 50})
    second = own([60, 75], {DATA: 7, FORWARD: 53}, {DATA: 3, FORWARD: 5, WAITS: 5})
    assert sorted(told(job, first, second)) == [
        (0, 2, DATA, 17.0),
        (0, 2, FORWARD, 0.0),
        (1, 1, DATA, 1.0),
        (1, 1, FORWARD, 49.0),
    ]


def test_the_others_are_the_median_of_the_others():
    job = job_of([10], [60], [12], [30])
    held = [own([at], {FORWARD: at - 2}) for at in (10, 60, 12, 30)]
    assert told(job, *held) == [(1, 1, FORWARD, 58.0 - 10.0)]


def test_stretches_that_one_rank_has_joined_are_added_up_on_the_others():
    """The second rank has no end of a stretch at the first collective."""
    job = job_of([10, 40], [11, 80])
    first = own([10, 40], {DATA: 9}, {DATA: 10, FORWARD: 10})
    second = own([80], {DATA: 21, FORWARD: 50})
    assert sorted(told(job, first, second)) == [(1, 2, DATA, 2.0), (1, 2, FORWARD, 40.0)]


def test_what_joined_stretches_tell_stands_where_the_others_waited_longest():
    """The stretches of both ranks end at the third collective; the wait was at the second."""
    job = job_of([10, 40, 100], [11, 80, 105])
    first, second = own([100], {DATA: 60}), own([105], {DATA: 90})
    assert told(job, first, second) == [(1, 2, DATA, 30.0)]


def test_what_others_do_not_list_is_taken_at_its_most():
    """Ten are listed there, the least of them with 3."""
    job = job_of([10], [60])
    first = own([10], {row: 3 + row for row in range(2, 12)})
    first.keys = np.array([0, 1, *range(2, 12)])
    second = own([60], {DATA: 50, FORWARD: 4})
    second.keys = first.keys
    assert sorted(told(job, first, second)) == [(1, 1, DATA, 45.0), (1, 1, FORWARD, -1.0)]


def test_a_collective_knows_its_step():
    job = job_of([10, 150], [60, 170])
    for rank in job.ranks:
        rank.steps = steps([100, 100])
    job = of_ranks(job.ranks)
    held = [own([10, 150], {DATA: 5}, {DATA: 6}), own([60, 170], {DATA: 50}, {DATA: 16})]
    assert [item.step for item in longer(job, dict(enumerate(held)))] == [1, 2]


def test_a_rank_without_stretches_is_no_reason_to_fail():
    job = job_of([10], [60])
    assert told(job, own([10], {DATA: 5})) == []
    assert [*longer(job, {})] == []
    late = own([10], {DATA: 5})
    late.stretches.end_ns[0] = SAMPLED_FROM_NS  # before the first collective
    assert told(job, late, own([60], {DATA: 50})) == []


def test_time_before_collectives_of_two_groups_counts_once():
    """Rank 1 is late in the second group, too, where rank 0 waits less long."""
    ranks = [
        Rank(number, [collectives([asked], [60]), collectives([after], [65], name="1")])
        for number, (asked, after) in enumerate([(10, 61), (60, 63)])
    ]
    held = own([10, 61], {DATA: 6}, {}), own([63], {DATA: 56})
    found = [*longer(of_ranks(ranks), dict(enumerate(held)))]
    assert [(item.communicator, item.excess_ns, item.is_repeated) for item in found] == [
        ("0", 50.0, False),
        ("1", 56.0, True),
    ]
