"""What each kernel of kernels.cu must have, worked out by hand from its source.

Every kernel that ends with `y[threadIdx.x] = ...` has one store. `mix` gives instructions by kind
and depth of loops ("fp32 at 1"); kinds that address arithmetic and moves need are left out, as
compilers differ there. `reaches` gives memory accesses: what, space, bytes, pattern, stride,
depth -> number. `loops` gives the depths of the loops, in order.
"""

from __future__ import annotations

from typing import NamedTuple

CHIPS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

Reach = tuple[str, str, int, str, int | None, int]


class Expected(NamedTuple):
    mix: dict[str, int]
    reaches: dict[Reach, int]
    loops: tuple[int, ...] = ()
    divergent: int = 0
    shared: int = 0
    since: str = "7.5"


def reach(
    what: str, bytes: int, pattern: str = "contiguous", depth: int = 0,
    space: str = "global", stride: int | None = None, times: int = 1,
) -> dict[Reach, int]:  # fmt: skip
    return {(what, space, bytes, pattern, stride, depth): times}


def load(bytes: int, pattern: str = "contiguous", depth: int = 0, **more) -> dict[Reach, int]:
    return reach("load", bytes, pattern, depth, **more)


def store(bytes: int, pattern: str = "contiguous", depth: int = 0, **more) -> dict[Reach, int]:
    return reach("store", bytes, pattern, depth, **more)


SHARED = {"space": "shared"}
MMA_SUM = {"fp32 at 0": 3}  # four results are added up: three additions
MANY = {"fp32 at 1": 100}  # the loop over j stays, that over i is 100 multiply-adds

EXPECTED = {
    # y and x are read, y written, one multiply-add; what is past n leaves: one branch by thread.
    "saxpy": Expected({"fp32 at 0": 1}, load(4, times=2) | store(4), divergent=1),
    "daxpy": Expected({"fp64 at 0": 1}, load(8, times=2) | store(8)),
    "haxpy": Expected({"fp16 at 0": 1}, load(4, times=2) | store(4)),
    "copy16": Expected({}, load(16) | store(16)),
    "copy8": Expected({}, load(8) | store(8)),
    "copy1": Expected({}, load(1) | store(1)),
    # 2 floats from thread to thread.
    "every_second": Expected({}, load(4, "strided", stride=8) | store(4)),
    "column": Expected({}, load(4, "launch") | store(4)),
    "broadcast": Expected({}, load(4, "same") | store(4)),
    "gather": Expected({}, load(4) | load(4, "unknown") | store(4)),
    # Backwards by 4 bytes is contiguous, too.
    "reversed": Expected(
        {"barrier at 0": 1},
        load(4) | store(4) | store(4, **SHARED) | load(4, **SHARED),
        shared=1024,
    ),
    "bank_pairs": Expected(
        {"barrier at 0": 1},
        load(4) | store(4) | store(4, "strided", stride=8, **SHARED) | load(4, **SHARED),
        shared=2048,
    ),
    "one_bank": Expected(
        {"barrier at 0": 1},
        load(4) | store(4) | store(4, "strided", stride=128, **SHARED) | load(4, **SHARED),
        shared=4096,
    ),
    "one_loop": Expected({"fp32 at 1": 1}, load(4, depth=1) | store(4), (1,)),
    # x in the inner loop; y[j] is the same for all threads, in the outer one.
    "two_loops": Expected(
        {"fp32 at 2": 1}, load(4, depth=2) | load(4, "same", 1) | store(4), (1, 2)
    ),
    "three_loops": Expected({"fp32 at 3": 1}, load(4, depth=3) | store(4), (1, 2, 3)),
    "unrolled_in_loop": Expected({"fp32 at 1": 4}, load(4, depth=1, times=4) | store(4), (1,)),
    "unrolled": Expected({"fp32 at 0": 16}, load(4, times=16) | store(4)),
    "barriers_in_loop": Expected(
        {"barrier at 1": 2, "fp32 at 1": 1},
        load(4, depth=1) | store(4) | store(4, depth=1, **SHARED) | load(4, depth=1, **SHARED),
        (1,),
        shared=1024,
    ),
    # No thread index stands in the addresses.
    "not_spilling": Expected(MANY, load(4, "same", times=100) | store(4, "same", times=100), (1,)),
    "divergent": Expected({"conversion at 1": 1}, store(4, "same", 1), (1,), divergent=1),
    "uniform": Expected({"conversion at 1": 1}, store(4, depth=1), (1,)),
    # 16, 8, 4, 2, 1.
    "shuffles": Expected({"warp at 0": 5, "fp32 at 0": 5}, load(4) | store(4)),
    # Sine and cosine, each of an argument that is multiplied by 1 / (2 pi); one sum of both.
    "special": Expected({"special at 0": 2}, load(4) | store(4)),
    "converting": Expected({"conversion at 0": 1}, load(4) | store(8)),
    "constants": Expected({}, load(4) | store(4)),
    "mma_f16": Expected({"tensor at 0": 1, **MMA_SUM}, load(4, "same", times=3) | store(4)),
    "mma_s8": Expected({"tensor at 0": 1}, load(4, "same", times=2) | store(4)),
    "mma_f16_deep": Expected(
        {"tensor at 0": 1, **MMA_SUM}, load(4, "same", times=6) | store(4), since="8.0"
    ),
    "mma_bf16": Expected(
        {"tensor at 0": 1, **MMA_SUM}, load(4, "same", times=6) | store(4), since="8.0"
    ),
    "mma_tf32": Expected(
        {"tensor at 0": 1, **MMA_SUM}, load(4, "same", times=6) | store(4), since="8.0"
    ),
    "mma_f64": Expected(
        {"tensor at 0": 1, "fp64 at 0": 1}, load(8, "same", times=2) | store(8), since="8.0"
    ),
}

TENSOR = {
    "mma_f16": "HMMA.1688.F32",
    "mma_s8": "IMMA.8816.S8.S8",
    "mma_f16_deep": "HMMA.16816.F32",
    "mma_bf16": "HMMA.16816.F32.BF16",
    "mma_tf32": "HMMA.1688.F32.TF32",
    "mma_f64": "DMMA.884",
}
"""How the disassembler spells shapes and types."""

OTHERWISE = {
    **{("mma_f64", chip): "DMMA.8x8x4" for chip in ("9.0", "10.0", "12.0")},  # a new spelling
    **{("mma_s8", chip): "IMMA.16816.S8.S8" for chip in ("10.0", "12.0")},  # twice the rows
}
"""(kernel, chip) -> how that chip does it instead."""
