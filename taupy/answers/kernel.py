"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12

Machine code stored by `taupy static --store` is shown beside the measurements, or alone if the
trial has none of the kernel. `taupy kernels` shows all kernels, and sums them by other dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taupy.answers import answer
from taupy.answers.kernels import TIMES, launched, of_names, spread_cells
from taupy.comparison import kernel_beside
from taupy.model.gpu_rows import SiteRow, spread
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import gpu_query
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
class Options(answer.Asked):
    name: str = answer.subject(
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
        views += [_sites(own, name), *kernel_beside.views(db, trial, name, own)]
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
