"""Collectives hang under what has asked for them, and stand there one by one.

Here with a library that plays PyTorch's groups; the one that hears of them is the real one,
compiled against it. Against PyTorch itself at the end.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

from tests.engine.conftest import TIMEOUT_S
from tests.engine.played import environment_of
from tests.engine.test_autograd import HEAD as AUTOGRAD
from tests.engine.test_autograd import pytestmark  # noqa: F401

HEAD = (
    AUTOGRAD
    + """
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import send
data = torch.ones(10)
"""
)


@pytest.fixture
def run(runner, shared):
    runner.environment |= environment_of(shared)

    def run(source: str, *options: str):
        return runner.run(HEAD + source, "native", "--collectives", *options, check=False)

    return run


def kept(trial):
    return trial.sql(
        """SELECT communicator, number, operation, bytes, above.short_name
             FROM collective
             JOIN callpath ON callpath.id = collective.callpath_id
             JOIN callpath AS parent ON parent.id = callpath.parent_id
             JOIN timer AS above ON above.id = parent.timer_id
            ORDER BY communicator, number"""
    )


@pytest.mark.slow
def test_each_collective_is_kept_under_its_caller(run):
    trial = run(
        """
dist.init_process_group("gloo", ranks=(0, 1, 2, 5))
def mean():
    dist.all_reduce(data)
mean()
mean()
other = dist.new_group((0, 5))
dist.all_reduce(torch.ones(3), other)
dist.barrier()
"""
    )
    assert kept(trial) == [
        ("0", 1, "gloo:all_reduce", 40, "all_reduce"),
        ("0", 2, "gloo:all_reduce", 40, "all_reduce"),
        ("0", 3, "gloo:barrier", 0, "barrier"),
        ("1", 1, "gloo:all_reduce", 12, "all_reduce"),
    ]
    assert trial.sql("SELECT name, ranks, size, begun, stride FROM communicator") == [
        ("0", "0-2,5", 4, 3, 1),
        ("1", "0,5", 2, 1, 1),
    ]
    times = trial.sql("SELECT asked_ns, begun_ns, ended_ns FROM collective ORDER BY asked_ns")
    assert all(asked <= begun <= ended for asked, begun, ended in times)
    mean = trial.under("mean", "all_reduce", "gloo:all_reduce")
    assert (mean.thread_name, mean.calls) == ("collectives", 2)
    assert mean.exclusive >= 3e6
    assert mean.groups == ("COMMUNICATION", "PHASE_COMMUNICATION")


def test_one_that_begins_late_belongs_to_who_asked_for_it(run):
    trial = run(
        """
dist.init_process_group("gloo")
torch._C.played_hold(b"0", 1)
def first():
    dist.all_reduce(data, async_op=True)
def second():
    dist.all_reduce(torch.ones(20), async_op=True)
first()
second()
time.sleep(0.05)
torch._C.played_hold(b"0", 0)
torch._C.played_wait(b"0")
""".replace("time.sleep", "import time; time.sleep")
    )
    assert trial.under("first", "all_reduce", "gloo:all_reduce").calls == 1
    assert trial.under("second", "all_reduce", "gloo:all_reduce").calls == 1
    ((asked, begun),) = trial.sql("SELECT asked_ns, begun_ns FROM collective WHERE bytes = 40")
    assert begun - asked >= 50_000_000


@pytest.mark.slow
def test_a_node_of_the_backward_pass_asks(run):
    """As DistributedDataParallel does, without a frame of Python's."""
    trial = run(
        """
import ctypes
dist.init_process_group("gloo")
class Net(Module):
    def __init__(self):
        super().__init__()
        self.first = Makes("MulBackward0")
        self.second = Makes("ExpBackward0")
    def forward(self):
        self.first()
        self.second()
net = Net()
net()
made.insert(0, Node("torch::autograd::AccumulateGrad", numbered=False))
torch._C.played_hold(b"0", 1)
nodes = made[::-1]
lib = torch._C
class Asks:
    name, number, thread = "asks", -1, 0
def backward():
    run(nodes, None)
    lib.played_ask(b"0", b"gloo:all_reduce", 8)
    run(nodes[:1], None)
    lib.played_hold(b"0", 0)
    lib.played_wait(b"0")
backward()
"""
    )
    ((_, _, _, size, above),) = kept(trial)
    assert (size, above) == (8, "AccumulateGrad")


