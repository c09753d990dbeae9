"""Occupancy of a kernel's code by block size and chip, and the best block size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from taupy.catalog.occupancy import Occupancy, occupancy
from taupy.dataclass import NamedTuple
from taupy.model.kernel_code import KernelCode

BLOCKS = tuple(range(32, 1025, 32))
SHOWN_BLOCKS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


class Fit(NamedTuple):
    """The occupancy of a block size on a chip; None if no block fits."""

    chip: str
    block: int
    occupancy: Occupancy | None


def fits(
    code: KernelCode,
    chips: Iterable[str],
    blocks: Sequence[int] = BLOCKS,
    dynamic: int | None = None,
) -> Iterator[Fit]:
    """Each block size on each chip, assuming the same number of registers, although code compiled
    for another chip may use a different number.

    Args:
        dynamic: dynamic shared memory of the launch in bytes; None for the amount noted by the
            compiler, or 0.
    """
    for chip in chips:
        for block in blocks:
            yield Fit(chip, block, at(code, block, chip, dynamic))


def at(
    code: KernelCode,
    block: int,
    chip: str | None = None,
    dynamic: int | None = None,
    registers: int | None = None,
) -> Occupancy | None:
    """The occupancy for one block size; None if it does not fit, is not allowed, or is unknown.

    Args:
        registers: number to use instead of the code's own.
    """
    taken = code.registers if registers is None else registers
    if taken is None or not code.is_kernel or not code.launch.allow(block):
        return None
    added = (code.launch.dynamic_shared or 0) if dynamic is None else dynamic
    return occupancy(chip or code.chip, block, taken, code.block_shared_bytes + added)


def best(code: KernelCode, chip: str | None = None, dynamic: int | None = None) -> Fit | None:
    """The block size with the highest occupancy; of equal ones, the smallest; None if none fits."""
    blocks = (code.launch.block,) if code.launch.block else BLOCKS
    fitting = [fit for fit in fits(code, [chip or code.chip], blocks, dynamic) if fit.occupancy]
    return max(fitting, key=lambda fit: (fit.occupancy.share if fit.occupancy else 0, -fit.block),
               default=None)  # fmt: skip


def fitting(
    code: KernelCode, block: int | None = None, dynamic: int | None = None
) -> tuple[int | None, float | None, str]:
    """Block size, occupancy [%] and limiter with this block size, or else with the best one."""
    if block:
        fit = at(code, block, dynamic=dynamic)
        return (block, 100 * fit.share, fit.limiter) if fit else (block, None, "")
    chosen = best(code, dynamic=dynamic)
    if chosen is None or chosen.occupancy is None:
        return None, None, ""
    return chosen.block, 100 * chosen.occupancy.share, chosen.occupancy.limiter
