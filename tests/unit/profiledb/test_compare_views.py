"""The views `kernels` and `comparison`."""

from __future__ import annotations

import pytest

from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of


def test_kernels_over_streams_and_configurations(db):
    add_profile(db, gpu_profile())
    rows = db.rows(
        "SELECT short_name, context, calls, time_ns, mean_ns, minimum_ns, maximum_ns, bytes,"
        " occupancy FROM kernels WHERE trial_id = 1"
    )
    assert rows == [
        ("gemm", 1, 10, 5000, 500.0, 290, 600, None, pytest.approx(0.5)),
        ("Memcpy HtoD", 1, 10, 2000, 200.0, 190, 210, 40960, None),
        ("relu", 1, 10, 800, 80.0, 70, 90, None, pytest.approx(0.5)),
    ]


def test_two_trials_timer_by_timer(db):
    work = [call("f", 1, 40), call("gone", 1, 7)]
    add_profile(db, profile_of(host(call("main", 1, 10, work)), host(call("f", 1, 2), thread=1)))
    add_profile(db, profile_of(host(call("main", 1, 10, [call("f", 1, 84), call("new", 1, 9)])),
                               number=2))  # fmt: skip
    columns = "timer, exclusive, other_exclusive, difference, ratio, impact"
    there = db.rows(f"SELECT {columns} FROM comparison WHERE trial_id = 1 AND other_trial_id = 2")
    assert there == [
        ("f", 42, 84, 42, 2.0, 42),
        ("new", None, 9, None, None, 9),
        ("gone", 7, None, None, None, -7),
        ("main", 10, 10, 0, 1.0, 0),
    ]
    back = db.rows(f"SELECT {columns} FROM comparison WHERE trial_id = 2 AND other_trial_id = 1")
    assert {row[0]: row[-1] for row in back} == {"f": -42, "new": -9, "gone": 7, "main": 0}
