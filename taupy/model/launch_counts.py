"""Counters of single kernel launches, before they are assigned to launching call paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from taupy.model.gpu import Extent


class LaunchCounts(NamedTuple):
    """One launch of a kernel; sequences of them are in launch order.

    Attributes:
        kernel: its demangled name, as in a `Timer`.
        short: without template arguments and parameters.
        node: of the process, in order of appearance.
        device: the GPU's ordinal in that process.
        values: metric -> value of this launch; units are kept elsewhere.
    """

    kernel: str
    short: str
    node: int
    device: int
    grid: Extent | None
    block: Extent | None
    values: Mapping[str, float]
