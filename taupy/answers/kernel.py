"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12

Machine code stored by `taupy static --store` is shown beside the measurements, or alone if the
trial has none of the kernel. `taupy kernels` shows all kernels, and sums them by other dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taupy.analysis.kernel_beside import (
    COUNTERS,
    Beside,
    Measured,
    beside,
    disagreements,
    error_of_estimate,
)
from taupy.answers.kernels import TIMES, launched, of_names, spread_cells
from taupy.catalog.datasheets import datasheet
from taupy.comparison.kernel_beside import codes_of, extent
from taupy.errors import MissingMetric
from taupy.model import options
from taupy.model.gpu_rows import SiteRow, spread
from taupy.model.kernel_code import KernelCode
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import gpu_query, metrics
from taupy.profiledb.database import ProfileDB

_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("stream", heading="Stream"),
    *TIMES,
    Column("grid", heading="Grid"),
    Column("block", heading="Block"),
    Column("registers", "int", "Regs"),
    Column("shared_static_bytes", "bytes", "Shared\nstatic"),
    Column("shared_dynamic_bytes", "bytes", "Shared\ndynamic"),
    Column("local_bytes", "bytes", "Local"),
    Column("occupancy_percent", "percent", "Occ.\n%"),
    Column("limiter", heading="Limited by"),
    Column("bytes", "bytes", "Bytes"),
    Column("callpath", heading="Launched from"),
    Column("callpath_id", "int", audience="machines"),
)


@dataclass(frozen=True)
class Options(options.Asked):
    name: str = options.subject(
        "a kernel's short or full name, a part of it, a pattern with * and ?, or /REGEX/"
    )


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """The launch sites of each kernel of the name, and its code if `taupy static --store` has
    stored it.

    Raises:
        UsageError: no kernel has such a name.
    """
    launches = of_names(launched(db, trial), trial, [options.name])
    sites = gpu_query.sites(launches)
    views = []
    for name in dict.fromkeys(row.timer for row in gpu_query.kernels(launches)):
        own = [site for site in sites if site.timer == name]
        views += [_sites(own, name), *_code_views(db, trial, name, own)]
    return views


def _sites(rows: Sequence[SiteRow], kernel: str) -> View:
    """Launch sites, launch configurations and times of one kernel."""
    ordered = sorted(rows, key=lambda row: -row.time_ns)
    notes = [kernel] if kernel != ordered[0].short_name else []
    title = f"KERNEL {ordered[0].short_name}"
    return View(title, _COLUMNS, [_cells(row) for row in ordered], notes)


def _cells(row: SiteRow) -> list[Cell]:
    mean, stddev = spread(row.calls - row.untimed, row.time_ns, row.sum_squares_ns2)
    return [
        row.node,
        row.context,
        f"{row.node}.{row.context}.{row.thread}",
        row.time_ns,
        row.calls,
        row.untimed,
        *spread_cells(mean, row.minimum_ns, row.maximum_ns, stddev),
        _extent(row.grid),
        _extent(row.block),
        row.registers,
        row.shared_static_bytes,
        row.shared_dynamic_bytes,
        row.local_bytes,
        None if row.occupancy is None else 100 * row.occupancy,
        row.limiter,
        row.bytes,
        row.callpath,
        row.callpath_id,
    ]


def _extent(extent: tuple[int, int, int] | None) -> str | None:
    return None if extent is None else "x".join(map(str, extent))


def _code_views(db: ProfileDB, trial_id: int, timer: str, sites: Sequence[SiteRow]) -> list[View]:
    """One table per stored code of a kernel; none if there is no code."""
    codes, doubt = codes_of(db, trial_id, timer)
    if not codes:
        return []
    measured = _measured(db, trial_id, timer, max(sites, key=lambda site: site.time_ns))
    return [_code_view(code, beside(code, measured), doubt) for code in codes]


def _measured(db: ProfileDB, trial_id: int, timer: str, site: SiteRow) -> Measured:
    timed = site.calls - site.untimed
    device = next(
        (gpu for gpu in gpu_query.devices(db, trial_id) if gpu.ordinal == site.context - 1), None
    )
    reached = _counted(db, trial_id, timer, "occupancy")
    return Measured(
        threads=extent(site.block),
        grid=extent(site.grid),
        registers=site.registers,
        shared_static=site.shared_static_bytes,
        shared_dynamic=site.shared_dynamic_bytes,
        local=site.local_bytes,
        occupancy=site.occupancy,
        mean_ns=site.time_ns / timed if timed else None,
        counters={
            name: value
            for name in COUNTERS
            if (value := _counted(db, trial_id, timer, name)) is not None
        },
        reached=reached,
        gpu=datasheet(device.name) if device else None,
    )


def _counted(db: ProfileDB, trial_id: int, timer: str, name: str) -> float | None:
    """A metric of one kernel; None if it was not measured."""
    try:
        answer = metrics.answer(db, trial_id, name, ("timer",))
    except MissingMetric:
        return None
    pairs = zip(answer.timers, answer.values("exclusive"), strict=True)
    return next((value for row, value in pairs if row.timer == timer and value == value), None)


def _code_view(code: KernelCode, rows: Sequence[Beside], doubt: str) -> View:
    columns = (
        Column("what", heading="What"),
        Column("unit", heading="Unit"),
        Column("code", "tau_count", "In the code"),
        Column("expected", "tau_count", "Code x\nexecuted"),
        Column("measured", "tau_count", "Measured"),
        Column("disagrees", heading="Disagrees"),
    )
    cells: list[tuple[Cell, ...]] = [tuple(row) for row in rows]
    notes = [
        f"code at rest of {code.file}, module {code.module[:12]}, {code.compiler}".rstrip(", ")
    ]
    notes += [doubt] if doubt else []
    if error_note := error_of_estimate(rows):
        notes.append(error_note)
    notes += [f"disagrees: {text}" for text in disagreements(rows)]
    return View(f"CODE AND MEASUREMENT of {code.full_name} on {code.chip}:", columns, cells, notes)
