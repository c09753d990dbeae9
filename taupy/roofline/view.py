"""The points of a roofline as a view: short for people, complete in CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from taupy.pprof.view import Audience, Cell, Column, View
from taupy.roofline.naming import labels
from taupy.roofline.numbers import by_column, column_name, levels_and_precisions, record
from taupy.roofline.placement import Placement
from taupy.roofline.roofs import none_known
from taupy.units import four_digits, prefixed

_SHORTEST = 60


def points_view(
    placements: Sequence[Placement], title: str, notes: Sequence[str], full_names: bool = False
) -> View:
    """One row per point; columns only for levels and precisions that some point has."""
    records = [record(placement, rank) for rank, placement in enumerate(placements, 1)]
    columns = _columns(records)
    rows = []
    for values, label in zip(records, labels(placements, _SHORTEST), strict=True):
        cells = {name: _finite(cell) for name, cell in by_column(values).items()}
        shown = _for_people(cells) | {"short": cells["name"] if full_names else label}
        rows.append([
            (shown if column.audience == "people" else cells).get(column.name)
            for column in columns
        ])  # fmt: skip
    return View(title, columns, rows, notes)


def _columns(records: Sequence[Mapping[str, Any]]) -> list[Column]:
    levels, precisions = levels_and_precisions(records)
    of_several: Audience = "all" if len({values["trial"] for values in records}) > 1 else "machines"
    swept = any(values["parameter"] is not None for values in records)
    of_sweep: Audience = "all" if swept else "machines"
    intensities = [column_name("intensity", level) for level in levels]
    return [
        Column("rank", "int", "#"),
        Column("short", "text", "Name", "people"),
        Column("name", "text", "", "machines"),
        Column("trial", "int", "Trial", of_several),
        Column("processor", "text", "Processor", of_several),
        Column("series", "text", "Series", of_sweep),
        Column("parameter", "float", "Parameter", of_sweep),
        Column("calls", "int", "Calls"),
        Column("launches", "int", "", "machines"),
        Column("counted_launches", "int", "", "machines"),
        Column("time", "time_ns", "Time", "people"),
        Column("share_percent", "percent", "% of\ntime", "people"),
        Column("share", "float", "", "machines"),
        Column("run_time_s", "any", "", "machines"),
        Column("counted_time_s", "any", "", "machines"),
        Column("work", "float", "Gflop", "people"),
        *(
            Column(name, "float", f"AI {level}\nflop/B", "people")
            for name, level in zip(intensities, levels, strict=True)
        ),
        Column("rate", "float", "Gflop/s", "people"),
        Column("roof", "percent", "% of\nroof", "people"),
        Column("bound_by", "text", "Bound by"),
        Column("tier", "text", "Tier", "people"),
        *(
            Column(name, "any", "", "machines")
            for name in (
                *intensities,
                *("flop_tier", "bytes_tier", "uncounted", "flop"),
                *(column_name("flop", precision) for precision in precisions),
                *(column_name("bytes", level) for level in levels),
                *("flop_s", "peak_flop_s", "ideal_compute_time_s"),
                *(column_name("ideal_level_times", level) for level in levels),
                *("launch_overhead_s", "roof_share", "notes"),
            )
        ),
    ]


def _for_people(cells: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells that people see otherwise than machines: in other units, rounded, summed up."""
    tier = cells["flop_tier"]
    if cells["bytes_tier"] != tier:
        tier += f", bytes {cells['bytes_tier']}"
    if cells["uncounted"] and cells["flop_tier"] != "unknown":
        tier += ", in part"
    return {
        "tier": tier,
        "time": _times(1e9, cells["run_time_s"]),
        "share_percent": _times(100, cells["share"]),
        "roof": _times(100, cells["roof_share"]),
        "work": _rounded(_times(1e-9, cells["flop"])),
        "rate": _rounded(_times(1e-9, cells["flop_s"])),
        **{name: _rounded(cells[name]) for name in cells if name.startswith("intensity_")},
    }


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _rounded(value: float | None) -> float | None:
    return None if value is None else four_digits(value)


def _finite(cell: Cell) -> Cell:
    """None for infinite intensities (no bytes) and unknown ones."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


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
