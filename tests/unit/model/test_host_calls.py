"""Calls timed apart move time out of their callers; the laws of a tree hold."""

from __future__ import annotations

from array import array
from math import isnan

from taupy.model.host_calls import HostCalls
from taupy.model.invariants import check
from taupy.model.profile import CallTree, Profile, Thread, ThreadProfile, Timer


def a_tree() -> CallTree:
    """root (1000 ns, 400 of its own) calls f (600 ns, all its own)."""
    times = {"time": array("q", [1000, 600]), "cpu_time": array("q", [900, 500])}
    own = {"time": array("q", [400, 600]), "cpu_time": array("q", [400, 500])}
    return CallTree(
        array("q", [0, 1]), array("q", [-1, 0]), array("q", [1, 2]), array("q", [2, 0]), times, own
    )


def faults(tree: CallTree) -> list[str]:
    timers = [Timer("root"), Timer("f"), Timer("cudaMalloc"), Timer("cudaFree")]
    thread = ThreadProfile(Thread(0, 0, 0), tree)
    return check(Profile("u", "a", "e", 0.0, 1, timers, [thread]))


def test_a_calls_time_is_taken_from_its_caller():
    tree = a_tree()
    row = HostCalls().add(tree, 1, 2, calls=3, time_ns=250)
    assert (tree.parent[row], tree.calls[row], tree.subroutines[1]) == (1, 3, 3)
    assert tree.inclusive["time"].tolist() == [1000, 600, 250]
    assert tree.exclusive["time"].tolist() == [400, 350, 250]
    assert faults(tree) == []


def test_equal_calls_become_one_row():
    tree, calls = a_tree(), HostCalls()
    assert calls.add(tree, 1, 2, 3, 100) == calls.add(tree, 1, 2, 2, 50)
    assert calls.add(tree, 1, 3, 1, 10) != calls.add(tree, 0, 3, 1, 10)
    assert tree.calls.tolist() == [1, 2, 5, 1, 1]
    assert tree.exclusive["time"].tolist() == [390, 440, 150, 10, 10]
    assert faults(tree) == []


def test_no_more_time_is_taken_than_there_is():
    tree, calls = a_tree(), HostCalls()
    calls.add(tree, 1, 2, 1, 10_000)
    calls.add(tree, 1, 3, 1, 5)
    assert tree.exclusive["time"].tolist() == [400, 0, 600, 0]
    assert faults(tree) == []


def test_what_was_not_measured_of_a_call_is_absent_not_zero():
    tree = a_tree()
    row = HostCalls().add(tree, 0, 2, 1, 10)
    assert isnan(tree.inclusive["cpu_time"][row])
    assert tree.inclusive["cpu_time"][:2].tolist() == [900, 500]
    assert faults(tree) == []
