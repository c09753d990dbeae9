"""A lower bound of a kernel's time, estimated from its code without a GPU.

Each pipe executes a fixed number of instructions per clock (`catalog/rates.py`), each memory moves
a fixed number of bytes; the slowest gives the bound. Latencies are ignored, so a real launch takes
longer. The caller provides the trip counts of loops; both sides of branches are assumed to run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taupy.catalog.datasheets import Datasheet
from taupy.catalog.rates import RATES, SHARED_BYTES, Rates
from taupy.model.kernel_code import Estimate, KernelCode

_PIPES = ("fp64", "fma", "alu", "fp16", "xu")
_SHAPE = re.compile(r"(8|16)8(4|8|16|32|64|128|256)\Z|(\d+)x(\d+)x(\d+)\Z")
_TYPES = (("TF32", "tf32"), ("BF16", "bf16"), ("E4M3", "fp8"), ("E5M2", "fp8"))
_OF_NAME = {"DMMA": "fp64", "IMMA": "int8", "IGMMA": "int8", "QMMA": "fp8", "QGMMA": "fp8"}
_GLOBAL = ("global", "generic")


def estimate(
    code: KernelCode,
    gpu: Datasheet,
    threads: int,
    trips: Sequence[float] = (),
    blocks: int | None = None,
) -> Estimate | None:
    """The bound of one launch; None if the chip's rates or clock are unknown.

    Args:
        threads: number of threads in the whole grid.
        trips: trip counts of loops by depth, the outermost first; 1 where missing.
        blocks: number of blocks in the grid, if known; if there are fewer blocks than
            multiprocessors, the rest are idle.
    """
    rates = RATES.get(gpu.compute_capability)
    if rates is None or not gpu.clock_hz:
        return None
    busy = min(gpu.multiprocessors, blocks or gpu.multiprocessors)
    clocks = busy * gpu.clock_hz / threads * 1e-9  # per thread and ns
    times = _of_pipes(code, rates, trips, clocks)
    times |= _of_memory(code, trips, clocks)
    dram = _moved(code, trips, _GLOBAL) * threads / gpu.dram * 1e9
    if dram:
        times["dram, if nothing is cached"] = dram
    left = []
    flops = _tensor_flops(code, trips)
    for kind, flop in flops.items():
        peak = gpu.peaks.get(f"tensor {kind}")
        if peak:
            times[f"tensor {kind}"] = flop * threads / peak * 1e9
        else:
            left.append(f"tensor {kind}")
    ordered = sorted(
        ((name, time) for name, time in times.items() if time), key=lambda part: -part[1]
    )
    return Estimate(gpu.gpu, tuple(ordered), tuple(left))


def runs(depth: int, trips: Sequence[float]) -> float:
    """How often an instruction runs that is nested in `depth` loops."""
    product = 1.0
    for at in range(depth):
        product *= trips[at] if at < len(trips) else 1.0
    return product


def _of_pipes(
    code: KernelCode, rates: Rates, trips: Sequence[float], clocks: float
) -> dict[str, float]:
    number = dict.fromkeys((*_PIPES, "issue", "shuffle"), 0.0)
    for part in code.counts:
        times = part.number * runs(part.depth, trips)
        number["issue"] += times
        if part.pipe in _PIPES:
            number[part.pipe] += times
        if part.kind == "warp" and part.pipe == "lsu":
            number["shuffle"] += times
    return {name: many / getattr(rates, name) / clocks for name, many in number.items()}


def _of_memory(code: KernelCode, trips: Sequence[float], clocks: float) -> dict[str, float]:
    names = {"L1 and shared memory": ("global", "generic", "shared", "local")}
    return {
        name: _moved(code, trips, spaces) / SHARED_BYTES / clocks for name, spaces in names.items()
    }


def _moved(code: KernelCode, trips: Sequence[float], spaces: Sequence[str]) -> float:
    """Bytes per thread. Data that all threads of a warp access in common move once per warp."""
    return sum(
        part.number * part.bytes * runs(part.depth, trips) / (32 if part.pattern == "same" else 1)
        for part in code.accesses
        if part.space in spaces
    )


def _tensor_flops(code: KernelCode, trips: Sequence[float]) -> dict[str, float]:
    """Type -> operations per thread."""
    sums: dict[str, float] = {}
    for part in code.counts:
        if part.kind == "tensor" and (flop := flop_of(part.detail)):
            kind = tensor_type(part.detail)
            sums[kind] = sums.get(kind, 0.0) + flop * part.number * runs(part.depth, trips)
    return sums


def flop_of(opcode: str) -> float:
    """Operations per thread in one matrix instruction: `HMMA.16816.F32` does 2 x 16 x 8 x 16
    in a warp of 32, `HGMMA.64x128x16.F32` 2 x 64 x 128 x 16 in a group of 128; 0 without a
    shape."""
    for part in opcode.split("."):
        if match := _SHAPE.match(part):
            if match[1]:
                return 2 * int(match[1]) * 8 * int(match[2]) / 32
            threads = 32 if opcode.startswith("DMMA") else 128
            return 2 * int(match[3]) * int(match[4]) * int(match[5]) / threads
    return 0.0


def tensor_type(opcode: str) -> str:
    """The data type of its factors: fp16, bf16, tf32, fp64, int8, fp8."""
    name, *parts = opcode.split(".")
    for word, kind in _TYPES:
        if word in parts:
            return kind
    return _OF_NAME.get(name, "fp16")
