"""Waiting and transfer of ranks, with times worked out by hand; clocks that are put back."""

from __future__ import annotations

import random
from array import array

import pytest

from taupy.ranks import matching as analysis
from taupy.ranks.data import Rank
from taupy.ranks.matching import listed, of_ranks, straggler, times
from tests.builders import SAMPLED_FROM_NS, collectives, steps


def job(*ranks, **more):
    """Ranks from (asked, ended) each."""
    return of_ranks(
        [Rank(number, [collectives(*moments, **more)]) for number, moments in enumerate(ranks)]
    )


def told(sums):
    return [(one.wait_ns, one.transfer_ns, one.caused_ns, one.last) for one in sums]


def test_a_collective_is_waiting_for_the_last_and_transfer():
    """Rank 1 comes 30 later and the transfer takes 10; then rank 0 comes 5 later, and rank 1 leaves
    1 later."""
    ranks = job(([0, 105], [40, 120]), ([30, 100], [40, 121]))
    assert told(times(ranks)) == [(30, 10 + 15, 5, 1), (5, 10 + 15, 30, 1)]
    assert [one.rest_ns for one in times(ranks)] == [0, 1]
    worst = straggler(times(ranks))
    assert worst is not None and worst.rank == 1


def test_time_in_which_several_run_counts_once():
    ranks = job(([0, 10], [60, 70]), ([50, 55], [60, 70]))
    # Rank 0 waits from 0 to 50 for the first, from 10 to 55 for the second.
    assert times(ranks)[0].wait_ns == 55
    assert times(ranks)[0].transfer_ns == 70 - 55
    assert times(ranks)[1].caused_ns == 50 + 45


def test_who_leaves_before_the_last_has_come_has_waited_until_then():
    """As the source of a broadcast."""
    ranks = job(([0], [10]), ([50], [60]))
    assert told(times(ranks)) == [(10, 0, 0, 0), (0, 10, 10, 1)]


def test_rest_is_what_a_rank_is_in_collectives_after_the_last_one():
    """Rank 1 comes at 50 and leaves at 60; rank 0 at 90, but from 80 on it is in another one."""
    ranks = job(([0, 80], [90, 100]), ([50, 80], [60, 100]))
    assert [one.rest_ns for one in times(ranks)] == [20, 0]
    assert told(times(ranks)) == [(50, 10 + 20, 0, 1), (0, 10 + 20, 50, 1)]


def test_where_the_last_rank_never_leaves_there_is_no_rest():
    ranks = job(([0], [90]), ([50], [-1]))
    assert [one.rest_ns for one in times(ranks)] == [0, 0]
    assert times(ranks)[0].transfer_ns == 40


def test_in_a_training_only_steps_count():
    ranks = [Rank(n, [collectives([0, 150], [100, 190])], steps([100, 100])) for n in (0, 1)]
    ranks[1].communicators = [collectives([90, 160], [100, 190])]
    for rank in ranks:
        assert rank.steps is not None
        rank.steps.start_ns = array("q", [SAMPLED_FROM_NS + 100, SAMPLED_FROM_NS + 200])
    found = of_ranks(ranks)
    assert [*found.matched[0].step] == [0, 1]
    assert analysis.numbers_of_steps(found) == [1]
    assert told(times(found))[0] == (10, 30, 0, 0)
    assert told(times(found, 1)) == told(times(found))
    assert told(times(found, 2))[0] == (0, 0, 0, 0)


def test_the_rank_that_was_waited_for_after_the_warm_up_is_found():
    """Rank 0 comes 800 late in the first of five steps, rank 1 comes 50 late in all others."""
    moments = [1000, 1100, 1200, 1300]
    first = collectives([850, *moments], [900, *(at + 60 for at in moments)])
    second = collectives([50, *(at + 50 for at in moments)], [900, *(at + 60 for at in moments)])
    trained = steps([950, 100, 100, 100, 100])
    found = of_ranks([Rank(0, [first], trained), Rank(1, [second], trained)])
    sums, after = analysis.after_warm_up(found)
    assert [one.rank for one in (straggler(times(found)), straggler(sums))] == [0, 1]
    assert (after, sums[1].caused_ns) == (1, 200)
    even = of_ranks([Rank(0, [first], trained), Rank(1, [first], trained)])
    assert analysis.after_warm_up(even)[1] == 0


def test_what_no_other_rank_recorded_is_transfer():
    """A group whose other rank is missing, and the second collective of rank 1, which died there;
    a group of its own is nothing to wait for."""
    second = collectives([30, 60], [50, -1])
    second.ended_ns[1] = SAMPLED_FROM_NS + 95
    pair = collectives([70], [90], name="1", ranks="1-2")
    lone = collectives([110], [150], name="2", ranks="1", size=1)
    found = of_ranks([Rank(0, [collectives([0], [50])]), Rank(1, [second, pair, lone])])
    assert told(times(found)) == [(30, 20, 0, 0), (0, 20 + 35, 30, 1)]
    assert found.missing == [2]


