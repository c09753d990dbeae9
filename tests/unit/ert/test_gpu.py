"""The GPU's ceilings: operation counts, and that the kernels compile; no GPU is needed."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from taupy.cuda import nvrtc
from taupy.cuda.nvrtc import CompileError
from taupy.ert import gpu

MB = 1 << 20


def test_a_matrix_operation_counts_2mnk():
    assert gpu.mma_flop("fp16", 90) == gpu.mma_flop("bf16", 80) == 4096
    assert gpu.mma_flop("tf32", 80) == 2048
    assert gpu.mma_flop("fp64", 80) == 512
    assert gpu.mma_flop("fp64", 90) == 4096  # m16n8k16
    assert gpu.mma_flop("int8", 80) == gpu.mma_flop("fp8", 89) == 8192
    assert gpu.mma_flop("fp16", 75) == 2048
    assert gpu.mma_flop("fp16", 70) == 2048


def test_arrays_lie_in_their_level():
    assert gpu.level_bytes("DRAM", 50 * MB, 140 << 30) == 1024 * MB
    assert gpu.level_bytes("DRAM", 126 * MB, 180 << 30) == 2016 * MB
    assert gpu.level_bytes("DRAM", 4 * MB, 1 << 30) == 128 * MB
    assert gpu.level_bytes("L2", 50 * MB, 140 << 30) == 12_800 << 10
    assert gpu.level_bytes("L2", 126 * MB, 180 << 30) == 16 * MB
    assert gpu.level_bytes("L2", 1 * MB, 8 << 30) == MB


def compiler():
    try:
        return nvrtc.supported()
    except nvrtc.CompileError as problem:
        pytest.skip(str(problem))


def test_every_gpu_of_the_compiler_has_its_kernels():
    source = gpu.SOURCE.read_text("utf-8")
    for capability in (each for each in compiler() if each in (70, 75, 80, 89, 90, 120)):
        code = nvrtc.compile(source, capability)
        wanted = {memory.kernel for memory in gpu._MEMORY} | {"fma_fp64", "fma_fp32", "fma_fp16"}
        wanted |= {"mma_fp16", "clock_rate", "empty"}
        wanted |= {"mma_bf16", "mma_tf32", "mma_fp64", "fma_bf16"} if capability >= 80 else set()
        assert all(name.encode() in code for name in wanted)
        # Elsewhere other instructions stand in for it, and its rate would be none.
        assert (b"mma_fp8" in code) == (capability in (89, 120))


def test_a_librarys_rates_are_there_whatever_went_wrong_with_ours(monkeypatch):
    def micro(*_):
        yield "ours"
        raise CompileError("no compiler")

    monkeypatch.setattr(gpu, "_micro", micro)
    monkeypatch.setattr(gpu, "_library", lambda *_: iter(["theirs"]))
    found = []
    with pytest.raises(CompileError, match="no compiler"):
        found += gpu.characterize(None, None, None)
    assert found == ["ours", "theirs"]


def test_a_librarys_process_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    """Where PyTorch is installed, here a package of a path of its own."""
    for name in ("json", "time", "torch"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "torch.py").write_text("raise SystemExit(print('{\"rates\": 3}'))\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu.sys, "path", [str(installed), *gpu.sys.path])
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: name)
    asked = []
    with pytest.raises(KeyError, match="version"):  # it is the installed one that answers
        list(gpu._library(None, SimpleNamespace(ordinal=0), asked.append))
    assert asked and not (tmp_path / "mark").exists()


def driver_of(log, status=0):
    """Functions of a driver that note what they are called with: addresses, by name."""
    six, handle = [ctypes.c_uint] * 6, ctypes.c_void_p

    @ctypes.CFUNCTYPE(ctypes.c_int, handle, *six, ctypes.c_uint, handle, handle, handle)
    def launch(kernel, *rest):
        log.append(("launch", kernel, *rest))
        return status

    @ctypes.CFUNCTYPE(ctypes.c_int, handle)
    def wait(stream):
        log.append(("wait", stream))
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, handle, handle)
    def record(event, stream):
        log.append(("record", event, stream))
        return 0

    return [launch, wait, record]


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def test_launches_are_timed_between_their_events():
    micro = pytest.importorskip("taupy._native.micro", reason="it is not built")
    log = []
    functions = driver_of(log)
    launch, wait = functions[:2]
    status, seconds = micro.launches(*map(address, functions), 5, 6, 7, 8, 3)
    one = ("launch", 5, 1, 1, 1, 1, 1, 1, 0, 6, None, None)
    assert log == [("record", 7, 6), one, one, one, ("record", 8, 6), ("wait", 6)]
    assert status == 0 and 0 < seconds < 60
    log.clear()
    micro.launches(address(launch), address(wait), 0, 5, 6, 7, 8, 1)
    assert log == [one, ("wait", 6)]


def test_a_launch_that_the_driver_refuses_ends_it():
    micro = pytest.importorskip("taupy._native.micro", reason="it is not built")
    log = []
    functions = driver_of(log, status=700)
    assert micro.launches(*map(address, functions), 5, 6, 7, 8, 3)[0] == 700
    assert [each[0] for each in log] == ["record", "launch"]


def test_a_program_that_does_not_compile_is_reported_in_one_line():
    capability = compiler()[-1]
    with pytest.raises(nvrtc.CompileError, match=f"compute capability {capability}: .*error"):
        nvrtc.compile("this is no CUDA", capability)
