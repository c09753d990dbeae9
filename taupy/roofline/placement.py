"""Place a point under the roofs: ideal times, share of the roof, limiting resource.

The ideal compute time is the sum of F_p / P_p, each precision with its own peak (or all flop with
one peak, if the roofs say so); the ideal time of a level is B / W. The longest of them is the
point's roof; divided by the run time it is the share of the roof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from taupy.roofline import model
from taupy.roofline.point import Point
from taupy.roofline.roofs import Roofs

ABOVE = 1.02
"""Shares of the roof above this indicate a wrong count or roof and are reported."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One point under the roofs of its processor. Times in seconds; None if unknown.

    Attributes:
        compute: ideal compute time; `levels`: ideal time of each level's bytes.
        overhead: N x launch latency of the counted launches.
        peak: attainable flop/s for its mix of precisions; `precision`: the one that takes most
            of the ideal compute time.
        nearest: "compute" or the level whose roof is nearest according to the counts; "" if
            unknown.
        bound_by: "compute", a level, "launch", or "" if unknown: without roofs, or if flop are
            missing, so that another roof may be nearer.
        roof_share: share of its roof, considering the compute peak and all levels with roofs; a
            lower bound if flop are missing.
        assumed: sentences about precisions that use another precision's roof.
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
        """The limiting resource, with the precision: "compute (tensor bf16)", "DRAM"."""
        return self._with_precision(self.bound_by)

    @property
    def nearest_roof(self) -> str:
        """The nearest roof, with the precision."""
        return self._with_precision(self.nearest)

    def _with_precision(self, roof: str) -> str:
        if roof == "compute" and self.precision not in ("", "any"):
            return f"compute ({self.precision})"
        return roof

    @property
    def bound(self) -> float | None:
        """The shortest time that the roofs allow."""
        ratios = [*self.levels.values()] + ([self.compute] if self.compute is not None else [])
        return max(ratios) if ratios else None

    @property
    def above_roof(self) -> bool:
        return self.roof_share is not None and self.roof_share > ABOVE

    @property
    def why_above(self) -> str:
        """Possible reasons for a point above its roof."""
        moving = max(self.levels.values(), default=0.0)
        if self.point.bytes_tier == "analytic" and moving >= (self.compute or 0.0):
            return "its bytes are analytic and may have come from a cache"
        return "a higher clock than the roof's, another processor's roof, or a wrong count"

    def times(self, level: str) -> model.Times | None:
        """Coordinates in the time plane for one level; None if unknown."""
        if self.compute is None or level not in self.levels or not self.point.time > 0:
            return None
        if self.point.rates_alone:
            return None
        return model.times(self.point.time, self.compute, self.levels[level])


def place(point: Point, roofs: Roofs) -> Placement:
    """Place a point under roofs."""
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
            # If equal, the one farther from the processor.
            nearest = max(ideals, key=lambda name: (ideals[name], name != "compute"))
        bound_by = "" if point.uncounted else nearest
    if overhead is not None and point.time > 0 and overhead >= point.time:
        bound_by = "launch"
    return Placement(
        *(point, roofs, compute, levels, overhead, peak, precision, nearest, bound_by, share),
        tuple(assumed),
    )


def _compute(point: Point, roofs: Roofs) -> tuple[float | None, str, list[str]]:
    """Ideal compute time, the precision with most of it, and assumptions."""
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
            phrases = {"any": "flop of unknown precision", "tensor": "tensor flop of unknown type"}
            kind = phrases.get(name, name + " flop")
            lower = " (their own is higher)" if name in ("fp16", "bf16") else ""
            assumed.append(f"{kind} compared with the {peak.name} peak{lower}")
        seconds = flop / peak.value
        total += seconds
        if seconds > most:
            most, precision = seconds, name
    return total, precision, assumed


def distance(placement: Placement) -> float | None:
    """The largest possible speed-up according to the roof."""
    share = placement.roof_share
    if share is None or math.isnan(share) or share <= 0:
        return None
    return 1 / share
