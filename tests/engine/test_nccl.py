"""Collectives of NCCL through its profiler plug-in, with an NCCL that is played by ctypes.

It calls the plug-in as NCCL does, in the layouts of NCCL's public headers (v6 and v7 of the
interface). Nothing here has run on a GPU.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taupy.record import nccl_part
from tests.engine.conftest import Trial

PLAYED = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
path = libc.getenv(b"NCCL_PROFILER_PLUGIN")
V, P, I, U = ctypes.c_void_p, ctypes.POINTER, ctypes.c_int, ctypes.c_uint64
class Coll(ctypes.Structure):
    _fields_ = [("seqNumber", U), ("func", ctypes.c_char_p), ("sendBuff", V), ("recvBuff", V),
                ("count", ctypes.c_size_t), ("root", I), ("datatype", ctypes.c_char_p),
                ("nChannels", ctypes.c_uint8), ("nWarps", ctypes.c_uint8),
                ("algo", ctypes.c_char_p), ("proto", ctypes.c_char_p), ("parentGroup", V),
                ("kernelVariant", ctypes.c_char_p), ("isSymColl", ctypes.c_bool), ("tag", U)]
class KernelCh(ctypes.Structure):
    _fields_ = [("channelId", ctypes.c_uint8), ("pTimer", U)]
class Of(ctypes.Union):
    _fields_ = [("coll", Coll), ("kernelCh", KernelCh)]
class Event(ctypes.Structure):
    _fields_ = [("type", U), ("parentObj", V), ("rank", I), ("of", Of)]
class Plugin(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p),
        ("init", ctypes.CFUNCTYPE(I, P(V), U, P(I), ctypes.c_char_p, I, I, I, V)),
        ("start", ctypes.CFUNCTYPE(I, V, P(V), P(Event))),
        ("stop", ctypes.CFUNCTYPE(I, V)),
        ("state", ctypes.CFUNCTYPE(I, V, I, P(U))),
        ("finalize", ctypes.CFUNCTYPE(I, V))]
plugin = Plugin.in_dll(ctypes.CDLL(os.fsdecode(path)), VERSION)
def init(id, size, name=b"default"):
    context, mask = V(), I()
    assert plugin.init(context, id, mask, name, 1, size, 0, None) == 0
    return context, mask.value
def coll(context, number, name=b"AllReduce", count=10, type=b"ncclFloat32"):
    event, handle = Event(type=2, rank=0), V()
    event.of.coll = Coll(seqNumber=number, func=name, count=count, datatype=type)
    assert plugin.start(context, handle, event) == 0
    return handle
def channel(context, parent, took_ns):
    event, handle = Event(type=64, parentObj=parent), V()
    event.of.kernelCh = KernelCh(channelId=0, pTimer=1000)
    plugin.start(context, handle, event)
    time.sleep(0.02)
    plugin.state(handle, 22, U(1000 + took_ns))
    plugin.stop(handle)
def runs(context, parent, took_ns=5_000_000):
    thread = threading.Thread(target=channel, args=(context, parent, took_ns))
    thread.start()
    thread.join()
"""


@pytest.fixture
def run(runner):
    def run(source: str, *options: str, version: str = "ncclProfiler_v7"):
        played = PLAYED.replace("VERSION", repr(version))
        return runner.run(played + source, "native", "--collectives", *options, check=False)

    return run


SUMS = "SELECT communicator, number, operation, bytes FROM collective ORDER BY communicator, number"


