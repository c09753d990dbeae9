"""The script of the first half hour with a GPU, where every step fails: the next one runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from taupy.catalog import spelling
from tests.fake_gpu import PRELUDE
from tests.gpu.comparison import stored
from tests.gpu.expected import copied, counted, ended, jitted
from tests.gpu.programs import gemms, jax_steps

SCRIPT = Path(__file__).parents[1] / "gpu" / "half_hour.sh"
STEPS = {
    "short1": "build doctor nvidia-smi record kineto compare smoke contexts pycuda "
    "expected-contexts tensor expected-tensor ncu-none ncu-none-dram ceilings",
    "short2": "build copies jax ends-profiler ends-exit ends-fork ends-sigkill trials "
    "expected-copies pycuda-ceilings cupti-python not-root",
    "pair-h100": "build setup-torch ceilings nccl first second layouts_changed casts_around_layers "
    "two_gpus two_gpus-trace two_gpus-no-pause kineto two_gpus-roofline record jax "
    "jax-no-autotuning jax-plain without-operators expected-two_gpus-trace",
    "pair-h200": "build setup-torch ceilings two_gpus two_gpus-trace two_gpus-no-pause kineto "
    "two_gpus-roofline record expected-two_gpus-trace",
    "1": "build doctor nvidia-smi setup-torch record copies tests expected-copies",
    "2": "build smoke tensor expected-tensor ncu-none ncu-none-dram ncu-all regions tau",
    "3": "build cost",
    "4": "build sampling jax ends-exit ends-_exit ends-fork ends-dataloader ends-sigkill "
    "ends-profiler trials expected-jax ceilings cupti-python not-root",
}
WITHOUT_GPU = {
    "record": "nothing was recorded", "nvidia-smi": "failed to run command",
    "ncu-none": "failed to run command", "ncu-none-dram": "failed to run command",
    "ncu-all": "failed to run command",
    "build": "not built in a test", "tests": "skipped", "sampling": "skipped",
    "expected": "DIFFERS", "ceilings": "no GPU 0", "compare": "nothing to compare",
    "contexts": "there is no CUDA driver", "pycuda": "No module named 'pycuda'",
    "pycuda-ceilings": "no GPU 0", "cupti-python": "cupti-python ",
    "layouts_changed": "NOT TRIED", "casts_around_layers": "NOT TRIED",
}  # fmt: skip
"""Of a step: what its log ends with where there is no GPU; of programs, what they need."""
RAISES = ("contexts", "pycuda", "not-root", "layouts_changed", "casts_around_layers")
"""What these programs need and is not there ends them with a traceback, as users would see it."""
NEEDS = ("PyTorch is not installed", "PyTorch finds no GPU", "JAX is not installed", "JAX finds no")


def call(number: str, folder: Path, *dry: str, **environ: str) -> subprocess.CompletedProcess[str]:
    told = {"OUT": str(folder / "out"), "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    words = number.replace("short", "--short ").replace("pair-", "--pair ").split()
    command = ["bash", str(SCRIPT), *dry, *words]
    return subprocess.run(command, env=told | environ, capture_output=True, text=True)


def kept(number: str, folder: Path) -> dict[str, str]:
    """The files that a call has packed, with their texts."""
    with tarfile.open(folder / "out" / f"call{number}.tar.gz") as packed:
        return {
            Path(member.name).name: packed.extractfile(member).read().decode(errors="replace")
            for member in packed.getmembers()
            if member.isfile()
        }


def statuses(files: dict[str, str]) -> dict[str, int]:
    lines = [line.split() for line in files["steps.txt"].splitlines()]
    return {line[0]: int(line[2]) for line in lines if line[0] != "wheels"}


def in_order(number: str, steps: dict[str, int]) -> list[str]:
    """Steps that ran beside others stand where those of the plan do."""
    wanted = STEPS[number].split()
    beside = {"setup-torch", "first"} if number.startswith("pair-") else set()
    rest = [step for step in steps if step not in beside]
    assert rest == [step for step in wanted if step not in beside]
    return [step for step in wanted if step in rest or step in steps]


@pytest.mark.parametrize("number", STEPS)
def test_each_step_that_fails_has_its_log_and_the_next_one_runs(number, tmp_path):
    done = call(number, tmp_path, PYTHON="false")
    assert done.returncode == 0, done.stderr
    files = kept(number, tmp_path)
    steps = statuses(files)
    assert in_order(number, steps) == STEPS[number].split()
    assert {f"{step}.log" for step in steps} <= set(files)
    assert not [step for step, status in steps.items() if status == 0 and step != "nvidia-smi"]


@pytest.mark.slow
@pytest.mark.parametrize("number", STEPS)
def test_with_a_real_python_each_step_says_what_is_missing(number, tmp_path):
    """A Python with PyTorch for the CPU, or without it, and no GPU: lines, no tracebacks."""
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("there is a GPU here: the steps may go well")
    python = tmp_path / "python"  # the tests' own build is left alone
    python.write_text(
        '#!/bin/sh\n[ "$1" = setup.py ] && { echo "not built in a test"; exit 1; }\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    done = call(number, tmp_path, PYTHON=str(python), HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    files = kept(number, tmp_path)
    assert in_order(number, statuses(files)) == STEPS[number].split()
    for step, status in statuses(files).items():
        log = files[f"{step}.log"]
        assert step in RAISES or "Traceback" not in log, log
        what = "expected" if step.startswith("expected-") else step
        wanted = (WITHOUT_GPU[what],) if what in WITHOUT_GPU else NEEDS
        assert step in ("doctor", "trials", "not-root") or any(text in log for text in wanted), log
        assert status != 0 or step in ("doctor", "tests", "sampling", "trials"), log


@pytest.mark.slow
def test_the_limits_of_each_call_are_below_ten_minutes_and_of_all_half_an_hour(tmp_path):
    """Each step may take its limit, and five seconds more to be killed."""
    (tmp_path / "bin").mkdir()
    timeout = tmp_path / "bin" / "timeout"
    timeout.write_text('#!/bin/sh\necho "$5" >> "$OUT/limits"\n')  # -s ABRT -k 5 SECONDS
    timeout.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    totals = {}
    for number in STEPS:
        out = tmp_path / number
        call(number, tmp_path, PYTHON="false", PATH=path, OUT=str(out))
        limits = [int(line) for line in (out / "limits").read_text().split()]
        wheels = 0 if len(limits) > len(STEPS[number].split()) else 15
        totals[number] = sum(limit + 5 for limit in limits) + wheels
    totals["pair-h100"] -= 90 + 5 + 20 + 5  # setup-torch and first, beside steps that take longer
    totals["pair-h200"] -= 35 + 5  # ceilings, beside setup-torch
    short, pair = (
        sum(total for number, total in totals.items() if number.startswith(kind))
        for kind in ("short", "pair-")
    )
    assert max(totals.values()) <= 590, totals
    assert short <= 660 and sum(totals.values()) - short - pair <= 1800, totals
    assert pair <= 900, totals


def test_ncu_is_asked_for_every_counter_that_is_written_down():
    text = SCRIPT.read_text()
    asked = "".join(re.findall(r"^ncu_metrics\+?=(.*)$", text, re.MULTILINE))
    for name, value in re.findall(r"^(path|op)=(\w+)$", text, re.MULTILINE):
        asked = asked.replace(f"${{{name}}}", value)
    counters = {counter for of in gemms.EXPECTED.values() for counter in of}
    counters -= {"counted_launches", "Memcpy HtoD", "Memcpy DtoH"}
    wanted = spelling.plan([*sorted(counters), "bytes_dram", "bytes_l2", "counted_time"], "GH100")
    assert not wanted.missing
    assert sorted(asked.split(",")) == sorted(wanted.metrics)


def test_what_must_be_counted_is_written_down_without_a_gpu(tmp_path):
    program = SCRIPT.parent / "programs" / "gemms.py"
    done = subprocess.run(
        [sys.executable, str(program), "--expected"], capture_output=True, text=True, check=True
    )
    expected = json.loads(done.stdout)
    assert {each for of in list(expected.values())[:5] for each in of.values()} == {137_438_953_472}
    assert expected["axpy"] == {"flop_fp32": 134_217_728}
    assert expected["passes"] == {
        "counted_launches": 10, "flop_fp32": 20_971_520, "bytes_l1": 167_772_160
    }  # fmt: skip
    assert expected["copy_in"] == {"Memcpy HtoD": 268_435_456}
    assert expected["copy_out"] == {"Memcpy DtoH": 268_435_456}
    program = SCRIPT.parent / "programs" / "jax_steps.py"
    done = subprocess.run(
        [sys.executable, str(program), "--expected"], capture_output=True, text=True, check=True
    )
    assert list(json.loads(done.stdout).values()) == ["train", 20]


def test_a_call_that_does_not_exist_is_refused(tmp_path):
    done = call("5", tmp_path)
    usage = "usage: half_hour.sh [--dry] --short 1|2, --pair h100|h200, or 1|2|3|4\n"
    assert (done.returncode, done.stderr) == (2, usage)
    assert (call("pair-a100", tmp_path).returncode, call("", tmp_path).returncode) == (2, 2)


# ------------------------------------------------ what is expected, beside the played GPU's trials

PLAYED = f"""
init()
def copy_in(): copy(1, 4 * {gemms.ELEMENTS})
def copy_out(n): copy(2, n)
def product_fp16(): launch('gemm', took={gemms.PRODUCT_FLOP})
def train(n):
    for i in range(n): launch('add')
