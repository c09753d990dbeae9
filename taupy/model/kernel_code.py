"""Facts from a GPU kernel's machine code: one record per kernel and chip.

`static/` creates them, `profiledb/` stores them, the layers above show and compare them. Counts
are of instructions in the code, not of how often they run.
"""

from __future__ import annotations

from collections.abc import Iterable

from taupy.dataclass import NamedTuple, dataclass
from taupy.model.kernel_names import demangled, short_name

SYSTEM_SHARED = 1024

MULTIPLY_ADD = "multiply-add"
"""The `detail` of floating-point multiply-adds."""


class Count(NamedTuple):
    """Instructions of one kind.

    Attributes:
        kind: as in `catalog/opcodes.py`.
        detail: for `tensor`, shape and types (`HMMA.16816.F32.BF16`); for memory accesses, the
            space and the bytes per thread (`global 16`); for multiply-adds, `MULTIPLY_ADD`; for
            `unknown`, the name; else empty.
        depth: number of loops around them.
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
        bytes: per thread.
        pattern: "same" for all threads of a warp, "contiguous", "strided", "launch" (a stride
            known only at launch), "unknown".
        stride: bytes between neighbouring threads, if `pattern` is "strided".
        spill: whether it spills registers to memory or reloads them.
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
        depth: 1 for an outermost loop.
        instructions: in it, including inner loops; `barriers`: block barriers among them.
        line: in the source, if the code records it.
    """

    start: int
    depth: int
    instructions: int
    barriers: int
    line: str | None = None


class Line(NamedTuple):
    """Instructions of one source line; `depth` is that of the innermost loop around them."""

    place: str
    depth: int
    instructions: int
    accesses: int
    spills: int


class LaunchLimits(NamedTuple):
    """Launch parameters fixed by the code; None where they are left to the launch.

    Attributes:
        block: threads per block (`.reqntid`, as Triton writes it).
        most_threads: maximum per block (`__launch_bounds__`).
        dynamic_shared: dynamic shared bytes per block, from the compiler's notes.
    """

    block: int | None = None
    most_threads: int | None = None
    dynamic_shared: int | None = None

    def allow(self, block: int) -> bool:
        """Whether blocks of this many threads can be launched."""
        return self.block in (None, block) and block <= (self.most_threads or block)


LEFT_TO_THE_LAUNCH = LaunchLimits()


class Estimate(NamedTuple):
    """A lower bound of one launch's time, from the code: an estimate, never a measurement.

    Attributes:
        by: pipe or memory -> minimum time [ns], longest first.
        left_out: instructions without a rate in the catalog, by pipe.
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
        name: as in the code, mangled.
        module: SHA-256 of the cubin that holds it. `file`: where the cubin was found.
        chip: "9.0".
        shared_bytes: static, per block. `stack_bytes`, `local_bytes`: per thread.
        constants: (bank, bytes).
        peak_live: maximum number of live registers, and the offset of the instruction
            where it is reached; None if the tool cannot tell.
        blocks: reachable basic blocks.
        branches: conditional ones; `divergent`: those that may split a warp; None where
            the data flow was not analysed.
        calls: names of called functions, "?" for a computed address.
        indirect: whether it jumps to computed addresses, so that the control flow is incomplete.
        irreducible: number of loops with several entries, which `loops` omits.
        is_kernel: whether it can be launched; otherwise it is a function that kernels call.
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
        """Number of instructions of these kinds."""
        return sum(part.number for part in self.counts if part.kind in kinds)

    @property
    def spills(self) -> int:
        """Number of instructions that spill or reload registers."""
        return sum(part.number for part in self.accesses if part.spill)

    @property
    def spill_bytes(self) -> int:
        """Bytes per thread that spills and reloads move."""
        return sum(part.number * part.bytes for part in self.accesses if part.spill)

    @property
    def block_shared_bytes(self) -> int:
        """Shared memory per block that the kernel itself uses.

        Since compute capability 9.0, `shared_bytes` includes what the system reserves.
        """
        shared = self.shared_bytes or 0
        return shared - SYSTEM_SHARED if shared and float(self.chip) >= 9 else shared

    @property
    def unknown(self) -> list[tuple[str, int]]:
        """Names of instructions missing from the tables, with their counts."""
        sums: dict[str, int] = {}
        for part in self.counts:
            if part.kind == "unknown":
                sums[part.detail] = sums.get(part.detail, 0) + part.number
        return sorted(sums.items())


def by_kind(codes: Iterable[KernelCode]) -> dict[str, int]:
    """Instructions of several kernels by kind, the most frequent first."""
    sums: dict[str, int] = {}
    for code in codes:
        for part in code.counts:
            sums[part.kind] = sums.get(part.kind, 0) + part.number
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
