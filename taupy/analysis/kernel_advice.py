"""Advice on a kernel from its code: each proposal has an upper bound on the gain.

The bound is the largest share of the kernel's time that the proposal can save; None if the code
alone does not give one. It is reached only if the kernel waits for nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from taupy.analysis import kernel_occupancy
from taupy.analysis.kernel_occupancy import Fit
from taupy.catalog.datasheets import DATASHEETS
from taupy.dataclass import NamedTuple
from taupy.model.kernel_code import MULTIPLY_ADD, Access, KernelCode

LEAST_GAIN = 0.1
"""Smaller gains of occupancy are not proposed."""

BARRIER_INSTRUCTIONS = 60
"""Loops with fewer instructions per barrier than this are reported."""

LEAST_SHARE = 0.25
"""Spills that are less of a loop's instructions, and accesses of which less of the traffic is not
used, have no bound."""

_SPILL = 160
"""A warp's access of 128 bytes in DRAM takes as long as up to so many arithmetic instructions: 40
on an H100 (13 bytes and 4 instructions per cycle and multiprocessor), 160 on a GeForce RTX 4090."""

_CACHED = 3
"""How much faster the L2 cache is than DRAM: on an H100 7.4 TB/s are read instead of 3.0."""

_WARP, _SECTOR, _BANKS, _BANK_BYTES = 32, 32, 32, 4
_WIDEST = 16
_REGISTER_STEP = 8


class Advice(NamedTuple):
    """A proposal.

    Attributes:
        rule: occupancy, spills, access, width, barriers or tensor.
        saved: largest share of the kernel's time that can be saved; None without a bound.
    """

    rule: str
    finding: str
    change: str
    saved: float | None


def advice(
    code: KernelCode, block: int | None = None, dynamic: int | None = None, chip: str | None = None
) -> list[Advice]:
    """Proposals, those with the largest bound first.

    Args:
        block: threads per block, if the launch is known; by default, the size that the code
            requires.
        dynamic: dynamic shared memory of the launch in bytes; by default, as noted by the compiler.
        chip: compute capability to compute occupancy for; None for the code's own.
    """
    proposals = [*_spills(code), *_accesses(code), *_barriers(code), *_tensor(code)]
    block = block or code.launch.block
    if block:
        proposals += _occupancy(code, block, dynamic, chip or code.chip)
    return sorted(proposals, key=lambda proposal: -(proposal.saved or 0))


# --- occupancy ---------------------------------------------------------------


def _occupancy(code: KernelCode, block: int, dynamic: int | None, chip: str) -> Iterator[Advice]:
    now = kernel_occupancy.at(code, block, chip, dynamic)
    if now is None:
        return
    best = kernel_occupancy.best(code, chip, dynamic)
    if best and best.occupancy and best.occupancy.share >= now.share + LEAST_GAIN:
        yield _lifted(now.share, best.occupancy.share, chip, f"{best.block} threads per block")
    fewer = _registers(code, block, dynamic, chip, now.share)
    if fewer:
        registers, share = fewer
        yield _lifted(
            now.share, share, chip,
            f"at most {registers} registers instead of {code.registers} "
            f"(__launch_bounds__({block}, ...) or -maxrregcount {registers})",
        )  # fmt: skip


def _lifted(now: float, then: float, chip: str, change: str) -> Advice:
    finding = f"occupancy {now:.2f} could be {then:.2f} on {chip}"
    return Advice("occupancy", finding, change, 1 - now / then)


def _registers(
    code: KernelCode, block: int, dynamic: int | None, chip: str, share: float
) -> tuple[int, float] | None:
    """The largest number of registers that allows more warps, and the resulting occupancy."""
    start = (code.registers or 0) // _REGISTER_STEP * _REGISTER_STEP
    for registers in range(start, _REGISTER_STEP, -_REGISTER_STEP):
        fit = kernel_occupancy.at(code, block, chip, dynamic, registers)
        if fit and fit.share >= share + LEAST_GAIN and registers < (code.registers or 0):
            return registers, fit.share
    return None


def ranked(
    code: KernelCode, blocks: Sequence[int], chip: str | None = None, dynamic: int | None = None
) -> list[Fit]:
    """Block sizes by occupancy, highest first; of equal ones, the smaller first; sizes that do not
    fit last."""
    fits = kernel_occupancy.fits(code, [chip or code.chip], blocks, dynamic)
    return sorted(
        fits, key=lambda fit: (-(fit.occupancy.share if fit.occupancy else -1), fit.block)
    )


# --- memory ------------------------------------------------------------------


def _spills(code: KernelCode) -> Iterator[Advice]:
    if not code.spills:
        return
    by_depth: Counter[int] = Counter()
    for access in code.accesses:
        if access.spill:
            by_depth[access.depth] += access.number
    deepest = max(by_depth)
    loops = "a loop" if deepest == 1 else f"{deepest} nested loops"
    where = f", {by_depth[deepest]} of them in {loops}" if deepest else ""
    yield Advice(
        "spills",
        f"{code.spills} instructions spill {code.spill_bytes} bytes per thread{where}",
        "more registers (a smaller block, looser __launch_bounds__) or fewer live values",
        _of_spills(max(number / _at_depth(code, depth) for depth, number in by_depth.items())),
    )


def _of_spills(share: float) -> float | None:
    """The bound for spills that are this share of a loop's instructions; few spills have none, as
    one that reaches DRAM takes as long as many arithmetic instructions."""
    return _SPILL * share / (_SPILL * share + 1 - share) if share >= LEAST_SHARE else None


def _at_depth(code: KernelCode, depth: int) -> int:
    return sum(count.number for count in code.counts if count.depth == depth) or 1


def _accesses(code: KernelCode) -> Iterator[Advice]:
    """Accesses in the deepest loops that have any, since those run most often."""
    for space in ("global", "shared"):
        chosen = [
            access
            for access in code.accesses
            if access.space == space and not access.spill and access.what != "atomic"
        ]
        deepest = max((access.depth for access in chosen), default=0)
        for access in chosen:
            if access.depth == deepest:
                yield from _access(access)


def _access(access: Access) -> Iterator[Advice]:
    way = "to" if access.what == "store" else "from"
    what = (
        f"{_number(access.number, access.what)} of {_number(access.bytes, 'byte')} {way} "
        f"{access.space} memory"
    )
    if access.pattern == "strided" and access.stride is not None:
        if access.space == "shared":
            ways = conflicts(access.stride, access.bytes)
            if ways > 1:
                yield Advice("access", f"{what}: {ways} threads share a bank",
                             "pad rows of the tile by one element", 1 - 1 / ways)  # fmt: skip
            return
        used = efficiency(access.stride, access.bytes)
        if used < 1:
            yield Advice(
                "access", f"{what}, {access.stride} bytes apart: {used:.0%} of the traffic is used",
                "let neighbouring threads reach neighbouring elements (or go through a tile in "
                "shared memory)", _of_traffic(1 - used),
            )  # fmt: skip
    elif access.pattern == "launch" and access.space == "global":
        yield Advice("access", f"{what} with a stride that the launch decides",
                     "check that it is 1 element where threadIdx.x grows", None)  # fmt: skip
    elif access.pattern == "contiguous" and access.bytes < 4 and access.space == "global":
        yield Advice("width", f"{what}: narrow", "4 to 16 bytes per thread (vector types)",
                     1 - access.bytes / _WIDEST)  # fmt: skip


def _of_traffic(unused: float) -> float | None:
    """The bound for accesses of which this share of the traffic is not used. What remains may fit
    into the L2 cache, which is faster than DRAM."""
    return 1 - (1 - unused) / _CACHED if unused >= LEAST_SHARE else None


def _number(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")


def conflicts(stride: int, width: int) -> int:
    """The degree of the bank conflict: the largest number of different words in one bank of shared
    memory that a request accesses.

    Accesses wider than 4 bytes are split into requests of 128 bytes by parts of the warp.
    """
    threads = min(_WARP, _WARP * _BANK_BYTES // width) if width > _BANK_BYTES else _WARP
    words: dict[int, set[int]] = {}
    for thread in range(threads):
        for byte in range(0, max(width, 1), _BANK_BYTES):
            word = (thread * stride + byte) // _BANK_BYTES
            words.setdefault(word % _BANKS, set()).add(word)
    return max(map(len, words.values()))


def efficiency(stride: int, width: int) -> float:
    """The share of the moved bytes that a warp's threads request: memory moves sectors of 32."""
    sectors = {
        (thread * stride + byte) // _SECTOR for thread in range(_WARP) for byte in range(width)
    }
    return min(1.0, _WARP * width / (len(sectors) * _SECTOR))


