"""Align the clocks of several hosts by their collectives.

No rank can leave an all_reduce before all have arrived, and all leave it within its transfer. So
the times at which two ranks leave it differ by the difference of their clocks, plus a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

_LEAST_NS = 1e6
_RESIDUALS = 4
"""A difference of less, or of fewer residuals, is none: ranks of a host leave as far apart."""
_FOR_DRIFT, _FOR_DRIFT_NS = 20, 10e9
"""So many collectives over so long a time tell how clocks drift apart."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How a rank's clock differs from the reference rank's.

    Attributes:
        offset_ns: how far it is ahead in the middle of the run; drift: its gain per second.
        residual_ns: median difference from that line: the error left by the alignment.
        pairs: collectives it was computed from.
        middle_ns: by the reference's clock.
    """

    offset_ns: float
    drift: float
    residual_ns: float
    pairs: int
    middle_ns: float

    @property
    def differs(self) -> bool:
        """Whether it is another clock than the reference's."""
        return abs(self.offset_ns) > max(_LEAST_NS, _RESIDUALS * self.residual_ns)

    def aligned(self, moments: Array) -> Array:
        """Moments on this clock, converted to the reference's."""
        since = moments - self.offset_ns - self.middle_ns
        return moments - self.offset_ns - self.drift * since


def clock(reference: Array, other: Array) -> Clock:
    """The clock of a rank, from the moments at which both left the same collectives; at least one
    is needed."""
    away = other - reference
    middle, drift = float(np.median(reference)), 0.0
    if len(away) >= _FOR_DRIFT and np.ptp(reference) >= _FOR_DRIFT_NS:
        third = len(away) // 3
        order = np.argsort(reference)
        first, last = order[:third], order[-third:]
        span = np.median(reference[last]) - np.median(reference[first])
        drift = float((np.median(away[last]) - np.median(away[first])) / span)
    offset = float(np.median(away - drift * (reference - middle)))
    residual = np.median(np.abs(away - drift * (reference - middle) - offset))
    return Clock(offset, drift, float(residual), len(away), middle)


def clocks(left: Mapping[int, Mapping[tuple[str, int], float]]) -> dict[int, Clock]:
    """The clocks of ranks that differ from the first one's.

    Args:
        left: rank -> collective -> when the rank left it; only those that all ranks leave together.

    Returns:
        Ranks that share no collective with the first, directly or through others, have none.
    """
    ranks = sorted(left)
    clock_of: dict[int, Clock | None] = {rank: None for rank in ranks[:1]}
    waiting = [*clock_of]
    while waiting:
        reference = waiting.pop(0)
        for rank in (rank for rank in ranks if rank not in clock_of):
            shared = sorted(left[reference].keys() & left[rank].keys())
            if not shared:
                continue
            moments = np.array([left[reference][key] for key in shared])
            through = clock_of[reference]
            if through is not None and through.differs:
                moments = through.aligned(moments)
            clock_of[rank] = clock(moments, np.array([left[rank][key] for key in shared]))
            waiting.append(rank)
    return {rank: own for rank, own in clock_of.items() if own is not None and own.differs}
