"""NVML's facts and samples, asked of a library that plays it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from taupy.collectors import nvml
from taupy.model.gpu import Fact
from taupy.model.processes import is_alive, process_start
from taupy.state import values
from taupy.state.folder import open_run

SOURCE = Path(__file__).with_name("fake_nvml.c")


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the library that plays NVML")
    target = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(SOURCE)]
    subprocess.run(command, check=True)
    return target


@pytest.fixture
def library(played, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(played)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    nvml.problem.cache_clear()
    yield
    nvml.problem.cache_clear()


@pytest.mark.usefixtures("library")
def test_facts_of_a_gpu():
    assert nvml.uuids() == ["GPU-aaaa", "GPU-bbbb"]
    assert nvml.facts("GPU-aaaa") == [
        Fact("Driver Version", "580.1"),
        Fact("Power Limit", 700, "W"),
        Fact("Max SM Clock", 1_980_000_000, "Hz"),
        Fact("Max Memory Clock", 3_201_000_000, "Hz"),
        Fact("PCIe Generation", 5),
        Fact("PCIe Width", 16),
        Fact("ECC Mode", "on"),
        Fact("MIG Mode", "off"),
        Fact("NVLink Links", 3),
    ]


@pytest.mark.usefixtures("library")
def test_what_a_gpu_does_not_report_is_left_out():
    names = {fact.name for fact in nvml.facts("GPU-bbbb")}
    assert "Power Limit" in names
    assert not names & {"Max SM Clock", "MIG Mode"}
    assert ("Temperature", "C") not in nvml.sample("GPU-bbbb")
    assert nvml.facts("GPU-cccc") == []
    assert nvml.sample("GPU-cccc") == {}


def test_without_nvml_there_is_nothing(monkeypatch):
    monkeypatch.setattr(nvml, "problem", lambda: "there is no libnvidia-ml")
    assert nvml.uuids() == []
    assert nvml.facts("GPU-aaaa") == []
    assert nvml.driver_version() is None


@pytest.mark.usefixtures("library")
def test_the_sampler_ends_with_the_program_and_keeps_what_it_saw(tmp_path, monkeypatch):
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    looks = []
    start = process_start(program.pid)

    def seen_alive(pid, start):
        looks.append(pid)
        if len(looks) == 10:  # it ends, and nobody has waited for it yet
            program.stdin.close()
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return is_alive(pid, start)

    monkeypatch.setattr(nvml, "is_alive", seen_alive)
    nvml.watch(open_run(str(tmp_path)), program.pid, start, interval_s=0.02)
    program.wait()
    assert looks == [program.pid] * 10
    events = nvml.user_events(open_run(str(tmp_path)), {"GPU-aaaa": 3})
    power = next(event for event in events if event.name == "GPU[3] Power")
    assert power.count == 10
    assert (power.unit, power.minimum, power.maximum) == ("W", 100.0, 200.0)
    clock = next(event for event in events if event.name == "GPU[3] SM Clock")
    assert (clock.mean, clock.unit) == (1.98e9, "Hz")
    assert {event.name.partition(" ")[0] for event in events} == {"GPU[3]"}


@pytest.mark.usefixtures("library")
def test_the_sampler_ends_when_the_run_folder_is_gone(tmp_path):
    (tmp_path / "gone").mkdir(mode=0o700)
    folder = open_run(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    nvml.watch(folder, os.getpid(), process_start(os.getpid()), interval_s=0.01)
    assert nvml.user_events(folder, {"GPU-aaaa": 0}) == []


@pytest.mark.parametrize(
    "kept",
    [
        b"no record at all",
        values.dumps([1, 2]),
        values.dumps({"GPU-aaaa": [("Power", "W", 0, 1.0, 1.0, 1.0, 1.0)]}),  # none of nothing
        values.dumps({"GPU-aaaa": [("Power", "W", 1, 1.0, 1.0, float("nan"), 1.0)]}),
        values.dumps({"GPU-aaaa": [("Power", "W", 1)]}),
    ],
)
def test_damaged_samples_are_no_samples(tmp_path, kept):
    (tmp_path / nvml.SAMPLES).write_bytes(kept)
    assert nvml.user_events(open_run(str(tmp_path)), {"GPU-aaaa": 0}) == []


def test_the_sampler_is_no_child_of_the_program(played, tmp_path, monkeypatch):
    """It is found by its command line, and nobody can wait for it."""
    program = f"""
import os, sys, time
from taupy.collectors import nvml
from taupy.state.folder import open_run
from taupy.model.processes import process_start
from taupy.state import values
from taupy.state.folder import open_run
nvml._CONTROL = "/dev/null"
folder = open_run({str(tmp_path)!r})
assert nvml.begin(folder, os.getpid(), process_start(os.getpid()))
try:
    os.waitpid(-1, 0)
    print("a child")
except ChildProcessError:
    print("no child")
deadline = time.monotonic() + 60
while not (folder / nvml.SAMPLES).exists() and time.monotonic() < deadline:
    time.sleep(0.02)
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(played.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "no child\n", done.stderr
    events = nvml.user_events(open_run(str(tmp_path)), {"GPU-aaaa": 0, "GPU-bbbb": 1})
    assert {event.name for event in events} >= {"GPU[0] Power", "GPU[1] Power"}


def test_a_missing_package_is_the_reason_that_doctor_gives(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    nvml.problem.cache_clear()
    try:
        assert nvml.problem() == "the package nvidia-ml-py cannot be imported"
        assert nvml.uuids() == [] and nvml.driver_version() is None
    finally:
        nvml.problem.cache_clear()
