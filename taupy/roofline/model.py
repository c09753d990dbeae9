"""The formulas of rooflines, classic and time-based; numbers in, numbers out.

F flop, B bytes, T run time, P peak, W bandwidth, all in SI units (1 Gflop/s = 1e9, never
2^30). AI = F/B, machine balance MB = P/W.

Time-based roofline after Wang et al. (2020). Their equations 2 and 3 hold no run time, so
that both arms are equal; what their text and their notebook do is this: the larger of the
two times is the run time, the other is that scaled down by the ratio of AI and MB. We
write it with the ideal times C = F/P and D = B/W, since AI/MB = C/D:

    compute time = T min(1, C/D)        bandwidth time = T min(1, D/C)

so that max(compute time, bandwidth time) = T; the open symbol (bandwidth time * W,
compute time * P) lies on the kernel's own diagonal y = AI x, further out than the closed
one (B, F) by T / max(C, D) = 1 / efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


def attainable(intensity: float, peak: float, bandwidth: float) -> float:
    """The roof over an arithmetic intensity [flop/B], in flop/s (Williams et al., 2009)."""
    return min(peak, intensity * bandwidth)


def ridge(peak: float, bandwidth: float) -> float:
    """The intensity from which on a processor can be busy computing: its balance."""
    return peak / bandwidth


def efficiency(time: float, ideals: Iterable[float]) -> float:
    """The share of its roof that a kernel reaches: ideal time / run time.

    Equal to performance / attainable where both are defined, and defined also without flop
    or without bytes. NaN for a run time of 0.
    """
    return max(ideals, default=0.0) / time if time > 0 else math.nan


class Times(NamedTuple):
    """Coordinates in the time plane, in seconds."""

    compute: float
    bandwidth: float


def times(time: float, ideal_compute: float, ideal_bandwidth: float) -> Times | None:
    """Compute and bandwidth time of a run time.

    Args:
        time: T in seconds.
        ideal_compute, ideal_bandwidth: F/P and B/W in seconds.

    Returns:
        Without flop (T: bandwidth), without bytes (T: compute); None without both, since
        such a kernel has no place in the plane.
    """
    if ideal_compute <= 0 and ideal_bandwidth <= 0:
        return None
    if ideal_compute <= 0:
        return Times(0.0, time)
    if ideal_bandwidth <= 0:
        return Times(time, 0.0)
    if ideal_compute >= ideal_bandwidth:
        return Times(time, min(time, time * (ideal_bandwidth / ideal_compute)))
    return Times(min(time, time * (ideal_compute / ideal_bandwidth)), time)


class Box(NamedTuple):
    """What N launches take: seconds, and what the processor could do meanwhile."""

    seconds: float
    bytes: float
    flop: float


def overhead_box(launches: float, latency: float, peak: float, bandwidth: float) -> Box:
    """The overhead box: [0, N L]^2 in the time plane, [0, W N L] x [0, P N L] in the
    complexity plane, where its corner lies on the machine balance."""
    seconds = launches * latency
    return Box(seconds, bandwidth * seconds, peak * seconds)
