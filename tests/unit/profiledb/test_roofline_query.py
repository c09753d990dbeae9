"""Work of trials: kernels, routines and stated work, however many trials are asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taupy.errors import MissingMetric
from taupy.model.profile import ROOT_TIMER, TIME, Metric
from taupy.profiledb.roofline_query import rank_work, trial_work
from taupy.profiledb.writer import add_profile
from taupy.roofline.points import points
from tests.builders import call, event, host, profile_of
from tests.unit.roofline.build import Kernel, Partly, cpu_trial, gpu_trial

GEMM = Kernel("gemm", 10, 5000, {"flop_fp32": 4e6, "bytes_dram": 1e6})


def test_many_trials_are_one_statement_of_each_kind(db):
    for number in range(1, 5):
        add_profile(db, gpu_trial(replace(GEMM, calls=number), number=number))
    add_profile(db, cpu_trial(5))
    statements = []
    db.connection.set_trace_callback(statements.append)
    works = trial_work(db, db.trials())
    db.connection.set_trace_callback(None)
    for table in ("FROM call AS", "FROM timer_call AS", "FROM user_event_value AS"):
        assert sum(table in text and "DISTINCT" not in text for text in statements) <= 1
    assert [[kernel.calls for kernel in work.kernels] for work in works] == [[1], [2], [3], [4], []]
    assert works == [trial_work(db, [trial])[0] for trial in db.trials()]


def test_a_kernel_of_which_nothing_was_measured_was_launched_all_the_same(db):
    """Its trial has metrics, but this kernel none of them, nor a time."""
    add_profile(db, gpu_trial(GEMM, Partly("relu", 3, 0)))
    db.connection.execute(
        "DELETE FROM interval_value WHERE callpath_id IN (SELECT callpath.id FROM callpath JOIN"
        " timer ON timer.id = timer_id WHERE timer.short_name = 'relu')"
    )
    (work,) = trial_work(db, db.trials())
    (relu,) = (kernel for kernel in work.kernels if work.timers[kernel.timer].short == "relu")
    assert (relu.calls, relu.values) == (3, {})
    assert relu.time_ns != relu.time_ns


def test_the_program_takes_as_long_as_its_longest_thread(db):
    threads = (host(call("main", 1, 70)), host(call("worker", 1, 90), thread=1))
    add_profile(db, profile_of(*threads))
    (work,) = trial_work(db, db.trials())
    assert work.wall_ns == 90


def test_stated_work_is_that_of_the_routine_that_stated_it(db):
    """flop in bytes, or a name that is no metric, is no work."""
    events = [event("flop", [2.0, 4.0], "flop"), event("bytes_dram", [8.0], "B")]
    events += [event("flop_fp64", [1.0], "B"), event("loss", [1.0], "flop")]
    inner = call("step", 1, 5, events=events)
    add_profile(db, profile_of(host(call("main", 1, 1, [inner]))))
    (work,) = trial_work(db, db.trials())
    names = {one.metric: [work.timers[owner].short for owner in one.owners] for one in work.noted}
    assert names == {"flop": ["step", "main"], "bytes_dram": ["step", "main"]}
    assert {one.metric: one.value for one in work.noted} == {"flop": 6.0, "bytes_dram": 8.0}


def test_the_work_of_a_rank_is_that_of_its_processes(db):
    """The worker process 2 belongs to rank 1; rank 0 counted nothing."""
    flop = Metric("flop", "flop")
    rank, worker = (call(ROOT_TIMER, 1, {"time": time, "flop": 500}) for time in (90, 40))
    profile = profile_of(
        host(call(ROOT_TIMER, 1, {"time": 70})), host(rank, 1), host(worker, 2),
        metrics=[TIME, flop],
    )  # fmt: skip
    profile.node_metadata = {
        0: {"Rank": "0", "Process ID": "10"},
        1: {"Rank": "1", "Process ID": "11"},
        2: {"Process ID": "12", "Parent Process ID": "11"},
    }
    add_profile(db, profile)
    idle, busy = rank_work(db, db.trials())
    assert (idle.rank, busy.rank, idle.wall_ns, busy.wall_ns) == (0, 1, 90, 90)
    (point,) = points(busy, "rank")
    assert (point.name, point.of, point.total_flop) == ("rank 1", "rank", 1000)
    assert (point.run_time, point.share) == (90e-9, 1)
    with pytest.raises(MissingMetric):
        points(idle, "rank")
    add_profile(db, profile_of(host(call(ROOT_TIMER, 1, 60)), host(call(ROOT_TIMER, 1, 30), 1),
                               number=2))  # fmt: skip
    _, timing = rank_work(db, [db.trial(2)])
    (timed,) = points(busy, "rank", timing=timing)
    assert (timed.total_flop, timed.share) == (1000, 1)
    assert timed.run_time == pytest.approx(60e-9)  # scaled from one process to two
