"""A point on a roofline: its sums, what was counted, and their origin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from taupy.model.work import Tier

Of = Literal["kernel", "launch", "routine", "phase", "layer", "step", "rank", "program"]

PLURALS: dict[Of, str] = {
    "kernel": "kernels",
    "launch": "launches",
    "routine": "routines",
    "phase": "phases",
    "layer": "layers",
    "step": "steps",
    "rank": "ranks",
    "program": "whole program",
}
"""What points are, as titles call them."""

GROUP_OF: dict[Of, str] = {"phase": "PHASE", "layer": "LAYER"}
"""The group of the timers that are points; a point is all that happens in them."""


def is_whole(of: Of, inclusive: bool = False) -> bool:
    """Whether a point includes everything called below it."""
    return inclusive or of in ("step", "rank", "program") or of in GROUP_OF


@dataclass(frozen=True, slots=True)
class Point:
    """A point on a roofline.

    Attributes:
        name: full name; `short` is for legends.
        trial, trial_name, processor: where it ran.
        calls: launches of a kernel, calls of a routine.
        launches: all kernel launches in it; 0 on a CPU.
        counted: number of those launches that were counted.
        run_time: seconds of all launches, as the trial (or the timing trial) timed them;
            those that were not timed by the mean of the others.
        time: seconds of the counted launches, used for rates.
        flop: precision -> flop of the counted launches.
        bytes: level -> bytes of the counted launches; a missing level was not measured.
        uncounted: what `flop` lacks: precisions that were not counted, operations without a
            formula. If not empty, flop, intensity, performance and share of the roof are lower
            bounds.
        rates_alone: the duration is unknown, and `flop` and `bytes` are per second (`time` is
            1): intensity and performance are valid, sums are not.
        share: share of the run time of all points of its trial, 0 to 1.
        covered: share of the trial's run time in routines whose operations taupy derived; None
            if not applicable.
        series, parameter: for trajectories; None outside a sweep.
    """

    name: str
    short: str
    of: Of
    trial: int
    trial_name: str
    processor: str
    calls: int
    launches: int
    counted: int
    run_time: float
    time: float
    flop: Mapping[str, float]
    bytes: Mapping[str, float]
    flop_tier: Tier
    bytes_tier: Tier
    share: float = 0.0
    covered: float | None = None
    uncounted: tuple[str, ...] = ()
    rates_alone: bool = False
    series: str = ""
    parameter: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def total_flop(self) -> float:
        return sum(self.flop.values())

    @property
    def idle(self) -> bool:
        """Whether it certainly has no flop."""
        return self.flop_tier != "unknown" and not self.total_flop

    @property
    def of_gpu(self) -> bool:
        """Whether it is a kernel, or launches of one."""
        return self.of in ("kernel", "launch")

    @property
    def is_known(self) -> bool:
        """Whether its flop and the bytes of some level are known."""
        return self.flop_tier != "unknown" and bool(self.bytes)

    @property
    def performance(self) -> float:
        """flop/s; NaN if no time was measured."""
        return self.total_flop / self.time if self.time > 0 else math.nan

    def intensity(self, level: str) -> float | None:
        """flop/B; infinite without bytes, 0 without both; None if not measured."""
        moved = self.bytes.get(level)
        if moved is None or self.flop_tier == "unknown":
            return None
        if moved <= 0:
            return math.inf if self.total_flop > 0 else 0.0
        return self.total_flop / moved
