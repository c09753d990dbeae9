"""Theoretical occupancy: how many warps of a kernel fit on a multiprocessor, and what limits them.

Computed from a kernel's launch (threads, registers, shared memory) and the limits of the compute
capability. The achieved occupancy is a measured counter instead.

Source: NVIDIA, CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute
Capability"; the rules and granularities of cuda_occupancy.h (CUDA 13.0).
"""

from __future__ import annotations

from math import prod

from taupy.dataclass import NamedTuple
from taupy.model.gpu import Configuration

WARP_THREADS = 32
PARTITIONS = 4  # a multiprocessor's registers lie in four parts, and a warp in one of them
REGISTERS_A_MULTIPROCESSOR = 65536
REGISTERS_AT_ONCE = 256  # granularity in which a warp's registers are allocated
_KIB = 1024


class Limits(NamedTuple):
    """Limits of a multiprocessor of a compute capability.

    Attributes:
        shared_bytes: configurable sizes of its shared memory, in KiB.
        shared_step: a block's shared memory is rounded up to a multiple of these bytes.
        shared_reserved: bytes of each block that are reserved for the system.
    """

    warps: int
    blocks: int
    shared_kib: tuple[int, ...]
    shared_step: int
    shared_reserved: int


_AMPERE = (0, 8, 16, 32, 64, 100, 132, 164)
_SMALL = (0, 8, 16, 32, 64, 100)
_HOPPER = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

LIMITS = {
    "7.0": Limits(64, 32, (0, 8, 16, 32, 64, 96), 256, 0),
    "7.2": Limits(64, 32, (0, 8, 16, 32, 64, 96), 256, 0),
    "7.5": Limits(32, 16, (32, 64), 256, 0),
    "8.0": Limits(64, 32, _AMPERE, 128, _KIB),
    "8.6": Limits(48, 16, _SMALL, 128, _KIB),
    "8.7": Limits(48, 16, _AMPERE, 128, _KIB),
    "8.9": Limits(48, 24, _SMALL, 128, _KIB),
    "9.0": Limits(64, 32, _HOPPER, 128, _KIB),
    "10.0": Limits(64, 32, _HOPPER, 128, _KIB),
    "10.3": Limits(64, 32, _HOPPER, 128, _KIB),
    "11.0": Limits(48, 24, _HOPPER, 128, _KIB),
    "12.0": Limits(48, 24, _SMALL, 128, _KIB),
    "12.1": Limits(48, 24, _SMALL, 128, _KIB),
}
"""By compute capability. 10.1 became 11.0 in CUDA 13."""


class Occupancy(NamedTuple):
    """The share of a multiprocessor's warps that fit at once, and what limits them: "warps",
    "blocks", "registers", "shared memory", or several of these."""

    share: float
    limiter: str
    blocks: int


def occupancy(
    compute_capability: str,
    threads: int,
    registers: int,
    shared_bytes: int,
    shared_set_bytes: int | None = None,
) -> Occupancy | None:
    """The theoretical occupancy of a kernel; None if it cannot be determined.

    Args:
        compute_capability: "9.0".
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block, static and dynamic.
        shared_set_bytes: what the multiprocessor's shared memory was set to; None: as much
            as it can have.
    """
    limits = LIMITS.get(compute_capability)
    if limits is None or threads <= 0 or registers < 0 or shared_bytes < 0:
        return None
    warps = -(-threads // WARP_THREADS)
    fits = {"warps": limits.warps // warps, "blocks": limits.blocks}
    if registers:
        step = -(-registers * WARP_THREADS // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
        a_partition = REGISTERS_A_MULTIPROCESSOR // PARTITIONS // step
        fits["registers"] = a_partition * PARTITIONS // warps
    shared = shared_bytes + limits.shared_reserved
    if shared:
        shared = -(-shared // limits.shared_step) * limits.shared_step
        fits["shared memory"] = _shared_memory(limits, shared, shared_set_bytes) // shared
    blocks = min(fits.values())
    if blocks <= 0:
        return None  # such a launch fails: its configuration must be wrong
    return Occupancy(
        blocks * warps / limits.warps,
        ", ".join(name for name, most in fits.items() if most == blocks),
        blocks,
    )


def fitted(launch: Configuration, compute_capability: str) -> Configuration:
    """A launch with the occupancy that it allows, in place of what another tool says of it; none
    where threads, registers or shared memory of the launch, or the capability, are unknown."""
    fits = None
    if launch.block is not None and launch.registers is not None:
        shared = launch.shared_dynamic_bytes
        if shared is not None:
            shared += launch.shared_static_bytes or 0
            fits = occupancy(compute_capability, prod(launch.block), launch.registers, shared)
    return launch._replace(
        occupancy=fits.share if fits else None, limiter=fits.limiter if fits else None
    )


def _shared_memory(limits: Limits, block: int, configured: int | None) -> int:
    """Bytes of the multiprocessor's shared memory: as configured, if a block fits."""
    most = limits.shared_kib[-1] * _KIB
    if configured is None:
        return most
    if configured >= block:
        return min(configured, most)
    return next((kib * _KIB for kib in limits.shared_kib if kib * _KIB >= block), 0)
