"""The formulas of rooflines, classic and time-based; numbers in, numbers out.

F flop, B bytes, T run time, P peak, W bandwidth, all in SI units (1 Gflop/s = 1e9, never
2^30). AI = F/B, machine balance MB = P/W.

Time-based roofline after Wang et al. (2020). Their equations 2 and 3 do not contain the run time,
so both arms are equal. Their text and notebook do the following: the larger of the two times is
the run time; the other is the run time scaled by the ratio of AI and MB. With the ideal times
C = F/P and D = B/W, AI/MB = C/D:

    compute time = T min(1, C/D)        bandwidth time = T min(1, D/C)

Then max(compute time, bandwidth time) = T. The open symbol (bandwidth time * W, compute time * P)
is on the kernel's own diagonal y = AI x, farther out than the closed one (B, F) by a factor of
T / max(C, D) = 1 / efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


def ridge(peak: float, bandwidth: float) -> float:
    """Machine balance: the intensity at which a processor becomes compute-bound."""
    return peak / bandwidth


def efficiency(time: float, ideals: Iterable[float]) -> float:
    """A kernel's share of its roof: ideal time / run time.

    Equal to performance / attainable where both are defined, but also defined without flop or
    without bytes. NaN for a run time of 0.
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
        Without flop, T is bandwidth time; without bytes, T is compute time. None without both.
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
    """The cost of N launches: seconds, and the flop and bytes possible in that time."""

    seconds: float
    bytes: float
    flop: float


def overhead_box(launches: float, latency: float, peak: float, bandwidth: float) -> Box:
    """The overhead box: [0, N L]^2 in the time plane, [0, W N L] x [0, P N L] in the complexity
    plane, where its corner is on the machine balance."""
    seconds = launches * latency
    return Box(seconds, bandwidth * seconds, peak * seconds)
