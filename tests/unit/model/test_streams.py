"""Kernels hang under the host call paths that launched them."""

from __future__ import annotations

import math
from dataclasses import replace

from taupy.model.gpu import NO_OWNER, Configuration, Launch
from taupy.model.invariants import check
from taupy.model.profile import ROOT_TIMER, Metric, Thread, ThreadProfile, Timer
from taupy.model.streams import Owner, StreamBuilder
from tests.builders import call, host, profile_of

STREAM = Thread(0, 1, 0, "stream", "stream 7", 7)
ROOT = Timer(ROOT_TIMER, groups=("TAUPY",))
GEMM = Timer("gemm", groups=("GPU_KERNEL",))
RELU = Timer("relu", groups=("GPU_KERNEL",))


def launches(count, time_ns, grid=None):
    times = [time_ns // count] * count
    return replace(Launch.of_times(times, count), configuration=Configuration(grid))


def two_threads():
    """Two host threads on which root => step launches; rows: root 0, step 1, other 2."""
    children = [call("step", 2, 30), call("other", 1, 5)]
    return profile_of(
        host(call(ROOT, 1, 10, children)), host(call(ROOT, 1, 10, children), thread=1)
    )


def named(profile, thread):
    return [profile.timers[timer].name for timer in thread.tree.timer]


def test_one_call_path_of_two_host_threads_is_one_on_the_stream():
    profile = two_threads()
    builder = StreamBuilder(profile.timers)
    rows = {
        builder.add(STREAM, Owner(thread.tree, 1), GEMM, launches(2, 200, grid=(4, 1, 1)))
        for thread in profile.threads
    }
    builder.add(STREAM, Owner(profile.threads[0].tree, 2), GEMM, launches(1, 50))
    builder.add(STREAM, None, RELU, launches(1, 7))
    (stream,) = builder.threads()
    profile.threads.append(stream)
    assert check(profile) == []
    assert rows == {2}
    tree = stream.tree
    assert named(profile, stream) == [
        ROOT_TIMER, "step", "gemm", "other", "gemm", NO_OWNER, "relu",
    ]  # fmt: skip
    assert list(tree.calls) == [0, 0, 4, 0, 1, 0, 1]
    assert list(tree.inclusive["time"]) == [457, 400, 400, 50, 50, 7, 7]
    assert [(launch.row, launch.count, launch.time_ns) for launch in stream.launches] == [
        (2, 4, 400), (4, 1, 50), (6, 1, 7),
    ]  # fmt: skip


def test_another_grid_is_another_launch_of_the_same_kernel():
    profile = two_threads()
    builder = StreamBuilder(profile.timers)
    owner = Owner(profile.threads[0].tree, 1)
    builder.add(STREAM, owner, GEMM, launches(1, 10, grid=(1, 1, 1)))
    builder.add(STREAM, owner, GEMM, launches(1, 30, grid=(2, 1, 1)))
    builder.add(STREAM, owner, GEMM, launches(1, 20, grid=(1, 1, 1)))
    (stream,) = builder.threads()
    assert [
        (launch.configuration.grid, launch.count, launch.minimum_ns, launch.maximum_ns)
        for launch in stream.launches
    ] == [
        ((1, 1, 1), 2, 10, 20), ((2, 1, 1), 1, 30, 30),
    ]  # fmt: skip


def test_an_untimed_launch_does_not_make_the_minimum_zero():
    builder = StreamBuilder([])
    builder.add(STREAM, None, GEMM, launches(1, 10))
    builder.add(STREAM, None, GEMM, Launch(count=1, time_ns=0, untimed=1))
    (stream,) = builder.threads()
    (one,) = stream.launches
    assert (one.count, one.untimed, one.minimum_ns, one.maximum_ns) == (2, 1, 10, 10)


def test_a_kernel_that_was_not_counted_has_no_value():
    profile = two_threads()
    builder = StreamBuilder(profile.timers)
    owner = Owner(profile.threads[0].tree, 1)
    row = builder.add(STREAM, owner, GEMM, launches(1, 10))
    builder.add(STREAM, owner, RELU, launches(1, 10))
    builder.add_values(STREAM, row, {"flop_fp32": 1e6})
    builder.add_values(STREAM, row, {"flop_fp32": 5e5})
    profile.threads += builder.threads()
    profile.metrics.append(Metric("flop_fp32", "flop"))
    tree = profile.threads[-1].tree
    assert list(tree.inclusive["flop_fp32"])[:3] == [1.5e6] * 3
    assert math.isnan(tree.inclusive["flop_fp32"][3])
    assert check(profile) == []


def test_streams_come_by_place_each_with_its_own_rows():
    builder = StreamBuilder([])
    builder.add(Thread(0, 2, 0, "stream"), None, GEMM, launches(1, 10))
    builder.add(Thread(0, 1, 1, "stream"), None, GEMM, launches(1, 10))
    places = [(thread.thread.context, thread.thread.thread) for thread in builder.threads()]
    assert places == [(1, 1), (2, 0)]
    assert all(isinstance(thread, ThreadProfile) for thread in builder.threads())
