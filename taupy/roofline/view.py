"""The points of a roofline as a view: short for people, complete in CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model.work import LEVELS, PRECISION_OF
from taupy.pprof.view import Cell, Column, View
from taupy.roofline.naming import labels
from taupy.roofline.placement import Placement
from taupy.roofline.roofs import none_known
from taupy.units import four_digits, prefixed

_SHORTEST = 60


def points_view(
    placements: Sequence[Placement], title: str, notes: Sequence[str], full_names: bool = False
) -> View:
    """One row per point; columns only for levels and precisions that some point has."""
    levels = [
        level for level in LEVELS if any(level in placement.point.bytes for placement in placements)
    ]
    precisions = [
        name
        for name in dict.fromkeys(PRECISION_OF.values())
        if any(name in placement.point.flop for placement in placements)
    ]
    several = len({placement.point.trial for placement in placements}) > 1
    swept = any(placement.point.parameter is not None for placement in placements)
    columns = [Column("rank", "int", "#"), *_facts(several, swept)]
    columns += [
        Column(f"intensity_{level}", "float", f"AI {level}\nflop/B", "people") for level in levels
    ]
    columns += [
        Column("rate", "float", "Gflop/s", "people"),
        Column("roof", "percent", "% of\nroof", "people"),
        Column("bound_by", "text", "Bound by"),
        Column("tier", "text", "Tier", "people"),
        *(
            Column(name, "any", "", "machines")
            for name in (
                *(f"intensity_{level}" for level in levels),
                *("flop_tier", "bytes_tier", "uncounted", "flop"),
                *(f"flop_{precision.replace(' ', '_')}" for precision in precisions),
                *(f"bytes_{level}" for level in levels),
                *("flop_s", "peak_flop_s", "ideal_compute_time_s"),
                *(f"ideal_{level}_time_s" for level in levels),
                *("launch_overhead_s", "roof_share", "notes"),
            )
        ),
    ]
    rows = [
        _row(rank, placement, placement.point.name if full_names else label, levels, precisions)
        for rank, (placement, label) in enumerate(
            zip(placements, labels(placements, _SHORTEST), strict=True), 1
        )
    ]
    return View(title, columns, rows, notes)


def _facts(several: bool, swept: bool) -> list[Column]:
    columns = [
        Column("short", "text", "Name", "people"),
        Column("name", "text", "", "machines"),
        Column("trial", "int", "Trial", "all" if several else "machines"),
        Column("processor", "text", "Processor", "all" if several else "machines"),
        Column("series", "text", "Series", "all" if swept else "machines"),
        Column("parameter", "float", "Parameter", "all" if swept else "machines"),
        Column("calls", "int", "Calls"),
        Column("launches", "int", "", "machines"),
        Column("counted_launches", "int", "", "machines"),
        Column("time", "time_ns", "Time", "people"),
        Column("share_percent", "percent", "% of\ntime", "people"),
        Column("share", "float", "", "machines"),
        Column("run_time_s", "any", "", "machines"),
        Column("counted_time_s", "any", "", "machines"),
        Column("work", "float", "Gflop", "people"),
    ]
    return columns


def _row(
    rank: int,
    placement: Placement,
    label: str,
    levels: Sequence[str],
    precisions: Sequence[str],
) -> list[Cell]:
    point = placement.point
    has_flop = point.flop_tier != "unknown"
    share = placement.roof_share
    tier: str = point.flop_tier
    if point.bytes_tier != tier:
        tier = f"{point.flop_tier}, bytes {point.bytes_tier}"
    if point.uncounted and has_flop:
        tier += ", in part"
    sums = not point.rates_alone
    row: list[Cell] = [
        rank,
        label,
        point.name,
        point.trial,
        point.processor,
        point.series or None,
        point.parameter,
        point.calls,
        point.launches,
        point.counted,
        point.run_time * 1e9 if sums else None,
        100 * point.share if sums else None,
        point.share if sums else None,
        point.run_time if sums else None,
        point.time if sums else None,
        four_digits(point.total_flop / 1e9) if has_flop and sums else None,
    ]
    row += [_rounded(point.intensity(level)) for level in levels]
    row += [
        _rounded(point.performance / 1e9) if has_flop else None,
        None if share is None else 100 * share,
        placement.limiter or None,
        tier,
    ]
    row += [_finite(point.intensity(level)) for level in levels]
    row += [point.flop_tier, point.bytes_tier, "; ".join(point.uncounted) or None]
    row.append(point.total_flop if has_flop and sums else None)
    row += [point.flop.get(precision) if sums else None for precision in precisions]
    row += [point.bytes.get(level) if sums else None for level in levels]
    row += [_finite(point.performance) if has_flop else None, placement.peak]
    row.append(placement.compute if sums else None)
    row += [placement.levels.get(level) if sums else None for level in levels]
    row += [placement.overhead, share, "; ".join([*point.notes, *placement.assumed]) or None]
    return row


def _finite(value: float | None) -> float | None:
    """None for infinite intensities (no bytes) and unknown ones."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return value


def _rounded(value: float | None) -> float | None:
    finite = _finite(value)
    return None if finite is None else four_digits(finite)


def roof_lines(placements: Sequence[Placement]) -> list[str]:
    """The roofs that the points are compared with, and their sources."""
    lines = []
    for roofs in {placement.roofs.processor: placement.roofs for placement in placements}.values():
        parts = [
            f"{name} {prefixed(ceiling.value, ceiling.unit)} ({ceiling.source})"
            for name, ceiling in [*roofs.compute.items(), *roofs.bandwidth.items()]
            if name in roofs.bandwidth
            or any(
                roofs.peak(precision) is ceiling
                for placement in placements
                for precision, flop in placement.point.flop.items()
                if flop > 0
            )
        ]
        if roofs.launch is not None:
            launch = roofs.launch
            parts.append(f"launch {prefixed(launch.value, 's')} ({launch.source})")
        if parts:
            lines.append(f"roofs of {roofs.processor or 'this processor'}: {', '.join(parts)}")
        else:
            lines.append(none_known(roofs.processor))
    return lines
