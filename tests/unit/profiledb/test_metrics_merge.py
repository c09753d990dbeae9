"""Counters of a second run join the trial of the first, call path by call path."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import isnan, nan

import pytest

from taupy.model.gpu import Launch
from taupy.model.profile import (
    ROOT_TIMER,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.streams import Owner, StreamBuilder
from taupy.profiledb.metrics_merge import RunsDiffer, merge_metrics
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import steps

WAITS = [Timer("wait", "threading.py", 1), Timer("park", "threading.py", 2)]
NAMES = (ROOT_TIMER, "main", "step", "rare", "leaf", "wait", "park")
TIMERS = [Timer(ROOT_TIMER, groups=("TAUPY",)), *(Timer(name) for name in NAMES[1:5]), *WAITS]


def tree(paths, **metrics):
    """A tree from {"main/step": calls}; metrics: {"main/step": exclusive}, of which inclusive
    values are sums; a path that a metric does not name has 0, one that it names None none."""
    names = ["", *paths]
    parent = [names.index(path.rpartition("/")[0]) if path else -1 for path in names]
    result = CallTree(
        timer=array("q", [NAMES.index(path.rpartition("/")[2]) if path else 0 for path in names]),
        parent=array("q", parent),
        calls=array("q", [1, *paths.values()]),
        subroutines=array("q", [0] * len(names)),
    )
    for row in range(1, len(names)):
        result.subroutines[parent[row]] += result.calls[row]
    for metric, given in metrics.items():
        own = [given.get(path, 0) for path in names]
        sums = [value or 0 for value in own]
        for row in range(len(names) - 1, 0, -1):
            sums[parent[row]] += sums[row]
        kind = "d" if None in own else "q"
        fill = [nan if value is None else value for value in own]
        whole = [nan if own[row] is None else value for row, value in enumerate(sums)]
        result.inclusive[metric] = array(kind, whole)
        result.exclusive[metric] = array(kind, fill)
    return result


def profile(*threads, uuid, metrics=("time",)):
    return Profile(
        uuid=uuid,
        application="app",
        experiment="default",
        started_at=1e9,
        duration_ns=1000,
        timers=TIMERS,
        threads=[ThreadProfile(thread, tree) for thread, tree in threads],
        metrics=[Metric(name, {"time": "ns"}.get(name, name)) for name in metrics],
    )


MAIN = Thread(0, 0, 0, name="MainThread", native_id=1)
PATHS = {"main": 1, "main/step": 10, "main/step/leaf": 20}
TIME = {"": 5, "main": 10, "main/step": 50, "main/step/leaf": 100}
FLOP = {"": 0, "main": 1, "main/step": 20, "main/step/leaf": 3000}


def timed(*threads):
    return profile(*(threads or [(MAIN, tree(PATHS, time=TIME))]), uuid="first")


def counted(*threads):
    chosen = threads or [(MAIN, tree(PATHS, time=TIME, flop=FLOP))]
    return profile(*chosen, uuid="second", metrics=("time", "flop"))


def column(db, trial, metric="flop", thread=0):
    """Call path -> (inclusive, exclusive) of one thread."""
    stored = read_profile(db, trial)
    one = stored.threads[thread].tree
    paths = []
    for row in range(len(one)):
        name = "" if row == 0 else stored.timers[one.timer[row]].name
        above = paths[one.parent[row]] if row else ""
        paths.append(f"{above}/{name}" if above else name)
    values = zip(one.inclusive[metric], one.exclusive[metric], strict=True)
    return dict(zip(paths, values, strict=True))


def test_counters_stand_beside_the_times_of_the_first_run(db):
    trial = add_profile(db, timed())
    slower = {path: value * 3 for path, value in TIME.items()}
    match = merge_metrics(db, trial, counted((MAIN, tree(PATHS, time=slower, flop=FLOP))))
    assert column(db, trial) == {
        "": (3021, 0),
        "main": (3021, 1),
        "main/step": (3020, 20),
        "main/step/leaf": (3000, 3000),
    }
    assert column(db, trial, "time")["main/step/leaf"] == (100, 100)
    assert (match.matched, match.callpaths, match.share) == (4, 4, 1.0)
    assert [metric.unit for metric in read_profile(db, trial).metrics] == ["flop", "ns"]


def test_the_flat_profile_has_them_too(db):
    trial = add_profile(db, timed())
    merge_metrics(db, trial, counted())
    rows = db.rows(
        "SELECT timer.name, inclusive, exclusive FROM timer_value JOIN timer ON timer.id = timer_id"
        " JOIN metric ON metric.id = metric_id WHERE metric.name = 'flop' AND timer.name = 'step'"
    )
    assert list(rows) == [("step", 3020, 20)]


def test_what_only_the_second_run_ran_counts_as_its_callers(db):
    trial = add_profile(db, timed())
    paths = {**PATHS, "main/step/rare": 1, "main/step/rare/leaf": 1}
    flop = {**FLOP, "main/step/rare": 7, "main/step/rare/leaf": 9}
    match = merge_metrics(db, trial, counted((MAIN, tree(paths, time=TIME, flop=flop))))
    assert column(db, trial)["main/step"] == (3036, 36)
    assert column(db, trial)[""][0] == 3037
    assert (match.matched, match.callpaths) == (4, 6)


def test_what_only_the_first_run_ran_has_no_counters(db):
    paths, time = {**PATHS, "main/rare": 1}, {**TIME, "main/rare": 2}
    trial = add_profile(db, timed((MAIN, tree(paths, time=time))))
    merge_metrics(db, trial, counted())
    assert all(map(isnan, column(db, trial)["main/rare"]))
    assert column(db, trial)["main"] == (3021, 1)


def test_values_at_regions_only_stay_at_them(db):
    trial = add_profile(db, timed())
    flop = {"": 10, "main": None, "main/step": 500, "main/step/leaf": None}
    merge_metrics(db, trial, counted((MAIN, tree(PATHS, time=TIME, flop=flop))))
    found = column(db, trial)
    assert found["main/step"] == (500, 500) and found[""] == (510, 10)
    assert isnan(found["main"][0]) and isnan(found["main/step/leaf"][0])


@pytest.mark.parametrize(
    ("calls", "joins"), [(100, True), (95, True), (50, False), (1000, False), (1, False)]
)
def test_runs_of_different_length_are_refused(db, calls, joins):
    paths = {"main": 1, "main/step": 100, "main/step/leaf": 100}
    trial = add_profile(db, timed((MAIN, tree(paths, time=TIME))))
    other = {"main": 1, "main/step": calls, "main/step/leaf": calls}
    second = counted((MAIN, tree(other, time=TIME, flop=FLOP)))
    if joins:
        assert merge_metrics(db, trial, second).share > 0.9
        return
    with pytest.raises(RunsDiffer, match=r"only \d+\.\d % of the time"):
        merge_metrics(db, trial, second)
    assert db.rows("SELECT * FROM metric WHERE name = 'flop'") == []


def test_another_program_is_refused_and_the_share_is_reported(db):
    trial = add_profile(db, timed())
    other = tree({"rare": 1, "rare/leaf": 1}, time={"": 1, "rare": 99}, flop={"rare": 5})
    with pytest.raises(RunsDiffer, match=r"\(1 of 3 call paths match; 90 % are needed\)"):
        merge_metrics(db, trial, counted((MAIN, other)))


def test_how_often_a_thread_waited_is_no_difference(db):
    time = {"main": 10, "main/wait": 90}
    trial = add_profile(db, timed((MAIN, tree({"main": 1, "main/wait": 1}, time=time))))
    time = {"main": 10, "main/park": 90}
    parked = tree({"main": 1, "main/park": 7}, time=time, flop={"main": 3})
    assert merge_metrics(db, trial, counted((MAIN, parked))).share == 1
    assert column(db, trial)["main"] == (3, 3)


def test_steps_have_the_counters_of_the_same_steps(db):
    """The second run has a fourth step, and other times, which are left alone."""
    first, second = timed(), counted()
    first.threads[0].steps = [steps([80, 40, 40])]
    second.threads[0].steps = [steps([90, 50, 50, 70])]
    second.threads[0].steps[0].metrics["flop"] = array("d", [7, nan, 9, 1])
    trial = add_profile(db, first)
    merge_metrics(db, trial, second)
    (joined,) = read_profile(db, trial).threads[0].steps
    assert [*joined.metrics["cpu_time"]] == [20, 10, 10]
    assert [joined.metrics["flop"][at] for at in (0, 2)] == [7, 9]
    assert isnan(joined.metrics["flop"][1])


def test_a_metric_is_not_added_twice(db):
    trial = add_profile(db, timed())
    merge_metrics(db, trial, counted())
    with pytest.raises(RunsDiffer, match="has flop already"):
        merge_metrics(db, trial, counted())


def test_further_metrics_of_further_runs_join_too(db):
    trial = add_profile(db, timed())
    merge_metrics(db, trial, counted())
    third = profile(
        (MAIN, tree(PATHS, time=TIME, cycles=FLOP)), uuid="third", metrics=("time", "cycles")
    )
    merge_metrics(db, trial, third)
    assert column(db, trial, "cycles") == column(db, trial, "flop")


def test_threads_are_joined_by_name_whatever_their_order(db):
    one, two = Thread(0, 0, 1, name="load"), Thread(0, 0, 2, name="work")
    small, large = tree({"main": 1}, time={"main": 9}), tree({"step": 1}, time={"step": 9})
    trial = add_profile(db, timed((MAIN, tree(PATHS, time=TIME)), (one, small), (two, large)))
    loads = tree({"main": 1}, time={"main": 9}, flop={"main": 1})
    works = tree({"step": 1}, time={"step": 9}, flop={"step": 2})
    merge_metrics(
        db,
        trial,
        counted(
            (MAIN, tree(PATHS, time=TIME, flop=FLOP)),
            (replace(one, name="work"), works),
            (replace(two, name="load"), loads),
        ),
    )
    assert column(db, trial, thread=1)["main"] == (1, 1)
    assert column(db, trial, thread=2)["step"] == (2, 2)


def test_native_threads_come_as_they_are(db):
    trial = add_profile(db, timed())
    native = Thread(0, 0, 0, name="native blas")
    row = tree({"main": 0, "main/step": 0}, flop={"": 4, "main/step": 600})
    main = (replace(MAIN, thread=1), tree(PATHS, time=TIME, flop=FLOP))
    match = merge_metrics(db, trial, counted((native, row), main))
    assert column(db, trial, thread=1)["main/step"] == (600, 600)
    assert read_profile(db, trial).threads[1].thread.name == "native blas"
    assert match.threads == 1 and match.alone == ()


def test_a_rank_joins_its_own_node_only(db):
    other = replace(MAIN, node=1)
    both = timed((MAIN, tree(PATHS, time=TIME)), (other, tree({"rare": 5}, time={"rare": 900})))
    trial = add_profile(db, both)
    assert merge_metrics(db, trial, counted()).share == 1.0
    second = counted((other, tree({"rare": 5}, time={"rare": 900}, flop={"rare": 3})))
    assert merge_metrics(db, trial, second).share == 1.0
    assert column(db, trial, thread=1)["rare"] == (3, 3)


def test_a_run_that_counted_nothing_is_refused(db):
    trial = add_profile(db, timed())
    second = profile((MAIN, tree(PATHS, time=TIME)), uuid="second")
    with pytest.raises(RunsDiffer, match="no counters"):
        merge_metrics(db, trial, second)


def test_how_it_was_counted_comes_along(db):
    trial = add_profile(db, timed())
    second = counted()
    second.metadata = {
        "taupy.counters.read": "every routine, by rdpmc",
        "taupy.health.counters_lost": "1 ms",
        "Hostname": "elsewhere",
    }
    merge_metrics(db, trial, second)
    facts = read_profile(db, trial).metadata
    assert facts["taupy.counters.read"] == "every routine, by rdpmc"
    assert facts["taupy.health.counters_lost"] == "1 ms"
    assert "4 of 4 call paths" in facts["taupy.counters.joined"]
    assert "Hostname" not in facts


def gpu_run(uuid, api, launches, metrics=("time",), host_time=100):
    """A program whose `step` launches kernels: (stream, kernel, launches, values)."""
    timers = [*TIMERS, Timer("cudaLaunchKernel", groups=("CUDA_API",))]
    paths = {"main": 1, "main/step": 10, **({"main/step/rare": 20} if api else {})}
    host = tree(paths, time={"": 1, "main": 5, "main/step": 40, "main/step/rare": host_time})
    if api:
        host.timer[3] = len(TIMERS)
    builder = StreamBuilder(timers)
    for stream, kernel, count, values in launches:
        thread = Thread(0, 1, stream, "stream", f"stream {stream}")
        launch = Launch(
            count=count,
            time_ns=10 * count,
            minimum_ns=10,
            maximum_ns=10,
            sum_squares_ns2=100.0 * count,
        )
        timer = Timer(f"{kernel}(float*)", groups=("GPU_KERNEL",), short=kernel)
        row = builder.add(thread, Owner(host, len(host) - 1), timer, launch)
        if values:
            builder.add_values(thread, row, values)
    threads = [ThreadProfile(MAIN, host), *builder.threads()]
    units = [Metric(name, {"time": "ns"}.get(name, name)) for name in metrics]
    return Profile(uuid, "app", "default", 1e9, 1000, timers, threads, units)


def stream_values(db, trial, metric="gld"):
    """(stream, kernel) -> exclusive value."""
    profile = read_profile(db, trial)
    return {
        (thread.thread.thread, profile.timers[timer].short): thread.tree.exclusive[metric][row]
        for thread in profile.threads
        if thread.thread.kind == "stream" and metric in thread.tree.exclusive
        for row, timer in enumerate(thread.tree.timer)
        if "GPU_KERNEL" in profile.timers[timer].groups
    }


def test_kernels_are_found_by_the_routines_that_launched_them(db):
    # The timed run has streams and calls of CUDA's API, on which most of the time passes.
    timed_run = gpu_run("first", True, [(0, "gemm", 8, None), (1, "relu", 4, None)], host_time=5000)
    trial = add_profile(db, timed_run)
    counts = [(0, "gemm", 8, {"gld": 30}), (0, "relu", 4, {"gld": 7})]
    match = merge_metrics(db, trial, gpu_run("second", False, counts, ("time", "gld")))
    assert stream_values(db, trial) == {(0, "gemm"): 30, (1, "relu"): 7}
    assert match.metrics == ("gld",) and match.kernels == () and match.share == 1.0
    profile = read_profile(db, trial)
    (root,) = [
        thread.tree.inclusive["gld"][0] for thread in profile.threads if thread.thread.thread == 1
    ]
    assert root == 7


def test_a_kernel_of_several_streams_is_shared_out_by_its_launches(db):
    trial = add_profile(db, gpu_run("first", True, [(0, "gemm", 6, None), (1, "gemm", 2, None)]))
    counts = [(0, "gemm", 8, {"gld": 40})]
    merge_metrics(db, trial, gpu_run("second", False, counts, ("time", "gld")))
    assert stream_values(db, trial) == {(0, "gemm"): 30, (1, "gemm"): 10}


def test_kernels_that_the_trial_has_not_are_named(db):
    trial = add_profile(db, gpu_run("first", True, [(0, "gemm", 8, None)]))
    counts = [(0, "gemm", 8, {"gld": 30}), (0, "conv", 8, {"gld": 9})]
    match = merge_metrics(db, trial, gpu_run("second", False, counts, ("time", "gld")))
    assert match.kernels == ("conv",) and "conv" in str(match)
    assert stream_values(db, trial) == {(0, "gemm"): 30}
