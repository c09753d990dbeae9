"""The GPU's ceilings: operation counts, and that the kernels compile; no GPU is needed."""

from __future__ import annotations

import pytest

from taupy.cuda import nvrtc
from taupy.ert import gpu

MB = 1 << 20


def test_a_matrix_operation_counts_2mnk():
    assert gpu.mma_flop("fp16", 90) == gpu.mma_flop("bf16", 80) == 4096
    assert gpu.mma_flop("tf32", 80) == 2048
    assert gpu.mma_flop("fp64", 80) == 512
    assert gpu.mma_flop("int8", 80) == gpu.mma_flop("fp8", 89) == 8192
    assert gpu.mma_flop("fp16", 75) == 2048
    assert gpu.mma_flop("fp16", 70) == 2048


def test_arrays_lie_in_their_level():
    assert gpu.level_bytes("DRAM", 50 * MB, 140 << 30) == 256 * MB
    assert gpu.level_bytes("DRAM", 126 * MB, 180 << 30) == 504 * MB
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
    for capability in (each for each in compiler() if each in (70, 75, 80, 89, 90)):
        code = nvrtc.compile(source, capability)
        wanted = {memory.kernel for memory in gpu._MEMORY} | {"fma_fp64", "fma_fp32", "fma_fp16"}
        wanted |= {"mma_fp16", "clock_rate", "empty"}
        wanted |= {"mma_bf16", "mma_tf32", "mma_fp64", "fma_bf16"} if capability >= 80 else set()
        wanted |= {"mma_fp8"} if capability >= 89 else set()
        assert all(name.encode() in code for name in wanted)


def test_a_program_that_does_not_compile_is_told_in_one_line():
    capability = compiler()[-1]
    with pytest.raises(nvrtc.CompileError, match=f"compute capability {capability}: .*error"):
        nvrtc.compile("this is no CUDA", capability)
