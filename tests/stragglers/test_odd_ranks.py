"""Ranks that die, do different things, have other clocks or are not measured: with gloo itself.

`make observer` runs these; they need PyTorch.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.in_process import set_up_torch, taupy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None,
        reason="PyTorch is not installed: pip install torch==2.13.0",
    ),
]
TIMEOUT_S = 300
HEAD = """
import datetime, os, signal, threading, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
rank, data = dist.get_rank(), torch.ones(100)
"""
HOUR_AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == 0)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME)
        now->tv_sec += 3600;
    return result;
}
"""


@pytest.fixture(scope="module", autouse=True)
def libraries():
    done = set_up_torch(os.environ)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def ranks(tmp_path):
    """Runs ranks of one job; returns what `taupy ranks` says of their only trial."""

    def run(
        source: str,
        size: int,
        *,
        bare: tuple[int, ...] = (),
        more: Mapping[int, dict] | None = None,
    ):
        (tmp_path / "program.py").write_text(HEAD + source)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = []
        for rank in range(size):
            place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_PORT": port}
            environment = {
                **os.environ,
                **{name: str(value) for name, value in place.items()},
                **{
                    "MASTER_ADDR": "127.0.0.1",
                    "TORCHELASTIC_RUN_ID": "odd",
                    "OMP_NUM_THREADS": "1",
                },
                **(more or {}).get(rank, {}),
            }
            measured = [] if rank in bare else ["-m", "taupy", "run", "--db", "a.db"]
            started.append(
                subprocess.Popen(
                    [sys.executable, *measured, "program.py"], cwd=tmp_path, env=environment
                )
            )
        codes = [process.wait(TIMEOUT_S) for process in started]

        def ask(*arguments: str) -> str:
            done = taupy("ranks", "1", *arguments, "--db", tmp_path / "a.db")
            assert done.returncode == 0, done.stderr
            return done.stdout

        return codes, ask

    return run


def test_a_rank_that_is_killed_in_a_collective_is_named(ranks):
    codes, ask = ranks(
        """
for _ in range(3):
    dist.all_reduce(data)
if rank == 1:
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    dist.all_reduce(data)
time.sleep(6)
try:
    dist.all_reduce(data)
except RuntimeError:
    os._exit(7)
""",
        2,
    )
    assert codes == [7, -9]
    text = ask()
    assert (
        "gloo:all_reduce 4 of communicator 0 never ended on all ranks: ranks 0, 1 had come" in text
        or "gloo:all_reduce 4 of communicator 0 never ended on all ranks: rank 1 had come" in text
    )
    rows = list(csv.DictReader(ask("--by", "collective", "--all", "--csv").splitlines()))
    assert [row["number"] for row in rows][:3] == ["1", "2", "3"]


def test_ranks_that_run_different_code_are_named_where_they_part(ranks):
    codes, ask = ranks(
        """
for _ in range(2):
    dist.all_reduce(data)
try:
    dist.all_reduce(data) if rank == 0 else dist.broadcast(data, 1)
    dist.barrier()
except RuntimeError:
    pass
os._exit(0)
""",
        2,
    )
    assert codes == [0, 0]
    text = ask()
    assert (
        "collective 3 of communicator 0 is gloo:all_reduce on rank 0, gloo:broadcast on rank 1: "
        "from there on nothing is matched" in text
    )
    assert text.startswith("2 RANKS, 2 MATCHED COLLECTIVES")


def test_clocks_an_hour_apart_are_aligned(ranks, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "ahead.c").write_text(HOUR_AHEAD)
    library = str(tmp_path / "ahead.so")
    command = [compiler, "-shared", "-fPIC", "-o", library, str(tmp_path / "ahead.c"), "-ldl"]
    subprocess.run(command, check=True)
    codes, ask = ranks(
        """
for number in range(40):
    if rank == 0:
        time.sleep(0.02)
    dist.all_reduce(data)
dist.destroy_process_group()  # otherwise PyTorch itself sometimes aborts at the end
""",
        2,
        more={1: {"LD_PRELOAD": library}},
    )
    assert codes == [0, 0]
    text = ask()
    assert "the clock of rank 1 is 1 h 00 min ahead" in text
    rows = list(csv.DictReader(ask("--by", "collective", "--all", "--csv").splitlines()))
    assert len(rows) == 40
    assert [row["last"] for row in rows].count("0") >= 36
    assert all(float(row["skew_ns"]) < 60e9 for row in rows)


