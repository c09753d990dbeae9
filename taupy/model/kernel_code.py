"""What a GPU kernel's machine code says: one record for each kernel and chip.

Made by `static/`, kept by `profiledb/`, shown and compared above them. Counts are of
instructions as the code has them, not of how often they run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from taupy.model.kernel_names import demangled, short_name

SYSTEM_SHARED = 1024

MULTIPLY_ADD = "multiply-add"
"""The detail of floating-point instructions that are one."""


class Count(NamedTuple):
    """Instructions of one kind.

    Attributes:
        kind: as in `catalog/opcodes.py`.
        detail: of `tensor` shape and types (`HMMA.16816.F32.BF16`), of what reaches memory the
            space and the bytes of a thread (`global 16`), of multiply-adds `MULTIPLY_ADD`, of
            `unknown` the name; else empty.
        depth: loops around them; 0 for none.
    """

    kind: str
    detail: str
    pipe: str
    depth: int
    number: int


class Access(NamedTuple):
    """Loads, stores and atomics of one kind, bytes and pattern.

    Attributes:
        space: global, shared, local, constant, generic, tensor.
        bytes: of a thread.
        pattern: "same" for all threads of a warp, "contiguous", "strided", "launch" (a stride
            that only the launch knows), "unknown".
        stride: bytes between neighbouring threads, where `pattern` is strided.
        spill: registers written out and read back.
    """

    what: str
    space: str
    bytes: int
    pattern: str
    stride: int | None
    depth: int
    spill: bool
    number: int


class Loop(NamedTuple):
    """A loop.

    Attributes:
        start: offset of its first instruction, in bytes from the kernel's first.
        depth: 1 for an outermost one.
        instructions: in it, those of inner loops too; `barriers`: of them, of the block.
        line: in the source, where the code tells.
    """

    start: int
    depth: int
    instructions: int
    barriers: int
    line: str | None = None


class Line(NamedTuple):
    """Instructions of one source line; `depth` of the innermost loop around them."""

    place: str
    depth: int
    instructions: int
    accesses: int
    spills: int


class LaunchLimits(NamedTuple):
    """What is settled of a kernel's launches before any; None where it is left to the launch.

    Attributes:
        block: threads of every block (`.reqntid`, as Triton writes it).
        most_threads: of a block (`__launch_bounds__`).
        dynamic_shared: bytes of a block besides the code's own, from the compiler's notes.
    """

    block: int | None = None
    most_threads: int | None = None
    dynamic_shared: int | None = None

    def allow(self, block: int) -> bool:
        """Can blocks of so many threads be launched?"""
        return self.block in (None, block) and block <= (self.most_threads or block)


LEFT_TO_THE_LAUNCH = LaunchLimits()


class Estimate(NamedTuple):
    """A lower bound of one launch's time, from the code: an estimate, never a measurement.

    Attributes:
        by: pipe or memory -> the time [ns] that it needs at least, longest first.
        left_out: what has no rate in the catalog, by pipe.
    """

    gpu: str
    by: tuple[tuple[str, float], ...]
    left_out: tuple[str, ...]

    @property
    def time_ns(self) -> float:
        return self.by[0][1] if self.by else 0.0

    @property
    def bound_by(self) -> str:
        return self.by[0][0] if self.by else ""


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel's code on one chip.

    Attributes:
        name: as the code spells it, mangled.
        module: SHA-256 of the cubin that holds it. `file`: where that was found.
        chip: "9.0".
        shared_bytes: static, of a block. `stack_bytes`, `local_bytes`: of a thread.
        constants: (bank, bytes).
        peak_live: most registers that hold values at once, and the offset of the instruction
            there; None where the tool cannot tell.
        blocks: basic blocks that can be reached.
        branches: conditional ones; `divergent`: of them, those that may split a warp; None where
            the data flow was not followed.
        calls: of names, "?" for an address.
        indirect: it jumps to computed addresses, so control flow is incomplete.
        irreducible: loops with several entrances, which `loops` leaves out.
        is_kernel: it can be launched; else it is a function that kernels call.
    """

    name: str
    module: str
    file: str
    chip: str
    registers: int | None
    shared_bytes: int | None
    stack_bytes: int | None
    local_bytes: int | None
    constants: tuple[tuple[int, int], ...]
    peak_live: int | None
    peak_at: int | None
    instructions: int
    blocks: int
    branches: int
    divergent: int | None
    calls: tuple[str, ...]
    indirect: bool
    irreducible: int
    counts: tuple[Count, ...]
    accesses: tuple[Access, ...]
    loops: tuple[Loop, ...]
    lines: tuple[Line, ...] = ()
    compiler: str = ""
    launch: LaunchLimits = LEFT_TO_THE_LAUNCH
    is_kernel: bool = True

    @property
    def full_name(self) -> str:
        """The demangled name."""
        return demangled(self.name)

    @property
    def short_name(self) -> str:
        return short_name(self.full_name)

    def number(self, *kinds: str) -> int:
        """Instructions of these kinds."""
        return sum(part.number for part in self.counts if part.kind in kinds)

    @property
    def spills(self) -> int:
        """Instructions that write registers out or read them back."""
        return sum(part.number for part in self.accesses if part.spill)

    @property
    def spill_bytes(self) -> int:
        """Bytes of a thread that they move."""
        return sum(part.number * part.bytes for part in self.accesses if part.spill)

    @property
    def block_shared_bytes(self) -> int:
        """Shared memory of a block that is its own: since 9.0 the code counts that which the
        system takes, too."""
        shared = self.shared_bytes or 0
        return shared - SYSTEM_SHARED if shared and float(self.chip) >= 9 else shared

    @property
    def unknown(self) -> list[tuple[str, int]]:
        """Names of instructions that are in no table, and how many there are."""
        sums: dict[str, int] = {}
        for part in self.counts:
            if part.kind == "unknown":
                sums[part.detail] = sums.get(part.detail, 0) + part.number
        return sorted(sums.items())


def by_kind(codes: Iterable[KernelCode]) -> dict[str, int]:
    """Instructions of several kernels by kind, most first."""
    sums: dict[str, int] = {}
    for code in codes:
        for part in code.counts:
            sums[part.kind] = sums.get(part.kind, 0) + part.number
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
