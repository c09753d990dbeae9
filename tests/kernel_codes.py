"""Records of kernels' machine code for tests that need no disassembler."""

from __future__ import annotations

from taupy.model.kernel_code import Access, Count, KernelCode


def code(name="saxpy", chip="8.0", **more) -> KernelCode:
    """A kernel with 16 registers and nothing to report."""
    facts = dict(
        module="0" * 64, file="x.cubin", registers=16, shared_bytes=0, stack_bytes=0, local_bytes=0,
        constants=((0, 380),), peak_live=10, peak_at=64, instructions=10, blocks=1, branches=0,
        divergent=0, calls=(), indirect=False, irreducible=0, counts=(), accesses=(), loops=(),
    )  # fmt: skip
    return KernelCode(name=name, chip=chip, **{**facts, **more})


def spill(number: int, depth: int = 0) -> Access:
    return Access("load", "local", 4, "unknown", None, depth, True, number)


def access(what="load", space="global", bytes=4, pattern="contiguous", stride=None, depth=0,
           number=1) -> Access:  # fmt: skip
    return Access(what, space, bytes, pattern, stride, depth, False, number)


def count(kind: str, number: int, depth: int = 0, detail: str = "", pipe: str = "fma") -> Count:
    return Count(kind, detail, pipe, depth, number)
