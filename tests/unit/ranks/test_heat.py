"""The map of ranks and steps on a page."""

from __future__ import annotations

from array import array

import pytest

from taupy.ranks import heat
from taupy.ranks.data import Rank
from taupy.ranks.heat import heat_map
from taupy.ranks.matching import of_ranks, times, waits_by_step
from taupy.report.heat import NOT_KNOWN
from tests.builders import collectives, steps

US = 1000


def job_of(*asked_us, took_us=100):
    """Ranks that came to the one collective of each step so long after the step began."""
    ranks = []
    ends = [took_us * US * (step + 1) for step in range(len(asked_us[0]))]
    for number, moments in enumerate(asked_us):
        asked = [
            end - took_us * US + moment * US for end, moment in zip(ends, moments, strict=True)
        ]
        made = collectives(asked, ends, ranks=f"0-{len(asked_us) - 1}", size=len(asked_us))
        ranks.append(Rank(number, [made], steps([took_us * US] * len(moments))))
    return of_ranks(ranks)


def test_each_rank_has_its_time_and_waiting_in_each_step():
    found = heat_map(job_of([10, 20, 30], [70, 20, 90]))
    assert (found.ranks, found.first) == ([0, 1], [1, 2, 3, 4])
    assert [*found.cells["time"]] == [100] * 6
    assert [*found.cells["wait"]] == [60, 0, 60, 0, 0, 0]
    assert [*found.cells["own"]] == [40, 100, 40, 100, 100, 100]


def test_waiting_by_step_is_that_of_each_step_alone():
    job = job_of([10, 20, 30], [70, 20, 90], [5, 99, 1])
    waited = waits_by_step(job, [1, 2, 3])
    for step in (1, 2, 3):
        alone = {one.rank: one.wait_ns for one in times(job, step)}
        assert {rank: waits[step - 1] for rank, waits in waited.items()} == alone
    assert waits_by_step(job, [2, 3])[0].tolist() == waited[0].tolist()[1:]


@pytest.mark.parametrize(("most", "first"), [(4, [1, 3, 4]), (2, [1, 4])])
def test_where_steps_have_no_room_the_longest_of_several_is_shown(monkeypatch, most, first):
    monkeypatch.setattr(heat, "MOST", most)
    found = heat_map(job_of([10, 20, 30], [70, 20, 90]))
    assert found.first == first
    waits = [60, 60, 0, 0] if most == 4 else [60, 0]
    assert [*found.cells["wait"]] == waits


def test_a_step_that_a_rank_did_not_do_is_not_known():
    job = job_of([10, 20], [70, 20])
    kept = job.ranks[1].steps
    for name in ("number", "count", "start_ns", "time_ns", "longest_ns", "samples"):
        setattr(kept, name, array("q", getattr(kept, name)[:1]))
    assert [*heat_map(job).cells["time"]] == [100, 100, 100, NOT_KNOWN]
    assert [*heat_map(job).cells["wait"]][3] == NOT_KNOWN


def test_one_rank_is_no_map():
    assert heat_map(of_ranks([Rank(0, [], steps([1, 2]))])).ranks == []
    assert heat_map(of_ranks([])).ranks == []
