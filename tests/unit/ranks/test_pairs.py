"""Sends are matched with receives; a receive waits for its sender, if it is known to wait."""

from __future__ import annotations

import numpy as np
import pytest

from taupy.ranks.chains import InRoutines, follow
from taupy.ranks.data import Rank
from taupy.ranks.matching import of_ranks, times
from tests.builders import collectives

HOUR = 3600 * 10**9


def between(operation, peer, requested, ended, *, tag="", group="0"):
    """What a rank sends to a peer, or receives from it."""
    way = ">" if operation.endswith("send") else "<"
    name = f"{group}{way}{peer}{tag}"
    kept = collectives(requested, ended, name=name, ranks=str(peer))
    kept.operation = [f"gloo:{operation}"] * len(requested)
    return kept


def job(*ranks, host="here"):
    return of_ranks([Rank(number, [*kept], host=host) for number, kept in enumerate(ranks)])


def told(found):
    return [(one.wait_ns, one.transfer_ns, one.caused_ns, one.last) for one in times(found)]


def test_a_receive_waits_for_its_sender_and_takes_the_rest():
    """Rank 1 waits 40 for the first send and 0 for the second, which waits 5 for it."""
    found = job(
        [between("send", 1, [40, 100], [45, 110])],
        [between("recv", 0, [0, 105], [50, 110])],
    )
    assert [matched.communicator for matched in found.matched] == ["0:0->1"]
    assert told(found) == [(5, 5 + 5, 40, 1), (40, 5 + 5, 5, 1)]


def test_directions_and_tags_are_matched_apart():
    found = job(
        [between("send", 1, [40], [41]), between("recv", 1, [50], [71], tag=":3")],
        [between("recv", 0, [10], [42]), between("send", 0, [70], [71], tag=":3")],
    )
    assert {matched.communicator for matched in found.matched} == {"0:0->1", "0:1->0:3"}
    assert [(wait, caused) for wait, _, caused, _ in told(found)] == [(20, 30), (30, 20)]


def test_what_is_not_waited_for_at_once_is_no_waiting():
    """The ends of isend and irecv are those of a later wait()."""
    late = between("isend", 1, [40], [90])
    assert told(job([late], [between("recv", 0, [0], [50])])) == [(0, 0, 40, 1), (40, 10, 0, 0)]
    assert told(job([late], [between("irecv", 0, [0], [80])])) == [(0, 0, 0, 0), (0, 0, 0, 0)]
    early = between("isend", 1, [0], [90])
    assert told(job([early], [between("recv", 0, [40], [50])])) == [(0, 0, 0, 0), (0, 10, 0, 0)]


def test_a_send_that_ends_before_its_receive_has_waited_for_nobody():
    found = job([between("send", 1, [0], [10])], [between("recv", 0, [40], [50])])
    assert told(found) == [(0, 0, 0, 0), (0, 10, 0, 0)]


def test_what_has_no_counterpart_stays_unknown():
    """The second receive, and what comes from a rank that is not here."""
    found = job(
        [between("send", 1, [40], [45])],
        [between("recv", 0, [0, 60], [50, 90]), between("recv", 7, [100], [200])],
    )
    assert told(found) == [(0, 5, 40, 1), (40, 5, 0, 0)]
    assert found.received_ns == {1: 50}
    assert found.missing == [7]


def test_what_does_not_fit_is_named_and_not_matched():
    """Two milliseconds before it was sent; or of another size."""
    sent, received = between("send", 1, [2_000_000], [2_000_010]), between("recv", 0, [0], [10])
    found = job([sent], [received])
    assert found.apart == ["what was sent and received in 0:0->1 does not fit"]
    assert found.matched == []
    longer = between("recv", 0, [0], [2_000_010])
    longer.bytes[0] = 9
    assert job([sent], [longer]).apart == found.apart


def test_clocks_that_cannot_be_compared_tell_nothing():
    """Of two hosts without a collective of both; with one, they are aligned by it."""
    sent = between("send", 1, [40], [45])
    received = between("recv", 0, [HOUR], [HOUR + 50])
    sides = [Rank(0, [sent], host="a"), Rank(1, [received], host="b")]
    assert of_ranks(sides).matched == []
    sides[0].communicators.append(collectives([60], [70]))
    sides[1].communicators.append(collectives([HOUR + 60], [HOUR + 70]))
    assert [one.caused_ns for one in times(of_ranks(sides))] == [40, 0]


def test_waiting_shorter_than_the_error_of_the_clocks_is_none():
    moments = [at * 10**6 for at in range(0, 2000, 100)]
    error = [HOUR + at + 5000 * (place % 3) for place, at in enumerate(moments)]
    sides = [
        Rank(0, [collectives(moments, moments), between("send", 1, [4000], [9000])], host="a"),
        Rank(1, [collectives(error, error), between("recv", 0, [HOUR + 5000], [HOUR + 20000])],
             host="b"),
    ]  # fmt: skip
    found = of_ranks(sides)
    (pair,) = (matched for matched in found.matched if matched.is_pair)
    assert pair.error_ns == found.clocks[1].residual_ns == 5000
    assert pair.waited.sum() == 0


def test_a_receive_that_never_ended_is_named():
    found = job(
        [between("send", 1, [40], [45]), between("isend", 1, [50], [-1], tag=":1")],
        [between("recv", 0, [0, 60], [50, -1])],
    )
    assert found.never_ended == ["gloo:recv 2 of 0:0->1 never ended on rank 1"]


def test_a_sender_that_waited_for_a_third_rank_is_not_the_late_one():
    """Of a pipeline: rank 0 takes 100, ranks 1 and 2 take 5 each."""
    found = job(
        [between("send", 1, [100], [100])],
        [between("recv", 0, [0], [100]), between("send", 2, [105], [105])],
        [between("recv", 1, [0], [105])],
    )
    follow(found, {1: InRoutines(*(np.array([at], "f8") for at in (0, 100, 100)))})
    assert [one.caused_ns for one in times(found)] == [pytest.approx(200), pytest.approx(5), 0]
