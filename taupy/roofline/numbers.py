"""The numbers of a point by their names, for charts, files and tables alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taupy.model.work import LEVELS, PRECISION_OF
from taupy.pprof.view import Cell
from taupy.roofline.placement import Placement

_COLUMNS = {
    "counted": "counted_launches",
    "run_time": "run_time_s",
    "time": "counted_time_s",
    "total_flop": "flop",
    "performance": "flop_s",
    "peak": "peak_flop_s",
    "ideal_compute_time": "ideal_compute_time_s",
    "launch_overhead": "launch_overhead_s",
}
"""Names of numbers in tables that differ from those in JSON."""
_COLUMNS_BY = {
    "flop": "flop_{}",
    "bytes": "bytes_{}",
    "intensity": "intensity_{}",
    "bandwidth": "bandwidth_{}_B_s",
    "ideal_level_times": "ideal_{}_time_s",
}
"""Of numbers by precision or by level, which have a column each."""


def record(placement: Placement, rank: int) -> dict[str, Any]:
    """Every number of one point, in SI units; None if unknown."""
    point = placement.point
    has_flop = point.flop_tier != "unknown"
    sums = not point.rates_alone
    return {
        "rank": rank,
        "name": point.name,
        "short": point.short,
        "of": point.of,
        "trial": point.trial,
        "trial_name": point.trial_name,
        "series": point.series,
        "parameter": point.parameter,
        "processor": point.processor,
        "calls": point.calls,
        "launches": point.launches,
        "counted": point.counted,
        "run_time": point.run_time if sums else None,
        "time": point.time if sums else None,
        "share": point.share if sums else None,
        "covered": point.covered,
        "flop_tier": point.flop_tier,
        "bytes_tier": point.bytes_tier,
        "uncounted": list(point.uncounted),
        "flop": dict(point.flop) if sums else dict.fromkeys(point.flop),
        "total_flop": point.total_flop if has_flop and sums else None,
        "bytes": dict(point.bytes) if sums else dict.fromkeys(point.bytes),
        "intensity": {level: point.intensity(level) for level in point.bytes} if has_flop else {},
        "performance": point.performance if has_flop else None,
        "bandwidth": {
            level: moved / point.time if point.time > 0 else None
            for level, moved in point.bytes.items()
        },
        "ideal_compute_time": placement.compute if sums else None,
        "ideal_level_times": dict(placement.levels) if sums else {},
        "launch_overhead": placement.overhead,
        "peak": placement.peak,
        "roof_share": placement.roof_share,
        "bound_by": placement.limiter,
        "notes": [*point.notes, *placement.assumed],
    }


def column_name(number: str, part: str) -> str:
    """The column of a number by level or precision, such as "flop_tensor_fp16"."""
    return _COLUMNS_BY[number].format(part.replace(" ", "_"))


def by_column(record: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells of a record by the names of their columns; absent for levels that it lacks."""
    cells: dict[str, Cell] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            cells |= {column_name(name, part): cell for part, cell in value.items()}
        else:
            cell = "; ".join(value) if isinstance(value, list) else value
            cells[_COLUMNS.get(name, name)] = None if cell == "" else cell
    return cells


def levels_and_precisions(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The memory levels and the precisions that some point has."""
    levels, precisions = (
        [name for name in names if any(name in record[what] for record in records)]
        for names, what in ((LEVELS, "bytes"), (dict.fromkeys(PRECISION_OF.values()), "flop"))
    )
    return levels, precisions
