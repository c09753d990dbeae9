"""What nodes say of their ranks."""

from __future__ import annotations

from taupy.model import job


def facts(rank, ranks=4, attempt=1, **more):
    return {"Rank": str(rank), "Ranks": str(ranks), "Attempt": str(attempt), **more}


def test_missing_ranks_are_named_by_attempt():
    nodes = {
        0: facts(0),
        4: facts(0),  # a process that rank 0 has started
        3: facts(3),
        job.node_of(0, 2): facts(0, 2, 2),
        job.node_of(1, 2): facts(1, 2, 2),
        job.node_of(1, 3): facts(1, 2, 3),
    }
    assert job.missing(nodes) == {1: [1, 2], 3: [0]}
    assert job.lines_of(job.missing(nodes)) == [
        "ranks 1-2 are missing in attempt 1",
        "rank 0 is missing in attempt 3",
    ]
    assert job.lines_of({1: [1, 2, 5]}) == ["ranks 1-2, 5 are missing"]
    assert job.missing({0: {}, 1: {"Rank": "x", "Ranks": "9"}}) == {}


def test_a_rank_is_the_process_that_the_launcher_started():
    node = job.node_of(3, 2)
    assert job.rank_of(node, facts(3, 4, 2)) == (3, 2)
    assert job.rank_of(node + 4, facts(3, 4, 2)) == (node + 4, 2)
    assert job.rank_of(7, {}) == (7, 1)


def test_the_last_attempt_determines_how_a_job_ended():
    ends = {"Exit Code": "0"}
    nodes = {0: facts(0, **ends), 1: facts(1, **{"Exit Code": "-9"})}
    assert job.exit_code(nodes) == -9
    assert job.exit_code({**nodes, job.node_of(0, 2): facts(0, attempt=2, **ends)}) == 0
    assert job.exit_code({0: facts(0)}) is None
