"""A roofline as text: a line for each top kernel, then a summary."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.roofline.naming import labels
from taupy.roofline.placement import Placement, distance
from taupy.units import duration, percent

_FAR = 0.10
"""Below this share of its roof, neither compute nor bandwidth limits a kernel."""


def verdict(placements: Sequence[Placement], top: int = 5, wall: float | None = None) -> list[str]:
    """Lines for the points with the most time, and summary lines.

    Args:
        wall: run time of the program in seconds, to compare launch times with.
    """
    named = zip(placements[:top], labels(placements, 60), strict=False)
    lines = [
        f"{rank}. {label}: {sentence(placement)}"
        for rank, (placement, label) in enumerate(named, 1)
        if not placement.roofs.empty  # no roofs: nothing is claimed
    ]
    return lines + _whole(placements, wall)


def sentence(placement: Placement) -> str:
    """The limiting resource of one point, and its distance from the roof."""
    point = placement.point
    if point.flop_tier == "unknown" and not point.uncounted:
        return "flop not counted"
    if not point.bytes:
        return "bytes not counted"
    if not point.time > 0:
        return "no time measured"
    if placement.above_roof:
        much = percent(100 * (placement.roof_share or 0.0))
        return f"above its roof ({much} % of it): {placement.why_above}"
    if placement.bound_by == "launch":
        latency, overhead = duration(1e9 * _latency(placement)), placement.overhead or 0.0
        return (
            f"bound by launch overhead: {point.counted:,} launches x {latency} = "
            f"{duration(1e9 * overhead)} against {duration(1e9 * point.time)} on the GPU"
        )
    share = placement.roof_share
    if share is None:
        return "flop not counted" if point.flop_tier == "unknown" else _NO_ROOF
    if not placement.nearest:
        return "neither flop nor bytes"
    near = f"{percent(100 * share)} % of its roof"
    if point.uncounted:
        return (
            f"no verdict: {', '.join(point.uncounted)} not counted; at least {near} "
            f"({placement.nearest_roof})"
        )
    nothing = "" if point.total_flop else "no flop; "
    if share < _FAR:
        return (
            f"{nothing}far from every roof ({near}, nearest {placement.limiter}): "
            "limited by latency, too little parallelism or other instructions"
        )
    times = distance(placement) or 1.0
    best = f"{times:.3g}x faster at best" if times > 1 else "as fast as its roof was measured"
    return f"{nothing}bound by {placement.limiter}, at {near} ({best})"


_NO_ROOF = "no roof known for its flop or bytes"


def _latency(placement: Placement) -> float:
    launch = placement.roofs.launch
    return launch.value if launch is not None else 0.0


def _whole(placements: Sequence[Placement], wall: float | None) -> list[str]:
    kernels = [placement for placement in placements if placement.point.of_gpu]
    routines = [placement for placement in placements if placement.point.of == "routine"]
    lines = []
    for those, what, whole in (
        (kernels, "kernels", "the time in kernels"),
        (routines, "routines", "the run time"),
    ):
        if those:
            idle = [placement for placement in those if placement.point.idle]
            share = sum(placement.point.share for placement in idle) / max(len(_trials(those)), 1)
            text = (
                f"without flop (copies, conversions, layout): {len(idle)} of {len(those)} {what}, "
                f"{percent(100 * share)} % of {whole}"
            )
            rest = [1 - (placement.point.covered or 1.0) for placement in those]
            if max(rest) > 0:
                text += f"; flop unknown: {percent(100 * max(rest))} %"
            lines.append(text)
    launched = kernels or [placement for placement in placements if placement.point.of == "program"]
    if launched and len(_trials(launched)) == 1 and launched[0].roofs.launch is not None:
        lines += _launches(launched, wall)
    return lines


def _launches(launched: Sequence[Placement], wall: float | None) -> list[str]:
    number = sum(placement.point.launches for placement in launched)
    latency = _latency(launched[0])
    busy = sum(placement.point.run_time for placement in launched)
    if not number or not busy > 0:
        return []
    overhead = number * latency
    ceiling = launched[0].roofs.launch
    text = (
        f"launching: {number:,} x {duration(1e9 * latency)} "
        f"({ceiling.pattern if ceiling else ''}, {ceiling.source if ceiling else ''}) = "
        f"{duration(1e9 * overhead)}, {percent(100 * overhead / busy)} % of the "
        f"{duration(1e9 * busy)} in kernels"
    )
    if wall is not None and wall > 0:
        text += f" and {percent(100 * overhead / wall)} % of the run time {duration(1e9 * wall)}"
    if overhead >= busy:
        text += ": the GPU waits for launches"
    return [text]


def _trials(placements: Sequence[Placement]) -> set[int]:
    return {placement.point.trial for placement in placements}
