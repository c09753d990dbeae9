"""What a multiprocessor does at most in a clock, by compute capability and pipe.

Source: NVIDIA, CUDA C++ Programming Guide 13.0, "Arithmetic Instructions" and the sections
"Architecture" of each compute capability (cores for FP32, FP64 and INT32, special function
units); 32 banks of 4 bytes of shared memory. Values are instructions of single threads in a
clock. Packed half precision counts as one instruction: half of the guide's results. What the
guide does not give is left out. Not yet compared with a copy of the guide, number by number.
"""

from __future__ import annotations

from typing import NamedTuple

SHARED_BYTES = 128
"""Bytes in a clock that shared memory and L1 move."""


class Rates(NamedTuple):
    """Instructions of threads in a clock on one multiprocessor.

    Attributes:
        issue: what its schedulers start: four warps in a clock.
        xu: special functions and conversions.
        shuffle: exchanges within a warp, by the load and store units.
    """

    fp64: int
    fma: int
    alu: int
    fp16: int
    xu: int = 16
    issue: int = 128
    shuffle: int = 32


RATES = {
    "7.0": Rates(32, 64, 64, 64),
    "7.5": Rates(2, 64, 64, 64),
    "8.0": Rates(32, 64, 64, 128),
    "8.6": Rates(2, 128, 64, 64),
    "8.9": Rates(2, 128, 64, 64),
    "9.0": Rates(64, 128, 64, 128),
    "10.0": Rates(64, 128, 64, 128),
    "12.0": Rates(2, 128, 128, 64),
    "12.1": Rates(2, 128, 128, 64),
}