def test_missing_ranks_are_named():
    found = job(([0], [10]), ([5], [10]), ranks="0-3,8", size=5)
    assert found.missing == [2, 3, 8]
    assert listed("0-3,8,...") == [0, 1, 2, 3, 8]


def test_different_code_is_named_and_nothing_is_matched_from_there_on():
    first, second = collectives([0, 10, 20], [1, 11, 21]), collectives([0, 10, 20], [1, 11, 21])
    second.operation[1] = "gloo:barrier"
    found = of_ranks([Rank(0, [first]), Rank(1, [second])])
    assert found.apart == [
        "collective 2 of communicator 0 is gloo:all_reduce on rank 0, gloo:barrier on rank 1"
    ]
    assert found.matched[0].number == [1]


def test_a_rank_that_never_came_is_named():
    found = of_ranks(
        [
            Rank(0, [collectives([0, 20], [10, -1])]),
            Rank(1, [collectives([0, 21], [10, -1])]),
            Rank(2, [collectives([5], [10])]),
        ]
    )
    assert found.never_ended == [
        "gloo:all_reduce 2 of communicator 0 never ended on all ranks: ranks 0, 1 had come, "
        "rank 2 had not"
    ]
    assert times(found)[0].wait_ns == 5 + 1


def test_a_rank_that_was_killed_before_the_last_collective_is_named():
    found = of_ranks(
        [
            Rank(0, [collectives([0, 20], [10, 40])]),
            Rank(1, [collectives([5], [10])]),
        ]
    )
    assert found.behind == ["rank 1 began 1 of the 2 collectives of communicator 0"]
    assert found.matched[0].number == [1]


@pytest.mark.parametrize("drift", [0.0, 50e-6, -20e-6])
def test_clocks_an_hour_apart_are_put_back(drift):
    """Rank 1 comes 4 ms later; its clock is an hour ahead, and may gain 50 us a second."""
    noise = random.Random(1)
    asked = [n * 100_000_000 for n in range(1, 400)]
    ended = [at + 5_000_000 + noise.randrange(20_000) for at in asked]
    middle = sum(ended) // len(ended)

    def by_its_clock(moment):
        return int(moment + 3600e9 + drift * (moment - middle))

    mine = collectives(asked, ended)
    other = collectives(
        [by_its_clock(at + 4_000_000) for at in asked],
        [by_its_clock(at + noise.randrange(20_000)) for at in ended],
    )
    found = of_ranks([Rank(0, [mine]), Rank(1, [other])])
    clock = found.clocks[1]
    assert clock.offset_ns == pytest.approx(3600e9, abs=100_000)
    assert clock.drift == pytest.approx(drift, abs=2e-6)
    assert clock.residual_ns < 20_000
    wait, _, _, _ = told(times(found))[0]
    assert wait == pytest.approx(4_000_000 * len(asked), rel=0.02)
    worst = straggler(times(found))
    assert worst is not None and worst.rank == 1 and worst.last == len(asked)


def test_ranks_of_one_host_are_left_as_they_are():
    assert job(([0, 50], [20, 70]), ([9, 59], [25, 76])).clocks == {}


@pytest.mark.parametrize(("hosts", "differ"), [(("a", "a"), set()), (("a", "b"), {1})])
def test_ranks_of_one_host_may_leave_one_after_the_other(hosts, differ):
    """There are more of them than processors."""
    ends = [10_000_000, 30_000_000, 50_000_000]
    ranks = [
        Rank(number, [collectives(ends, [end + 2_000_000 * number for end in ends])], host=host)
        for number, host in enumerate(hosts)
    ]
    assert of_ranks(ranks).clocks.keys() == differ


def test_one_collective_that_fails_does_not_make_clocks_differ():
    """A third rank was killed; these two noticed it 6 ms apart."""
    assert job(([0], [1_000_000_000]), ([8_000_000], [1_006_000_000])).clocks == {}


def test_a_clock_is_found_through_another_rank():
    """Ranks 0 and 2 share no communicator."""
    hour = 3600 * 10**9
    pair = {"name": "a"}, {"name": "b"}
    found = of_ranks(
        [
            Rank(0, [collectives([0, 100], [10, 110], **pair[0])]),
            Rank(1, [collectives([0, 100], [10, 110], **pair[0]),
                     collectives([20, 120], [30, 130], **pair[1])]),
            Rank(2, [collectives([hour + 25, hour + 125], [hour + 30, hour + 130], **pair[1])]),
        ]
    )  # fmt: skip
    assert found.clocks.keys() == {2}
    assert found.clocks[2].offset_ns == hour
    assert [one.caused_ns for one in times(found)] == [0, 0, 10]


@pytest.mark.slow
def test_collectives_of_two_hundred_ranks_are_matched():
    ranks = [
        Rank(n, [collectives(range(n % 7, 20_000, 10), range(10, 20_010, 10), size=1000)])
        for n in range(200)
    ]
    sums = times(of_ranks(ranks))
    assert {one.last for one in sums if one.rank % 7 != 6} == {0}
    assert sum(one.last for one in sums) == 2000