@pytest.mark.parametrize("version", ["ncclProfiler_v5", "ncclProfiler_v6", "ncclProfiler_v7"])
def test_collectives_hang_under_who_asked_for_them(run, version):
    trial = run(
        """
context, mask = init(0xabc, 2)
assert mask & 66 == 66
def mean(number):
    handle = coll(context, number)
    plugin.stop(handle)          # asked for; the GPU has not begun
    runs(context, handle)
mean(0)
mean(1)
gather = coll(context, 0, b"AllGather", 3, b"ncclBfloat16")
runs(context, gather)
assert "NCCL_PROFILER_PLUGIN" not in os.environ
plugin.finalize(context)
""",
        version=version,
    )
    assert trial.sql(SUMS) == [
        ("default abc", 1, "nccl:all_reduce", 40),
        ("default abc", 2, "nccl:all_reduce", 40),
        ("default abc", 3, "nccl:all_gather", 6),
    ]
    for asked, begun, ended in trial.sql("SELECT asked_ns, begun_ns, ended_ns FROM collective"):
        assert asked < begun and ended - begun == 5_000_000 and ended - asked >= 20_000_000
    mean = trial.under("mean", "coll", "nccl:all_reduce")
    assert (mean.thread_name, mean.calls, mean.exclusive) == ("collectives", 2, 10_000_000)
    assert mean.groups == ("COMMUNICATION", "PHASE_COMMUNICATION")
    assert trial.sql("SELECT name, size, begun FROM communicator") == [("default abc", 2, 3)]


def test_several_channels_are_one_collective(run):
    trial = run(
        """
context, _ = init(1, 2, None)
handle = coll(context, 0, type=b"unheard")
runs(context, handle, 1_000_000)
runs(context, handle, 1_000_000)
"""
    )
    assert trial.sql(SUMS) == [("1", 1, "nccl:all_reduce", -1)]
    ((took,),) = trial.sql("SELECT ended_ns - begun_ns FROM collective")
    assert took >= 20_000_000  # from the first one's beginning to the last one's end


@pytest.mark.slow
def test_one_that_did_not_run_is_left_out_and_reported(run):
    trial = run(
        """
context, _ = init(1, 2)
coll(context, 0)
runs(context, coll(context, 1))
"""
    )
    assert len(trial.sql(SUMS)) == 1
    ((said,),) = trial.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.nccl%'")
    assert said.startswith("of 1 of 2 collectives of NCCL it is not known when they ran")


@pytest.mark.slow
def test_what_does_not_fit_is_counted(run):
    trial = run(
        """
context, _ = init(1, 2)
runs(context, coll(context, 0))
for number in range(17_000):
    coll(context, number)
assert init(2, 2)[1] != 0
for id in range(3, 80):
    last = init(id, 2)[1]
assert last == 0                 # no room for so many communicators: it is asked for nothing
"""
    )
    ((said,),) = trial.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.nccl%'")
    assert "collectives of NCCL that were not recorded for lack of room: 617" in said


@pytest.mark.slow
def test_a_process_that_is_killed_keeps_what_it_did(run, runner):
    with pytest.raises(AssertionError, match="the run was not stored"):
        run(
            """
context, _ = init(7, 2)
runs(context, coll(context, 0))
os.kill(os.getpid(), 9)
"""
        )
    database = str(runner.folder / "native-1.db")
    command = [sys.executable, "-m", "taupy", "trials", "--db", database]
    subprocess.run(command, env=runner.environment, check=True, capture_output=True, timeout=240)
    assert Trial(Path(database), "", "").sql(SUMS) == [("default 7", 1, "nccl:all_reduce", 40)]


@pytest.mark.slow
def test_a_forked_child_writes_nothing_into_its_parents_file(run):
    trial = run(
        """
context, _ = init(7, 2)
if os.fork() == 0:
    runs(context, coll(context, 0))
    os._exit(0)
os.wait()
runs(context, coll(context, 0))
"""
    )
    assert len(trial.sql(SUMS)) == 1


@pytest.mark.slow
def test_the_users_own_profiler_stays(runner):
    runner.environment["NCCL_PROFILER_PLUGIN"] = "mine"
    runner.run(
        """
import ctypes, os
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
assert libc.getenv(b"NCCL_PROFILER_PLUGIN") == b"mine"
assert os.environ["NCCL_PROFILER_PLUGIN"] == "mine"
""",
        "native",
        "--collectives",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TAUPYNCC" + b"\xff" * 200,
        b"TAUPYNCC" + (1).to_bytes(8, "little") + b"\xff" * (nccl_part._HEADER.itemsize),
    ],
)
def test_a_damaged_file_is_refused(data):
    with pytest.raises(ValueError, match="it is"):
        nccl_part._read(data)
