"""A rank that is late because another kept it waiting elsewhere is not the one waited for."""

from __future__ import annotations

import numpy as np
import pytest

from taupy.ranks.chains import InRoutines, follow
from taupy.ranks.data import Rank
from taupy.ranks.matching import aligned_moments, of_ranks, times
from tests.builders import SAMPLED_FROM_NS, collectives


def caused(*communicators, threads):
    """The waiting that each rank caused, in all and elsewhere.

    Args:
        communicators: rank -> (requested, ended) of each.
        threads: rank -> stretches, consecutive: end, and time in routines that communicate.
    """
    held: dict[int, list] = {}
    for name, members in enumerate(communicators):
        ranks = ",".join(map(str, members))
        for rank, moments in members.items():
            kept = collectives(*moments, name=str(name), ranks=ranks, size=len(members))
            held.setdefault(rank, []).append(kept)
    job = of_ranks([Rank(rank, kept) for rank, kept in sorted(held.items())])
    known = {}
    for rank, listed in threads.items():
        ends = [0, *(end for end, _ in listed)]
        moments = aligned_moments(job, rank, [SAMPLED_FROM_NS + end for end in ends])
        known[rank] = InRoutines(
            moments[:-1], moments[1:], np.array([time for _, time in listed], "f8")
        )
    follow(job, known)
    return {one.rank: (one.caused_ns, one.elsewhere_ns) for one in times(job)}


BETWEEN = {1: ([10], [100]), 2: ([100], [100])}
"""Rank 1 waits 90 for rank 2, which rank 0 never meets."""
WITH_RANK_0 = {0: ([20], [115]), 1: ([115], [115])}
"""Rank 1 needs 15 more, and rank 0 waits 95 for it."""


def test_what_the_last_one_waited_elsewhere_belongs_to_the_third():
    """Rank 1 took 25 itself, 5 more than rank 0."""
    threads = {1: [(10, 0), (100, 90)]}
    assert caused(BETWEEN, WITH_RANK_0, threads=threads) == {
        0: (0, 0),
        1: (pytest.approx(5), 0),
        2: (pytest.approx(90 + 90), pytest.approx(90)),
    }


def test_what_ran_while_the_last_one_computed_is_its_own_lateness():
    """Of the 90, its thread was in routines that communicate for 30, or nothing is known."""
    for threads, of_third in (({1: [(10, 0), (100, 30)]}, 30), ({}, 0), ({1: [(100, 90)]}, 90)):
        found = caused(BETWEEN, WITH_RANK_0, threads=threads)
        assert found[1] == (pytest.approx(95 - of_third), 0)
        assert found[2] == (pytest.approx(90 + of_third), pytest.approx(of_third))


def test_who_waited_as_long_elsewhere_is_kept_waiting_by_the_last_one():
    """Both ranks waited for others until 60; then rank 1 took 40 longer."""
    found = caused(
        {0: ([10], [60]), 2: ([60], [60])},
        {1: ([10], [60]), 3: ([60], [60])},
        {0: ([65], [105]), 1: ([105], [105])},
        threads={0: [(60, 50)], 1: [(60, 50)]},
    )
    assert found == {0: (0, 0), 1: (40, 0), 2: (50, 0), 3: (50, 0)}


def test_what_was_waited_before_both_met_does_not_count():
    found = caused(
        BETWEEN,
        {0: ([20, 120], [110, 165]), 1: ([110, 165], [110, 165])},
        threads={1: [(10, 0), (100, 90)]},
    )
    assert found[1] == (pytest.approx(45), 0)


def test_a_chain_is_followed_to_its_beginning():
    """Rank 3 keeps rank 2 waiting for 100, rank 2 rank 1, and rank 1 rank 0; ranks 2 and 1 take
    1 more each."""
    found = caused(
        {2: ([0], [100]), 3: ([100], [100])},
        {1: ([0], [101]), 2: ([101], [101])},
        {0: ([0], [102]), 1: ([102], [102])},
        threads={1: [(101, 101)], 2: [(100, 100)]},
    )
    assert found == {
        0: (0, 0),
        1: (pytest.approx(1), 0),
        2: (pytest.approx(1 + 1), pytest.approx(1)),
        3: (pytest.approx(300), pytest.approx(200)),
    }


def test_ranks_that_wait_for_each_other_in_turn_come_to_an_end():
    """A rank is never told to wait for itself."""
    found = caused(
        {0: ([100, 110], [100, 210]), 1: ([0, 210], [100, 210])},
        {1: ([105], [105]), 2: ([0], [105])},
        {2: ([106, 300], [106, 400]), 0: ([101, 400], [106, 400])},
        threads={
            0: [(100, 0), (110, 5), (210, 100), (400, 0)],
            1: [(100, 100), (105, 0), (210, 0)],
            2: [(105, 105), (300, 1)],
        },
    )
    assert sum(both for both, _ in found.values()) == 100 + 100 + 105 + 5 + 100
    assert all(0 <= elsewhere <= both for both, elsewhere in found.values())