# --- barriers and tensor cores -------------------------------------------------


def _barriers(code: KernelCode) -> Iterator[Advice]:
    for loop in code.loops:
        if loop.barriers and loop.instructions / loop.barriers < BARRIER_INSTRUCTIONS:
            inner = [other for other in code.loops if other.depth > loop.depth and other.barriers]
            if not any(loop.start <= other.start for other in inner):
                yield Advice(
                    "barriers",
                    f"{loop.barriers} barriers for {loop.instructions} instructions of a loop"
                    + (f" ({loop.line})" if loop.line else ""),
                    "larger tiles, two tiles in turn, or exchange within a warp",
                    None,
                )


def _tensor(code: KernelCode) -> Iterator[Advice]:
    """Matrix products: multiply-adds fed from shared memory, in a loop."""
    if code.number("tensor"):
        return
    deepest = max((loop.depth for loop in code.loops), default=0)
    fed = any(access.space == "shared" and access.what == "load" and access.depth == deepest
              for access in code.accesses)  # fmt: skip
    for kind, tensor in (("fp16", "fp16"), ("fp32", "tf32"), ("fp64", "fp64")):
        number = sum(count.number for count in code.counts
                     if count.kind == kind and count.detail == MULTIPLY_ADD
                     and count.depth == deepest)  # fmt: skip
        ratio = _tensor_ratio(code.chip, kind, tensor)
        if deepest and fed and ratio and number >= _at_depth(code, deepest) / 4:
            yield Advice(
                "tensor",
                f"{number} multiply-adds of {kind} in a loop fed from shared memory, no tensor "
                "instruction",
                f"tensor cores multiply {tensor} {ratio:.0f} times as fast on {code.chip}, if its "
                "rounding is acceptable (mma, wmma, cuBLAS, CUTLASS)",
                1 - 1 / ratio,
            )


def _tensor_ratio(chip: str, kind: str, tensor: str) -> float | None:
    """How much faster tensor cores are, according to the data sheets of the chip's GPUs."""
    for sheet in DATASHEETS:
        plain, fast = sheet.peaks.get(kind), sheet.peaks.get(f"tensor {tensor}")
        if sheet.compute_capability == chip and plain and fast and fast > plain:
            return fast / plain
    return None
