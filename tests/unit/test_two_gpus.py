"""The training that was made for two kinds of GPU: what it plans comes out, as far as can be seen
without a GPU. With PyTorch it runs on the CPU, on the simulated driver without PyTorch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.comparison import stored
from tests.gpu.expected import trained
from tests.gpu.programs import two_gpus
from tests.gpu.programs.two_gpus import GPUS, KINETO_STEPS, STEPS, WARM_UP

PROGRAM = Path(two_gpus.__file__)
PLAYED = Path(__file__).parents[1] / "fake_gpu" / "two_gpus.py"


def printed(*options: str) -> str:
    command = [sys.executable, str(PROGRAM), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("gpu", GPUS)
def test_no_kernel_is_estimated_to_take_a_quarter_of_the_time(gpu):
    """A fifth at most: kernels reach other shares of what the data sheets say."""
    seconds = two_gpus.estimates(gpu)
    assert max(seconds.values()) < 0.2 * sum(seconds.values())
    assert 4e-3 < sum(seconds.values()) < 8e-3


def test_memory_decides_what_the_element_wise_operators_take():
    """3352 of 4800 GB/s. Products have no more flop/s on an H200."""
    one, other = (two_gpus.estimates(gpu) for gpu in GPUS)
    for kernel in ("mul_", "addcmul_", "clamp_", "optimizer"):
        assert other[kernel] / one[kernel] == pytest.approx(0.698, abs=0.001)
    assert other["products, forward"] == pytest.approx(one["products, forward"], rel=0.001)
    assert 4 * two_gpus.FULL.big == 1 << 30


def test_what_must_come_out_is_printed():
    """8,192 tokens; weights of 2048 x (3 + 1 + 4 + 4) 2048 numbers; 4000 FMA in 256 threads."""
    expected = json.loads(printed("--expected"))
    assert expected["flop_per_step"] == {
        "aten::mm": 3 * 2 * 8192 * 12 * 2048**2,
        "attention": 14 * 4 * 2048**3,
        "loaded_late": 2_048_000,
    }
    assert expected["operators"]["aten::mm"] == 3 * 4 * 15
    assert expected["copied_bytes"]["lone_copy"] == {"Memcpy HtoD": 268_435_456}
    planned = [(one["step"], one["cause"], one["at_least_ns"]) for one in expected["idle"]]
    assert planned == [
        (None, "synchronisation", 0), (5, "host", 20_000_000), (6, "data loading", 30_000_000),
        (6, "copies only", 4_194_304), (7, "memory allocation", 50_000),
        (8, "loading code", 50_000),
    ]  # fmt: skip
    assert "products, forward" in printed("--estimates")


def test_the_kernel_that_is_loaded_late_can_be_compiled(tmp_path):
    if shutil.which("ptxas") is None:
        pytest.skip("no ptxas here")
    (tmp_path / "k.ptx").write_text(two_gpus.ptx())
    command = ["ptxas", "-arch=sm_90", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert b"loaded_late" in (tmp_path / "k.cubin").read_bytes()


# ---------------------------------------------------------------------------- with PyTorch


def without_gpu(*options: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    return subprocess.run(
        [sys.executable, str(PROGRAM), "--small", *options],
        capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip


@pytest.mark.slow
def test_two_runs_compute_the_same_with_and_without_the_sleep():
    outputs = [done.stdout for done in (without_gpu(), without_gpu("--no-pause"))]
    assert re.fullmatch(r"loss \d+\.\d{6}\n", outputs[0])
    assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_four_steps_are_in_the_trace_of_torch_profiler_and_no_folder_or_host(tmp_path):
    file = tmp_path / "trace.json"
    done = without_gpu("--kineto", str(file))
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    trace = json.loads(text)
    names = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    of_gpus = {"aten::_cudnn_rnn"} | {name for name in names if "flash" in name}
    steps = WARM_UP + STEPS
    for operator, calls in two_gpus.expected()["operators"].items():
        if operator not in of_gpus and "flash" not in operator:
            assert names.count(operator) == calls // steps * len(KINETO_STEPS), operator
    assert [f"ProfilerStep#{WARM_UP + step - 1}" in text for step in range(4, 10)] == [
        False, True, True, True, True, False
    ]  # fmt: skip
    assert any("Input Dims" in event.get("args", {}) for event in trace["traceEvents"])
    assert any(event.get("cat") == "python_function" for event in trace["traceEvents"])
    assert set(trace) <= set(two_gpus.KEPT)
    host = f'"{os.uname().nodename}"'
    for private in (host, os.path.expanduser("~"), sys.prefix, str(tmp_path)):
        assert private not in text
    assert not re.search(r'"/[\w.-]+/', text)


def test_a_trace_keeps_no_environment():
    trace = {
        "traceName": "/tmp/x", "trace_id": "1", "host_name": "node7", "env": {"TOKEN": "x"},
        "deviceProperties": [{"name": "GPU X"}],
        "traceEvents": [
            {"ph": "M", "name": "process_labels", "args": {"labels": "secret"}},
            {"ph": "X", "name": f"{os.path.dirname(os.__file__)}/queue.py(5): get"},
            {"ph": "X", "name": "a / b", "args": {"file": "/srv/someone/own.py", "list": ["/a/b"]}},
        ],
    }  # fmt: skip
    assert two_gpus.cleaned(trace) == {
        "deviceProperties": [{"name": "GPU X"}],
        "traceEvents": [
            {"ph": "X", "name": "queue.py(5): get"},
            {"ph": "X", "name": "a / b", "args": {"file": "own.py", "list": ["b"]}},
        ],
    }


# ------------------------------------------------------------------- on the simulated driver


@pytest.fixture(scope="module")
def played(played_gpu, tmp_path_factory):
    """The trial of `two_gpus.py` on a simulated H100."""
    folder = tmp_path_factory.mktemp("played")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
        "LD_LIBRARY_PATH": str(played_gpu),
        "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
        "TAUPY_STATE_DIR": str(folder / "state"),
        "FAKE_NAME": "NVIDIA H100 80GB HBM3",
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "taupy", "run", "--db", "t.db", "--trace=gpu,host"),
            *("--trial", "two_gpus-trace", str(PLAYED)),
        ],
        cwd=folder, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "t.db"


@pytest.mark.slow
def test_all_that_is_planned_is_in_the_trial(played):
    lines = list(trained(stored(played, "two_gpus-trace"), two_gpus.expected()))
    assert [line for line in lines if not line.holds] == []
    assert {line.what for line in lines} >= {
        "loaded_late", "kernels of the graph", "calls of aten::mm", "NVTX range step -2",
        "NVTX marks before the result", "lone_copy, bytes of Memcpy HtoD", "block, calls",
        "empty_and_allocate, bytes allocated", "largest share of GPU time",
        "step 5, ns of host", "step 6, ns of data loading", "step 6, ns of copies only",
        "step 7, ns of memory allocation", "step 8, ns of loading code",
    }  # fmt: skip


@pytest.mark.slow
def test_what_is_not_as_planned_is_named(played):
    planned = two_gpus.expected()
    planned["launches"]["loaded_late"] = 6
    planned["idle"] = [{**planned["idle"][1], "step": 4}]  # the sleep is in step 5
    planned["largest_share"] = 0.01
    wrong = [line for line in trained(stored(played, "two_gpus-trace"), planned) if not line.holds]
    assert [(line.what, line.expected) for line in wrong] == [
        ("loaded_late", "6"), ("largest share of GPU time", "at most 0.01"),
        ("step 4, ns of host", "at least 20,000,000"),
    ]  # fmt: skip