def test_send_and_receive_are_counted_and_do_not_number_collectives(run):
    trial = run(
        """
dist.init_process_group("gloo")
dist.all_reduce(data)
send(data, 1)
dist.all_reduce(data)
"""
    )
    assert [(number, name) for _, number, name, _, _ in kept(trial)] == [
        (1, "gloo:all_reduce"),
        (2, "gloo:all_reduce"),
    ]
    assert trial.under("send", "gloo:send").calls == 1


@pytest.mark.slow
def test_sends_and_receives_are_numbered_by_peer_and_tag(run):
    """Under the rank in the job, also where a rank of the group is given; `recv` waits, `isend` and
    `irecv` do not."""
    trial = run(
        """
from torch.distributed.distributed_c10d import irecv, isend, recv
dist.init_process_group("gloo", ranks=(0, 1, 2, 5))
other = dist.new_group((0, 5))
recv(data, 2)
isend(torch.ones(3), 1)
irecv(data, src=2, tag=7)
recv(data, 2)
isend(data, group=other, group_dst=1)
dist.all_reduce(data)
"""
    )
    assert [row[:4] for row in kept(trial)] == [
        ("0", 1, "gloo:all_reduce", 40),
        ("0<2", 1, "gloo:recv", 40),
        ("0<2", 2, "gloo:recv", 40),
        ("0<2:7", 1, "gloo:irecv", 40),
        ("0>1", 1, "gloo:isend", 12),
        ("1>5", 1, "gloo:isend", 40),
    ]
    assert trial.under("recv", "gloo:recv").calls == 2


@pytest.mark.slow
def test_receives_after_one_from_anywhere_have_no_number(run):
    """It may have taken what was sent by the rank that the next receive names."""
    trial = run(
        """
from torch.distributed.distributed_c10d import isend, recv
dist.init_process_group("gloo", ranks=(0, 1, 2))
recv(data, 2)
recv(data)
recv(data, 2)
isend(data, 2)
"""
    )
    assert [row[:2] for row in kept(trial)] == [("0<2", 1), ("0>2", 1)]
    assert trial.under("recv", "gloo:recv").calls == 3


BETWEEN = """
import time
dist.init_process_group("gloo")
def work(ms):
    end = time.perf_counter() + ms / 1000
    while time.perf_counter() < end:
        pass
def deeper(ms, levels):
    deeper(ms, levels - 1) if levels else work(ms)
def gives():
    yield work(10)
    yield work(20)
"""


def stretches(trial):
    return trial.sql(
        """SELECT step.number, start_ns, time_ns, sum(value),
                  group_concat(DISTINCT iif(short_name LIKE 'gloo%', NULL, short_name))
             FROM step JOIN step_value USING (trial_id, thread_id, kind, number)
             JOIN callpath ON callpath.id = step_value.name JOIN timer ON timer.id = timer_id
            WHERE kind = 'stretch' GROUP BY step.number ORDER BY step.number"""
    )


@pytest.mark.slow
def test_what_a_thread_did_between_collectives_is_listed(run):
    """Of call paths that are open, over and open again; each moment once."""
    trial = run(
        BETWEEN
        + """
def before():
    work(50)
    dist.all_reduce(data)
def after():
    work(10)
    given = gives()
    next(given)
    dist.barrier()
    deeper(20, 3)
    next(given)
    work(400)
    dist.barrier()
before()
after()
work(50)
"""
    )
    found = stretches(trial)
    assert sum(row[2] for row in found) >= 460e6
    for one, following in itertools.pairwise(found):
        assert one[1] + one[2] == pytest.approx(following[1], abs=2)
    for _, _, took, own, _ in found:
        assert own == pytest.approx(took, rel=0.02)  # the rest has no place in the list
    ((listed,),) = trial.sql(
        """SELECT sum(value) FROM step_value
             JOIN callpath ON callpath.id = step_value.name JOIN timer ON timer.id = timer_id
            WHERE kind = 'stretch' AND short_name = 'work'"""
    )
    inside = sum(
        path.exclusive
        for path in trial.paths()
        if path.names[-1] == "work" and path.names[-2] not in ("before", "<module>")
    )
    assert listed == pytest.approx(inside, rel=0.001)


