"""Numbers of a kernel's code that can be compared and limited: `spills`, `registers`, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from taupy.analysis import kernel_occupancy
from taupy.catalog import opcodes
from taupy.model.kernel_code import KernelCode


class Quantity(NamedTuple):
    """Attributes:
    of: computes the quantity; None if the code does not determine it.
    """

    name: str
    unit: str
    of: Callable[[KernelCode], float | None]


def _occupancy(code: KernelCode) -> float | None:
    best = kernel_occupancy.best(code)
    return best.occupancy.share if best and best.occupancy else None


def _moved(*spaces: str) -> Callable[[KernelCode], float]:
    return lambda code: sum(
        part.number * part.bytes
        for part in code.accesses
        if part.space in spaces and not part.spill
    )


def _kind(kind: str) -> Callable[[KernelCode], float]:
    return lambda code: code.number(kind)


QUANTITIES = {
    part.name: part
    for part in (
        Quantity("registers", "", lambda code: code.registers),
        Quantity("live", "", lambda code: code.peak_live),
        Quantity("spills", "", lambda code: code.spills),
        Quantity("spill_bytes", "B", lambda code: code.spill_bytes),
        Quantity("stack", "B", lambda code: code.stack_bytes),
        Quantity("local", "B", lambda code: code.local_bytes),
        Quantity("shared", "B", lambda code: code.block_shared_bytes),
        Quantity("occupancy", "ratio", _occupancy),
        Quantity("instructions", "", lambda code: code.instructions),
        Quantity("loops", "", lambda code: len(code.loops)),
        Quantity("branches", "", lambda code: code.branches),
        Quantity("divergent", "", lambda code: code.divergent),
        Quantity("calls", "", lambda code: len(code.calls)),
        Quantity("global_bytes", "B", _moved("global", "generic")),
        Quantity("shared_bytes", "B", _moved("shared")),
        *(Quantity(kind, "", _kind(kind)) for kind in opcodes.KINDS),
    )
}
"""Quantities by their names in `--fail-on`."""
