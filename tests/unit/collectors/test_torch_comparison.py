"""What compares a trial with torch.profiler's trace, tried without a GPU.

The trial comes from the played GPU; the trace is made by hand, in Kineto's form, of the same work.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys

import pytest

from tests.fake_gpu import PRELUDE
from tests.gpu.comparison import (
    differences,
    missing,
    of_profile,
    of_trace,
    share_with_owner,
    stored,
)

ADD = "_ZN2at6native3addIfLi4EEEvPT_i"  # void at::native::add<float, 4>(float*, int)
PROGRAM = f"""
def train():
    for i in range(20): launch({ADD!r}, took=1000)
    for i in range(3): launch("gemm", took=50_000)
    for i in range(4): copy(1, 4096)
    copy(2, 100)
    cuda.fake_memset(u64(64), 0, 7, u64(10))
    cuda.fake_graph_launch(text("node"), 5, 0, 7, u64(100))
    for i in range(7): cuda.fake_get_device()
init()
train()
"""


def event(category, name, duration_us=1.0, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": 1, "dur": duration_us, "args": args}


def runtime(name, count):
    return [event("cuda_runtime", name)] * count


EVENTS = [
    # Kineto's demangler writes other spaces than ours.
    *[event("kernel", "void at::native::add<float,4>(float *, int)", 1.0)] * 20,
    *[event("kernel", "gemm", 51.0)] * 3,
    *[event("kernel", "node", 0.1)] * 5,
    *[event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", bytes=4096)] * 4,
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", bytes=100),
    event("gpu_memset", "Memset (Device)", bytes=64),
    *runtime("cudaLaunchKernel", 23),
    *runtime("cudaMemcpyAsync", 5),
    *runtime("cudaMemsetAsync", 1),
    *runtime("cudaGraphLaunch", 1),
    *runtime("cudaDeviceSynchronize", 2),  # torch.profiler's own
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
]


@pytest.fixture(scope="module")
def profile(played_gpu, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    (folder / "prog.py").write_text(PRELUDE + PROGRAM)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
        "LD_LIBRARY_PATH": str(played_gpu),
        "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        "TAUPY_STATE_DIR": str(folder / "state"),
    }
    command = [sys.executable, "-m", "taupy", "run", "--gpu", "--db", "t.db", "prog.py"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return stored(folder / "t.db")


def compared(profile, events, folder):
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
    return differences(of_profile(profile), of_trace(folder / "trace.json"))


def test_the_same_work_has_no_difference(profile, tmp_path):
    assert compared(profile, EVENTS, tmp_path) == []
    assert missing(profile) == []
    assert share_with_owner(profile) == 1.0


@pytest.mark.parametrize(
    ("wanted", "changes", "says"),
    [
        (
            "kernel",
            {},
            "launches of voidat::native::add<float,4>(float*,int): 20, torch.profiler 19",
        ),
        ("kernel", {"name": "other"}, "launches of other: 0, torch.profiler 1"),
        ("gpu_memcpy", {}, "copies: Memcpy HtoD: 4, torch.profiler 3"),
        ("gpu_memset", {"args": {"bytes": 65}}, "bytes of Memset: 64, torch.profiler 65"),
        ("cuda_runtime", {}, "calls of cudaLaunchKernel: 23, torch.profiler 22"),
        ("kernel", {"dur": 20.0}, "GPU time: 170500 ns, torch.profiler 192500 ns"),
    ],
)
def test_each_difference_is_reported(profile, tmp_path, wanted, changes, says):
    events = copy.deepcopy(EVENTS)
    at = next(number for number, one in enumerate(events) if one.get("cat") == wanted)
    changed = {**events.pop(at), **changes}
    assert says in compared(profile, [*events, changed] if changes else events, tmp_path)


def test_a_name_that_the_demanglers_write_differently_is_compared_by_what_it_names(
    profile, tmp_path
):
    events = copy.deepcopy(EVENTS)
    for one in events:
        one["name"] = one["name"].replace("add<float,4>(", "add<float, (int)4>(")
    assert compared(profile, events, tmp_path) == []
