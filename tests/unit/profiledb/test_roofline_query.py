"""Work of trials: kernels, routines and stated work, however many trials are asked for."""

from __future__ import annotations

from dataclasses import replace

from taupy.profiledb.roofline_query import trial_work
from taupy.profiledb.writer import add_profile
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
