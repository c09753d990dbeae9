"""One thing on a roofline: its sums, what they were counted of, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from taupy.model.work import Tier

Of = Literal["kernel", "launch", "routine", "phase", "program"]


@dataclass(frozen=True, slots=True)
class Point:
    """One thing on a roofline.

    Attributes:
        name: in full; `short` for legends.
        trial, trial_name, processor: where it ran.
        calls: launches of a kernel, calls of a routine.
        launches: of kernels in it, in all; 0 on a CPU.
        counted: how many of those launches were counted.
        run_time: seconds of all launches, as the trial (or the timing trial) timed them.
        time: seconds of the counted launches: what rates are made with.
        flop: precision -> flop of the counted launches.
        bytes: level -> bytes of the counted launches; a level not in it was not measured.
        uncounted: what is missing from `flop`: precisions of a kernel that were not counted,
            operations that no formula is known of. Where there are such, flop, intensity,
            performance and share of the roof are the least that they can be.
        rates_alone: no duration is known, and `flop` and `bytes` are those of one second
            (`time` is 1): intensity and performance hold, sums do not.
        share: of the run time of all points of its trial, 0 to 1.
        covered: of the run time of its trial, what the routines take whose operations taupy
            worked out; None where the question does not arise.
        series, parameter: for trajectories; None where it is not part of a sweep.
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
        """Has it no flop, for certain?"""
        return self.flop_tier != "unknown" and not self.total_flop

    @property
    def of_gpu(self) -> bool:
        """Is it a kernel, or launches of one?"""
        return self.of in ("kernel", "launch")

    @property
    def known(self) -> bool:
        """Were its flop and the bytes of some level found?"""
        return self.flop_tier != "unknown" and bool(self.bytes)

    @property
    def performance(self) -> float:
        """flop/s; NaN where no time was measured."""
        return self.total_flop / self.time if self.time > 0 else math.nan

    def intensity(self, level: str) -> float | None:
        """flop/B; infinite without bytes, 0 without both; None where not measured."""
        moved = self.bytes.get(level)
        if moved is None or self.flop_tier == "unknown":
            return None
        if moved <= 0:
            return math.inf if self.total_flop > 0 else 0.0
        return self.total_flop / moved
