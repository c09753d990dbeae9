"""Where a point stands under the roofs: ideal times, share of the roof, what bounds it.

The ideal compute time lets each precision count against its own peak, sum of F_p / P_p
(or all flop against one, where the roofs say so); the ideal time of a level is B / W. The
longest of them is the roof over the point, and that over the run time its share of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from taupy.roofline import model
from taupy.roofline.point import Point
from taupy.roofline.roofs import Roofs

ABOVE = 1.02
"""Shares of the roof above this are faults of a count or of a roof, and are told."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One point under the roofs of its processor. Times in seconds; None where not known.

    Attributes:
        compute: ideal compute time; `levels`: ideal time of each level's bytes.
        overhead: N x launch latency of the counted launches.
        peak: the peak that its mix of precisions could reach, flop/s; `precision`: the one
            that takes most of the ideal compute time.
        nearest: "compute" or the level whose roof is nearest, by what was counted; "" where
            neither is known.
        bound_by: "compute", a level, "launch", or "" where nothing can be said: without roofs,
            or where flop are missing, so that another roof may be nearer.
        roof_share: share of its roof, by the compute peak and all levels that have roofs; the
            least that it can be where flop are missing.
        assumed: precisions whose roof is another's, as sentences.
    """

    point: Point
    roofs: Roofs
    compute: float | None
    levels: Mapping[str, float]
    overhead: float | None
    peak: float | None
    precision: str
    nearest: str
    bound_by: str
    roof_share: float | None
    assumed: tuple[str, ...] = ()

    @property
    def limiter(self) -> str:
        """What bounds it, with the precision: "compute (tensor bf16)", "DRAM"."""
        return self._with_precision(self.bound_by)

    @property
    def nearest_roof(self) -> str:
        """The roof that is nearest, with the precision."""
        return self._with_precision(self.nearest)

    def _with_precision(self, roof: str) -> str:
        if roof == "compute" and self.precision not in ("", "any"):
            return f"compute ({self.precision})"
        return roof

    @property
    def bound(self) -> float | None:
        """The least time that the roofs allow."""
        known = [*self.levels.values()] + ([self.compute] if self.compute is not None else [])
        return max(known) if known else None

    @property
    def above_roof(self) -> bool:
        return self.roof_share is not None and self.roof_share > ABOVE

    @property
    def why_above(self) -> str:
        """What may be behind a point above its roof."""
        moving = max(self.levels.values(), default=0.0)
        if self.point.bytes_tier == "analytic" and moving >= (self.compute or 0.0):
            return "its bytes are analytic, and may have come from a cache"
        return "a clock above the roof's, another processor's roof, or a wrong count"

    def times(self, level: str) -> model.Times | None:
        """Coordinates in the time plane for one level; None where they are not known."""
        if self.compute is None or level not in self.levels or not self.point.time > 0:
            return None
        if self.point.rates_alone:
            return None
        return model.times(self.point.time, self.compute, self.levels[level])


def place(point: Point, roofs: Roofs) -> Placement:
    """Work out where a point stands."""
    compute, precision, assumed = _compute(point, roofs)
    levels = {
        level: moved / roofs.bandwidth[level].value
        for level, moved in point.bytes.items()
        if level in roofs.bandwidth
    }
    overhead = None
    if roofs.launch is not None and point.launches and not point.rates_alone:
        overhead = point.counted * roofs.launch.value
    peak = None
    if compute:
        peak = point.total_flop / compute
    ideals = dict(levels)
    if compute is not None:
        ideals["compute"] = compute
    # One side alone would make the other look harmless: flop without bytes, or the reverse.
    complete = bool(levels) and (compute is not None or bool(point.uncounted))
    share = None
    nearest = bound_by = ""
    if complete and point.time > 0:
        share = model.efficiency(point.time, ideals.values())
        if any(ideals.values()):
            # Of equals, the one further from the processor.
            nearest = max(ideals, key=lambda name: (ideals[name], name != "compute"))
        bound_by = "" if point.uncounted else nearest
    if overhead is not None and point.time > 0 and overhead >= point.time:
        bound_by = "launch"
    return Placement(
        *(point, roofs, compute, levels, overhead, peak, precision, nearest, bound_by, share),
        tuple(assumed),
    )


def _compute(point: Point, roofs: Roofs) -> tuple[float | None, str, list[str]]:
    """Ideal compute time, the precision with most of it, and what was assumed."""
    if point.flop_tier == "unknown":
        return None, "", []
    total, most, precision = 0.0, 0.0, ""
    assumed = []
    for name, flop in point.flop.items():
        if flop <= 0:
            continue
        peak = roofs.peak(name)
        if peak is None:
            return None, "", []
        if roofs.rule == "precision" and peak.name != name:
            known = {"any": "flop of unknown precision", "tensor": "tensor flop of unknown type"}
            kind = known.get(name, name + " flop")
            lower = " (their own is higher)" if name in ("fp16", "bf16") else ""
            assumed.append(f"{kind} held against the {peak.name} peak{lower}")
        seconds = flop / peak.value
        total += seconds
        if seconds > most:
            most, precision = seconds, name
    return total, precision, assumed


def distance(placement: Placement) -> float | None:
    """How many times faster the roof would let it be."""
    share = placement.roof_share
    if share is None or math.isnan(share) or share <= 0:
        return None
    return 1 / share
