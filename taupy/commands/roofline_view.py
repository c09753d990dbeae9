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
    """One row per point; levels and precisions that no point has are left out."""
    levels = [one for one in LEVELS if any(one in each.point.bytes for each in placements)]
    precisions = [
        one
        for one in dict.fromkeys(PRECISION_OF.values())
        if any(one in each.point.flop for each in placements)
    ]
    several = len({each.point.trial for each in placements}) > 1
    swept = any(each.point.parameter is not None for each in placements)
    columns = [Column("rank", "int", "#"), *_facts(several, swept)]
    columns += [
        Column(f"intensity_{one}", "float", f"AI {one}\nflop/B", "people") for one in levels
    ]
    columns += [
        Column("rate", "float", "Gflop/s", "people"),
        Column("roof", "percent", "% of\nroof", "people"),
        Column("bound_by", "text", "Bound by"),
        Column("tier", "text", "Tier", "people"),
        *(
            Column(name, "any", "", "machines")
            for name in (
                *(f"intensity_{one}" for one in levels),
                *("flop_tier", "bytes_tier", "uncounted", "flop"),
                *(f"flop_{one.replace(' ', '_')}" for one in precisions),
                *(f"bytes_{one}" for one in levels),
                *("flop_s", "peak_flop_s", "ideal_compute_time_s"),
                *(f"ideal_{one}_time_s" for one in levels),
                *("launch_overhead_s", "roof_share", "notes"),
            )
        ),
    ]
    rows = [
        _row(rank, each, each.point.name if full_names else label, levels, precisions)
        for rank, (each, label) in enumerate(
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
    each: Placement,
    label: str,
    levels: Sequence[str],
    precisions: Sequence[str],
) -> list[Cell]:
    point = each.point
    known = point.flop_tier != "unknown"
    share = each.roof_share
    tier: str = point.flop_tier
    if point.bytes_tier != tier:
        tier = f"{point.flop_tier}, bytes {point.bytes_tier}"
    if point.uncounted and known:
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
        four_digits(point.total_flop / 1e9) if known and sums else None,
    ]
    row += [_rounded(point.intensity(level)) for level in levels]
    row += [
        _rounded(point.performance / 1e9) if known else None,
        None if share is None else 100 * share,
        each.limiter or None,
        tier,
    ]
    row += [_finite(point.intensity(level)) for level in levels]
    row += [point.flop_tier, point.bytes_tier, "; ".join(point.uncounted) or None]
    row.append(point.total_flop if known and sums else None)
    row += [point.flop.get(one) if sums else None for one in precisions]
    row += [point.bytes.get(one) if sums else None for one in levels]
    row += [_finite(point.performance) if known else None, each.peak]
    row.append(each.compute if sums else None)
    row += [each.levels.get(one) if sums else None for one in levels]
    row += [each.overhead, share, "; ".join([*point.notes, *each.assumed]) or None]
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
    for roofs in {each.roofs.processor: each.roofs for each in placements}.values():
        parts = [
            f"{name} {prefixed(found.value, found.unit)} ({found.source})"
            for name, found in [*roofs.compute.items(), *roofs.bandwidth.items()]
            if name in roofs.bandwidth
            or any(
                roofs.peak(one) is found
                for each in placements
                for one, flop in each.point.flop.items()
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
