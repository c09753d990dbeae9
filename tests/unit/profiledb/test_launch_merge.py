"""Counters of single launches find the call paths that launched them."""

from __future__ import annotations

from array import array
from math import isnan

import pytest

from taupy.model.gpu import Activity, Configuration, Launch
from taupy.model.launch_counts import LaunchCounts
from taupy.model.profile import (
    ROOT_TIMER,
    TIME,
    CallTree,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.streams import Owner, StreamBuilder
from taupy.profiledb.launch_merge import merge_launches
from taupy.profiledb.metrics_merge import RunsDiffer
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile

GEMM = Timer("void gemm<float>(float*, int)", groups=("GPU_KERNEL",), short="gemm")
RELU = Timer("relu(float*)", groups=("GPU_KERNEL",), short="relu")
STREAM = Thread(0, 1, 0, "stream", "stream 7", 7)
BLOCK = (128, 1, 1)
UNITS = {"gld": "inst", "counted_launches": "launch"}


def host():
    """root -> forward, backward"""
    columns = [array("q", values) for values in ((0, 1, 2), (-1, 0, 0), (1, 1, 1), (2, 0, 0))]
    tree = CallTree(*columns)
    tree.inclusive["time"], tree.exclusive["time"] = array("q", [9, 4, 4]), array("q", [1, 4, 4])
    return tree


def trial(db, launches, traced=False):
    """launches: (call path's row, kernel, grid) in their order."""
    timers = [Timer(ROOT_TIMER, groups=("TAUPY",)), Timer("forward"), Timer("backward")]
    tree = host()
    builder = StreamBuilder(timers)
    activities = []
    for start, (row, kernel, grid) in enumerate(launches):
        launch = Launch(count=1, time_ns=10, configuration=Configuration((grid, 1, 1), BLOCK))
        at = builder.add(STREAM, Owner(tree, row), kernel, launch)
        if traced:
            activities.append(Activity(at, "kernel", 100 * start, 100 * start + 10))
    (stream,) = builder.threads()
    stream.activities = activities
    threads = [ThreadProfile(Thread(0, 0, 0, name="MainThread"), tree), stream]
    return add_profile(db, Profile("u", "app", "default", 1e9, 1000, timers, threads, [TIME]))


def count(kernel, gld, grid=8, **more):
    values = {} if gld is None else {"gld": gld, "counted_launches": 1}
    node, device = more.get("node", 0), more.get("device", 0)
    name = more.get("name", kernel.name)
    return LaunchCounts(name, kernel.short, node, device, (grid, 1, 1), BLOCK, values)


def column(db, metric="gld"):
    """Call path -> (inclusive, exclusive) on the stream."""
    profile = read_profile(db, 1)
    (one,) = [thread for thread in profile.threads if thread.thread.kind == "stream"]
    paths, found = [], {}
    for row in range(len(one.tree)):
        timer = profile.timers[one.tree.timer[row]]
        above = paths[one.tree.parent[row]] if row else ""
        paths.append("" if row == 0 else f"{above}/{timer.short or timer.name}".strip("/"))
        found[paths[-1]] = (one.tree.inclusive[metric][row], one.tree.exclusive[metric][row])
    return found


def test_a_kernel_of_one_call_path_gets_all_of_it(db):
    number = trial(db, [(1, GEMM, 8), (2, RELU, 4), (2, RELU, 4)])
    counts = [count(GEMM, 100), count(RELU, 3, 4), count(RELU, 4, 4)]
    match = merge_launches(db, number, counts, UNITS)
    found = column(db)
    assert found["forward/gemm"] == (100, 100) and found["backward/relu"] == (7, 7)
    assert found["forward"] == (100, 0) and found[""] == (107, 0)
    assert column(db, "counted_launches")["backward/relu"] == (2, 2)
    assert (match.launches, match.matched, match.by_place) == (3, 3, 3)
    assert match.metrics == ("counted_launches", "gld") and match.notes() == []
    units = {metric.name: metric.unit for metric in read_profile(db, 1).metrics}
    assert units["gld"] == "inst"


def test_launch_order_distinguishes_call_paths_of_one_configuration(db):
    number = trial(db, [(1, GEMM, 8), (2, GEMM, 8), (1, GEMM, 8), (1, RELU, 8)], traced=True)
    counts = [count(GEMM, 1), count(GEMM, 10), count(RELU, 5), count(GEMM, 100)]
    match = merge_launches(db, number, counts, UNITS)
    found = column(db)
    assert found["forward/gemm"] == (101, 101) and found["backward/gemm"] == (10, 10)
    assert match.by_order == 4 and match.notes() == []


def test_a_launch_that_failed_takes_its_place_in_the_order(db):
    number = trial(db, [(1, GEMM, 8), (2, GEMM, 8)], traced=True)
    merge_launches(db, number, [count(GEMM, None), count(GEMM, 10)], UNITS)
    found = column(db)
    assert found["backward/gemm"] == (10, 10)
    assert all(map(isnan, found["forward/gemm"]))


def test_configuration_distinguishes_call_paths_without_single_activities(db):
    number = trial(db, [(1, GEMM, 8), (2, GEMM, 64), (2, GEMM, 64)])
    counts = [count(GEMM, 10, 64), count(GEMM, 1, 8), count(GEMM, 20, 64)]
    match = merge_launches(db, number, counts, UNITS)
    found = column(db)
    assert found["forward/gemm"] == (1, 1) and found["backward/gemm"] == (30, 30)
    assert match.by_place == 3


def test_one_configuration_of_several_call_paths_is_shared_out_and_that_is_reported(db):
    number = trial(db, [(1, GEMM, 8), (2, GEMM, 8), (2, GEMM, 8), (2, GEMM, 8)])
    match = merge_launches(db, number, [count(GEMM, 4)] * 4, UNITS)
    found = column(db)
    assert found["forward/gemm"] == (4, 4) and found["backward/gemm"] == (12, 12)
    assert found[""][0] == 16
    assert match.shared == {"gemm": 4} and "gemm (4)" in match.notes()[0]
    assert "gemm (4)" in read_profile(db, number).metadata["taupy.health.counters_joined"]


def test_kernels_that_were_not_counted_have_no_value(db):
    number = trial(db, [(1, GEMM, 8), (2, RELU, 8)])
    merge_launches(db, number, [count(GEMM, 4)], UNITS)
    assert all(map(isnan, column(db)["backward/relu"]))


def test_another_number_of_launches_is_reported(db):
    number = trial(db, [(1, GEMM, 8)] * 5, traced=True)
    match = merge_launches(db, number, [count(GEMM, 4)] * 2, UNITS)
    assert column(db)["forward/gemm"] == (8, 8)
    assert "void gemm<float>(float*, int)" in match.notes()[0]


def test_names_are_matched_by_their_short_form_where_only_one_kernel_has_it(db):
    number = trial(db, [(1, GEMM, 8)])
    other = count(GEMM, 4, name="gemm")
    assert merge_launches(db, number, [other], UNITS).matched == 1


def test_a_file_of_another_program_is_refused_with_the_share(db):
    number = trial(db, [(1, GEMM, 8)])
    other = Timer("conv(float*)", groups=("GPU_KERNEL",), short="conv")
    with pytest.raises(RunsDiffer, match=r"1 of 3 counted launches .* conv \(2\)"):
        merge_launches(db, number, [count(other, 1), count(other, 1), count(GEMM, 1)], UNITS)
    assert [metric.name for metric in read_profile(db, number).metrics] == ["time"]


def test_a_file_without_launches_is_no_other_program(db):
    with pytest.raises(RunsDiffer, match="contains no counted launches"):
        merge_launches(db, trial(db, [(1, GEMM, 8)]), [], UNITS)


def test_another_device_is_another_kernel(db):
    number = trial(db, [(1, GEMM, 8)])
    with pytest.raises(RunsDiffer):
        merge_launches(db, number, [count(GEMM, 1, device=1)], UNITS)


def test_metrics_of_further_files_join_and_others_stay(db):
    number = trial(db, [(1, GEMM, 8)])
    merge_launches(db, number, [count(GEMM, 4)], UNITS)
    with pytest.raises(RunsDiffer, match="counted_launches, gld already"):
        merge_launches(db, number, [count(GEMM, 5)], UNITS)
    more = count(GEMM, 5)._replace(values={"gst": 9, "gld": 7})
    match = merge_launches(db, number, [more], {"gst": "inst"})
    assert match.kept == ("gld",) and "gld" in match.notes()[0]
    assert column(db)["forward/gemm"] == (4, 4) and column(db, "gst")["forward/gemm"] == (9, 9)


def test_a_trial_without_kernels_is_refused(db):
    timers = [Timer(ROOT_TIMER, groups=("TAUPY",)), Timer("forward"), Timer("backward")]
    threads = [ThreadProfile(Thread(0, 0, 0), host())]
    add_profile(db, Profile("u", "app", "default", 1e9, 1000, timers, threads, [TIME]))
    with pytest.raises(RunsDiffer, match="no kernels"):
        merge_launches(db, 1, [count(GEMM, 1)], UNITS)