@pytest.mark.slow
def test_stretches_that_last_no_longer_than_looking_for_them_are_joined(run):
    trial = run(
        BETWEEN
        + """
for number in range(5000):  # call paths that a look has to pass
    exec(f"def routine{number}(): pass\\nroutine{number}()")
for _ in range(1000):
    dist.barrier()
work(400)
dist.barrier()
"""
    )
    found = stretches(trial)
    assert 1 <= len(found) < 500
    assert "work" in found[-1][4]


@pytest.mark.slow
def test_stretches_of_whole_steps_go_where_there_are_too_many(run):
    trial = run(
        BETWEEN
        + """
import taupy
for _ in range(8192 + 200):
    with taupy.step():
        work(0.5)
        dist.barrier()
"""
    )
    ((count,),) = trial.sql("SELECT count(*) FROM step WHERE kind = 'stretch'")
    assert count <= 8192
    starts = [row[1] for row in stretches(trial)]
    ((steps,),) = trial.sql("SELECT count(*) FROM step WHERE kind = 'training'")
    assert steps == 8392
    last = trial.sql("SELECT max(start_ns) FROM step WHERE kind = 'training'")[0][0]
    assert max(starts) > last - 100e6  # the end of the run is among them
    assert "for some steps only" in trial.metadata()["taupy.health.stretches"]


@pytest.mark.slow
def test_without_steps_the_first_stretches_are_kept(run):
    """More than they double in 64 times."""
    trial = run(
        BETWEEN
        + """
for _ in range(8192 + 200):
    work(0.5)
    dist.barrier()
"""
    )
    assert trial.sql("SELECT exit_code, state FROM trial") == [(0, "complete")]
    count = len(stretches(trial))
    assert 0 < count <= 8192
    note = trial.metadata().get("taupy.health.stretches", "")
    # On a machine where looks take long, stretches are joined, and there is room for all.
    assert ("stretches more had no room" in note) == (count == 8192)


@pytest.mark.slow
def test_more_than_have_room_are_thinned_by_their_numbers(run):
    """Of each two stretches of 256 the first, the same ones on all ranks."""
    trial = run(
        """
dist.init_process_group("gloo")
for _ in range(16384 + 300):
    dist.barrier()
"""
    )
    assert trial.sql("SELECT begun, stride FROM communicator") == [(16684, 2)]
    numbers = [number for (number,) in trial.sql("SELECT number FROM collective ORDER BY number")]
    assert numbers == [n for n in range(1, 16685) if (n - 1) // 256 % 2 == 0]
    assert trial.under("barrier", "gloo:barrier").calls == 16684


@pytest.mark.slow
def test_one_that_waits_for_ever_is_kept_without_an_end(run):
    trial = run(
        """
import time
dist.init_process_group("gloo")
dist.all_reduce(data)
torch._C.played_ask(b"0", b"gloo:stuck", 7)
while torch._C.played_begun() < 2:
    time.sleep(0.01)
os._exit(3)
"""
    )
    assert trial.sql("SELECT operation, ended_ns IS NULL FROM collective ORDER BY number") == [
        ("gloo:all_reduce", 0),
        ("gloo:stuck", 1),
    ]


@pytest.mark.slow
def test_without_a_group_nothing_is_compiled_in_or_reported(run):
    trial = run("data\n")
    assert "taupy.health.collectives" not in trial.metadata()
    assert {path.thread_name for path in trial.paths()} == {"MainThread"}


@pytest.mark.slow
def test_a_childs_collectives_are_not_its_parents(run):
    trial = run(
        """
dist.init_process_group("gloo")
dist.all_reduce(data)
if os.fork() == 0:
    os._exit(0)
os.wait()
dist.all_reduce(data)
"""
    )
    assert [number for _, number, _, _, _ in kept(trial)] == [1, 2]


PROGRAM = """
import torch, torch.distributed as dist
from torch import nn
import os
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)))
step = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    loss = net(torch.ones(2, 4)).sum()
    loss.backward()
    step.step()
    step.zero_grad()
print(loss.item().hex())
dist.destroy_process_group()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorchs_own_collectives(torch_runner):
    import subprocess

    trial = torch_runner.run(PROGRAM, "native", "--collectives")
    bare = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    assert trial.stdout == bare.stdout
    reduced = [one for one in kept(trial) if one[2] == "gloo:all_reduce"]
    assert [(one[3], one[4]) for one in reduced] == [(100, "AccumulateGrad")] * 3