def test_half_of_the_ranks_missing_are_named_and_the_rest_answered(ranks):
    codes, ask = ranks(
        """
for number in range(5):
    if rank == 1:
        time.sleep(0.1)
    dist.all_reduce(data)
dist.barrier()
dist.destroy_process_group()
""",
        4,
        bare=(2, 3),
    )
    assert codes == [0] * 4
    text = ask()
    assert "ranks 2-3 are missing: waiting for them is counted as transfer" in text
    rows = list(csv.DictReader(ask("--csv").splitlines()))
    assert [row["rank"] for row in rows] == ["0", "1"]
    assert float(rows[1]["caused_ns"]) > float(rows[0]["caused_ns"])


def test_a_rank_that_others_kept_waiting_elsewhere_is_not_the_late_one(ranks):
    """Rank 0 waits for rank 1, and that only for rank 2, which is in no group with rank 0."""
    codes, ask = ranks(
        """
groups = dist.new_group([0, 1]), dist.new_group([1, 2])
def culprit():
    time.sleep(0.04)  # three ranks that compute would share two processors
for _ in range(20):
    time.sleep(0.005)
    if rank == 2:
        culprit()
    if rank > 0:
        dist.all_reduce(data, group=groups[1])
    if rank < 2:
        dist.all_reduce(data, group=groups[0])
dist.barrier()
dist.destroy_process_group()
""",
        3,
    )
    assert codes == [0] * 3
    text = ask()
    assert "for rank 2, " in text
    assert "because rank 2 had kept them waiting elsewhere" in text
    assert "culprit" in text
    rows = {
        row["rank"]: float(row["caused_ns"]) for row in csv.DictReader(ask("--csv").splitlines())
    }
    assert rows["2"] > rows["1"], rows


def test_a_slow_stage_of_a_pipeline_is_named_by_those_who_receive(ranks):
    """Rank 1's output goes through rank 2 to rank 3; rank 3 sends back what nobody waits for."""
    codes, ask = ranks(
        """
def burn(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        pass
def slow_stage():
    burn(40)
dist.barrier()
back = []
for _ in range(20):
    if rank > 0:
        dist.recv(data, rank - 1)
    burn(2)
    if rank == 1:
        slow_stage()
    if rank < 3:
        dist.send(data, rank + 1)
    else:
        back.append(dist.isend(data, 0, tag=5))
    if rank == 0:
        back.append(dist.irecv(torch.ones(100), 3, tag=5))
for work in back:
    work.wait()
dist.barrier()
dist.destroy_process_group()
""",
        4,
    )
    assert codes == [0] * 4
    text = ask()
    assert text.startswith("4 RANKS, 2 MATCHED COLLECTIVES, 80 SENDS")
    assert "for rank 1, " in text
    assert "called by slow_stage" in text
    rows = {
        row["rank"]: float(row["caused_ns"]) for row in csv.DictReader(ask("--csv").splitlines())
    }
    assert rows["1"] > 2 * rows["2"]


def test_a_destroyed_group_leaves_no_threads(ranks):
    """A weak reference to it would keep its threads and sockets, until one of them ends badly.

    Groups made again meet in a file: on the same port, a rank may still reach the store of before.
    Each group is used before it is destroyed: the end of one rank fails another that connects.
    """
    codes, ask = ranks(
        """
left = []
for number in range(3):
    if number:
        dist.init_process_group("gloo", f"file://{os.getcwd()}/{number}", rank=rank, world_size=2)
    dist.all_reduce(data)
    dist.all_reduce(data)
    dist.destroy_process_group()
    left.append(len(os.listdir("/proc/self/task")))
assert left == left[:1] * 3, left
""",
        2,
    )
    assert codes == [0, 0]
    assert ask().startswith("2 RANKS, 6 MATCHED COLLECTIVES")