def pool(n):
    cuda.fake_launch_in_pool(text('fusion'), b'pool', b'XlaModule:#hlo_module=jit_step,id=1#', n)
"""


@pytest.fixture
def played(played_gpu, tmp_path):
    def run(source: str, *options: str):
        (tmp_path / "prog.py").write_text(PRELUDE + PLAYED + source)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TAU")},
            "LD_LIBRARY_PATH": str(played_gpu),
            "TAUPY_CUPTI": str(played_gpu / "libcupti.so.13"),
            "TAUPY_STATE_DIR": str(tmp_path / "state"),
        }
        command = [sys.executable, "-m", "taupy", "run", "--db", "t.db", *options, "prog.py"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
        return stored(tmp_path / "t.db")

    return run


@pytest.mark.slow
def test_bytes_of_copies_are_compared_with_what_was_written_down(played):
    profile = played("copy_in(); copy_out(4)\n")
    assert [line[:] for line in copied(profile, gemms.EXPECTED)] == [
        ("copy_in, bytes of Memcpy HtoD", "268,435,456", "268,435,456", True),
        ("copy_out, bytes of Memcpy DtoH", "268,435,456", "4", False),
    ]


@pytest.mark.slow
def test_counters_are_compared_with_what_was_written_down(played):
    profile = played("product_fp16()\n", "--metrics", "flop_tensor_fp16")
    lines = {line.what: line for line in counted(profile, gemms.EXPECTED)}
    one = lines.pop("product_fp16, flop_tensor_fp16")
    assert (one.found, one.holds) == ("137,438,953,472", True)
    assert len(lines) == 8
    assert {(line.found, line.holds) for line in lines.values()} == {("nothing", False)}


@pytest.mark.slow
@pytest.mark.parametrize(("launches", "holds"), [(20, True), (21, False), (2, False)])
def test_the_kernels_of_a_compiled_step_are_launched_once_a_step(played, launches, holds):
    launched, owned = jitted(played(f"train({launches}); pool(3)\n"), jax_steps.EXPECTED)
    assert launched.holds is holds
    assert owned.found == f"{(launches + 3) / (launches + 4):.4f}"  # one kernel is in no range


@pytest.mark.slow
@pytest.mark.parametrize(("launches", "holds"), [(5501, True), (5500, False)])
def test_launches_and_activities_are_those_of_the_program(played, launches, holds):
    lines = list(ended(played(f"train({launches})\n", "--trace"), "exit"))
    assert [(line.found, line.holds) for line in lines] == [(f"{launches:,}", holds)] * 2


@pytest.mark.slow
def test_a_trial_that_is_not_there_differs(tmp_path, played):
    played("")
    program = SCRIPT.parent / "expected.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "t.db"), "jax"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "DIFFERS jax: jax: a trial expected, nothing\n")
