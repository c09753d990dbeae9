"""Peak rates of a multiprocessor per clock, by compute capability and pipe.

Source: NVIDIA, CUDA C++ Best Practices Guide 13, "Throughput of Native Arithmetic
Instructions" (the Programming Guide's table until 12.9), as public repositories quote it, since
the guide itself was not at hand: 7.x to 9.0 from the Programming Guide 9.1 to 12.6, 8.0, 9.0 and
10.0 from the Best Practices Guide 13.0 in XLA's cuda_core_info_table.cc, 12.0 and 12.1 from 13.4.
Not found quoted: double precision of 7.5 and 8.9, 1/32 and 1/64 of single.

Values are instructions of single threads per clock: packed half precision counts as one. If sources
differ, the larger value is used, so that a bound remains a bound: half precision of 8.6 is 256
results in the guide, but the same as single precision in the GA102 whitepaper. `alu` is the fastest
integer operation: since 12.0 these are additions, 128 per clock, compared with 64 shifts and
logical operations. Shared memory has 32 banks of 4 bytes. Values that the guide does not give are
omitted.
"""

from __future__ import annotations

from typing import NamedTuple

SHARED_BYTES = 128
"""Bytes per clock of shared memory and L1."""


class Rates(NamedTuple):
    """Thread instructions per clock on one multiprocessor.

    Attributes:
        issue: instructions that its schedulers start: four warps per clock.
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
    "8.6": Rates(2, 128, 64, 128),
    "8.9": Rates(2, 128, 64, 64),
    "9.0": Rates(64, 128, 64, 128),
    "10.0": Rates(64, 128, 64, 64),
    "12.0": Rates(2, 128, 128, 64),
    "12.1": Rates(2, 128, 128, 64),
}
