"""What the hosts of a job say of its duration and of their clocks."""

from __future__ import annotations

from taupy.model import host_clocks

SECOND = 1_000_000  # us


def process(host, began, ended, attempt=1):
    """The facts of a process that ran from `began` to `ended` [s] by its host's clock."""
    return {
        "Hostname": host,
        "Attempt": str(attempt),
        "Starting Timestamp": str(began * SECOND),
        "Ending Timestamp": str(ended * SECOND),
    }


def test_a_job_of_several_hosts_ran_as_long_as_the_host_that_took_longest():
    apart = {
        0: process("a", 1000, 1060),
        1: process("a", 1002, 1063),
        2: process("b", 4600, 4660),
        3: process("c", 1001, 1061),
    }
    assert host_clocks.duration_ns(apart) == 63_000_000_000
    assert host_clocks.offsets_ns(apart) == {2: 3_600_000_000_000}
    assert host_clocks.remark(apart).startswith(
        "the clocks of hosts differ; ahead of the first: b by about 3,600 s ("
    )
    assert host_clocks.duration_ns({0: apart[0], 1: apart[1]}) is None


def test_hosts_of_one_clock_are_moved_together():
    ahead = {
        0: process("a", 1000, 1060),
        1: process("b", 4600, 4660),
        2: process("c", 4603, 4663),
    }
    assert host_clocks.offsets_ns(ahead) == {1: 3_600_000_000_000, 2: 3_600_000_000_000}


def test_attempts_follow_one_another_on_hosts_of_their_own():
    """A later attempt elsewhere is no sign of another clock."""
    restarted = {
        0: process("a", 1000, 1060),
        1: process("b", 1000, 1050),
        10_000_000: process("a", 1100, 1130, attempt=2),
        10_000_001: process("c", 1101, 1133, attempt=2),
        20_000_000: process("d", 9000, 9100, attempt=3),
    }
    assert host_clocks.duration_ns(restarted) == (60 + 32 + 100) * 1_000_000_000
    assert host_clocks.offsets_ns(restarted) == {}
    assert host_clocks.remark(restarted) == ""


def test_processes_without_times_are_left_out():
    unknown = {0: {"Hostname": "a"}, 1: {**process("b", 1, 2), "Ending Timestamp": "soon"}, 2: {}}
    assert host_clocks.duration_ns(unknown) is None
    assert host_clocks.offsets_ns(unknown) == {}
