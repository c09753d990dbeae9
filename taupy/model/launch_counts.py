"""What was counted of single kernel launches, on its way to the call paths that launched them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from taupy.model.gpu import Extent


class LaunchCounts(NamedTuple):
    """One launch of a kernel; sequences of them are in launch order.

    Attributes:
        kernel: its name, demangled, as a `Timer` has it.
        short: without template arguments and parameters.
        node: of the process, in order of appearance.
        device: the GPU's ordinal in it.
        values: metric -> value of this launch; the units are told elsewhere.
    """

    kernel: str
    short: str
    node: int
    device: int
    grid: Extent | None
    block: Extent | None
    values: Mapping[str, float]
