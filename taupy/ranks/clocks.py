"""Align the clocks of several hosts by their collectives.

No rank can leave an all_reduce before all have arrived, and all leave it within the time of its
transfer. The times at which two ranks leave it therefore differ by the offset of their clocks,
plus a small error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

_LEAST_NS = 1e6
_RESIDUALS = 4
"""Smaller offsets, in time or in residuals, count as equal clocks: ranks of the same host also
leave that far apart."""
_FEW, _LEAST_UNSURE_NS = 3, 1e9
"""So few collectives have no spread to compare with: ranks may leave one that fails, because a
process was killed, some time apart. Ranks of one host share a clock, but leave one after the other
if there are more ranks than processors; two hosts may have one name."""
_FOR_DRIFT, _FOR_DRIFT_NS = 20, 10e9
"""Minimum number of collectives, and minimum time covered by them, to estimate a drift."""


@dataclass(frozen=True, slots=True)
class Clock:
    """How a rank's clock differs from the reference rank's.

    Attributes:
        is_shared: both are of hosts of the same name.
        offset_ns: how far it is ahead in the middle of the run.
        drift: relative gain: seconds per second.
        residual_ns: median distance from that line: the error left by the alignment.
        pairs: number of collectives that it was computed from.
        middle_ns: the middle of the run, by the reference's clock.
    """

    offset_ns: float
    drift: float
    residual_ns: float
    pairs: int
    middle_ns: float
    is_shared: bool = False

    @property
    def differs(self) -> bool:
        """Whether the clock differs from the reference's."""
        is_sure = self.pairs >= _FEW and not self.is_shared
        least = _LEAST_NS if is_sure else _LEAST_UNSURE_NS
        return abs(self.offset_ns) > max(least, _RESIDUALS * self.residual_ns)

    def aligned(self, moments: Array) -> Array:
        """Times of this clock converted to the reference's."""
        since = moments - self.offset_ns - self.middle_ns
        return moments - self.offset_ns - self.drift * since


def clock(reference: Array, other: Array, is_shared: bool = False) -> Clock:
    """The clock of a rank, from the times at which both ranks left the same collectives; at least
    one is needed."""
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
    return Clock(offset, drift, float(residual), len(away), middle, is_shared)


def clocks(
    left: Mapping[int, Mapping[tuple[str, int], float]], hosts: Mapping[int, str | None] = {}
) -> dict[int, Clock]:
    """The clocks that differ from the first rank's.

    Args:
        left: rank -> collective -> when the rank left it; only collectives that all ranks leave
            together.
        hosts: name of each rank's host; None if unknown.

    Returns:
        Rank -> clock; without ranks that share no collective with the first, directly or through
        other ranks.
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
            is_shared = hosts.get(rank) is not None and hosts[rank] == hosts.get(ranks[0])
            ended = np.array([left[rank][key] for key in shared])
            clock_of[rank] = clock(moments, ended, is_shared)
            waiting.append(rank)
    return {rank: own for rank, own in clock_of.items() if own is not None and own.differs}
