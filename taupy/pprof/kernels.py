"""Tables of GPU work: kernels, launch sites of a kernel, utilization of each GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from taupy.model.gpu import NO_OWNER
from taupy.model.gpu_rows import BusyRow, KernelRow, SiteRow, spread
from taupy.model.kernel_names import is_kernel
from taupy.pprof.view import Cell, Column, View

SortKey = Literal["time", "launches", "mean", "max", "name"]

_ORDERS: dict[SortKey, Callable[[KernelRow], float | str]] = {
    "time": lambda row: -row.percent,
    "launches": lambda row: -row.calls,
    "mean": lambda row: -row.mean_ns if row.mean_ns == row.mean_ns else 0.0,
    "max": lambda row: -(row.maximum_ns or 0),
    "name": lambda row: row.timer,
}
SORT_KEYS: tuple[SortKey, ...] = tuple(_ORDERS)

_TIMES = (
    Column("time_ns", "time_ns", "GPU time", width=9),
    Column("launches", "int", "Launches"),
    Column("untimed", "int", audience="machines"),
    Column("mean_ns", "time_ns", "Mean", width=9),
    Column("minimum_ns", "time_ns", "Min", width=9),
    Column("maximum_ns", "time_ns", "Max", width=9),
    Column("stddev_ns", "time_ns", "Std. Dev.", width=9),
)

_KERNEL_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("percent", "percent", "%GPU", width=5),
    *_TIMES,
    Column("occupancy_percent", "percent", "Occ.\n%"),
    Column("limiter", audience="machines"),
    Column("bytes", "bytes", "Bytes"),
    Column("configurations", "int", audience="machines"),
    Column("short_name", audience="machines"),
    Column("name", heading="Kernel", audience="people"),
    Column("launched", heading="Launched from", audience="people"),
    Column("kernel", audience="machines"),
    Column("groups", audience="machines"),
    Column("routine", audience="machines"),
    Column("routines", "int", audience="machines"),
)

_SITE_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("stream", heading="Stream"),
    *_TIMES,
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

_BUSY_COLUMNS = (
    Column("node", "int", "Node"),
    Column("context", "int", "Context"),
    Column("device", heading="GPU"),
    Column("kernel_ns", "time_ns", "Kernels"),
    Column("copy_ns", "time_ns", "Copies"),
    Column("busy_ns", "time_ns", "Busy"),
    Column("busy_percent", "percent", "Busy\n%"),
    Column("overlap_ns", "time_ns", "Copies\nbeside kernels"),
    Column("gaps", "int", "Gaps"),
    Column("longest_gap_ns", "time_ns", "Longest\ngap"),
    Column("without_owner_percent", "percent", "Without\nowner %"),
)


def table(
    rows: Sequence[KernelRow],
    *,
    sort: SortKey | None = "time",
    reverse: bool = False,
    limit: int | None = None,
    by: str = "kernel",
) -> list[View]:
    """One table per GPU: its kernels and copies with their share of its time.

    Args:
        sort: None for the order of the rows.
        limit: number of rows; the rest is summed as `-others-`.
        by: the dimension that the rows are summed by.
    """
    views = []
    for place in sorted({(row.node, row.context) for row in rows}):
        chosen = [row for row in rows if (row.node, row.context) == place]
        if sort is not None:
            chosen.sort(key=_ORDERS[sort], reverse=reverse)
        shown, rest = (chosen, []) if limit is None else (chosen[:limit], chosen[limit:])
        cells = [_kernel_cells(row) for row in shown]
        if rest:
            cells.append(_others(place, rest))
        what = "KERNELS" if by == "kernel" else f"GPU WORK BY {by.upper()}"
        title = f"{what} OF NODE {place[0]}, CONTEXT {place[1]}"
        names = [row.timer for row in shown if is_kernel(row.groups)]
        views.append(View(title, _columns(by), cells, _notes(chosen), kernels=names))
    return views


def _columns(by: str) -> list[Column]:
    """The columns of a table by kernel, or by another dimension."""
    return [
        replace(column, heading=by.capitalize()) if column.name == "name" else column
        for column in _KERNEL_COLUMNS
    ]


def _kernel_cells(row: KernelRow) -> list[Cell]:
    more = f" (+{row.routines - 1} more)" if row.routines > 1 else ""
    return [
        row.node,
        row.context,
        row.percent,
        row.time_ns,
        row.calls,
        row.untimed,
        *_spread(row.mean_ns, row.minimum_ns, row.maximum_ns, row.stddev_ns),
        None if row.occupancy is None else 100 * row.occupancy,
        row.limiter,
        row.bytes,
        row.configurations,
        row.short_name,
        row.timer,
        row.routine + more,
        row.timer,
        row.groups,
        row.routine,
        row.routines,
    ]


def _spread(mean: float, minimum: Cell, maximum: Cell, stddev: float) -> list[Cell]:
    """None if no launch was timed: unknown is not 0."""
    return [mean, minimum, maximum, stddev] if mean == mean else [None] * 4


def _others(place: tuple[int, int], rest: Sequence[KernelRow]) -> list[Cell]:
    cells: list[Cell] = [None] * len(_KERNEL_COLUMNS)
    at = {column.name: place for place, column in enumerate(_KERNEL_COLUMNS)}
    cells[at["node"]], cells[at["context"]] = place
    cells[at["percent"]] = sum(row.percent for row in rest)
    cells[at["time_ns"]] = sum(row.time_ns for row in rest)
    cells[at["launches"]] = sum(row.calls for row in rest)
    cells[at["untimed"]] = sum(row.untimed for row in rest)
    cells[at["short_name"]] = cells[at["name"]] = cells[at["kernel"]] = "-others-"
    return cells


def _notes(rows: Sequence[KernelRow]) -> list[str]:
    notes = []
    if untimed := sum(row.untimed for row in rows):
        notes.append(
            f"{untimed} launches have no times from the GPU: times and means exclude them, %GPU "
            "takes the mean of others of the call path"
        )
    without = sum(row.percent for row in rows if row.routine == NO_OWNER)
    if without:
        notes.append(f"{without:.1f} % of the GPU's time has no known launching routine")
    return notes


def sites(rows: Iterable[SiteRow], kernel: str) -> View:
    """Launch sites, launch configurations and times of one kernel."""
    ordered = sorted(rows, key=lambda row: -row.time_ns)
    notes = [kernel] if kernel != ordered[0].short_name else []
    title = f"KERNEL {ordered[0].short_name}"
    return View(title, _SITE_COLUMNS, [_site_cells(row) for row in ordered], notes)


def _site_cells(row: SiteRow) -> list[Cell]:
    mean, stddev = spread(row.calls - row.untimed, row.time_ns, row.sum_squares_ns2)
    return [
        row.node,
        row.context,
        f"{row.node}.{row.context}.{row.thread}",
        row.time_ns,
        row.calls,
        row.untimed,
        *_spread(mean, row.minimum_ns, row.maximum_ns, stddev),
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


def busy(rows: Sequence[BusyRow], source: str = "") -> View:
    """Utilization of each GPU: kernels, copies, gaps and overlap.

    Args:
        source: file that the trial was imported from; empty if taupy measured it.
    """
    notes = []
    if any(row.busy_ns is None for row in rows):
        timed = any(row.kernel_ns or row.copy_ns for row in rows)
        notes.append(f"busy time, gaps and overlap need {_way_to_stamps(source, timed)}")
    cells = [_busy_cells(row) for row in rows]
    return View("GPU ACTIVITY", _BUSY_COLUMNS, cells, notes)


def _way_to_stamps(source: str, timed: bool) -> str:
    """How to get start and end times of single launches into the trial."""
    imported, _, file = source.partition(": ")
    format = imported.removeprefix("import ")
    if format == imported:
        return "start and end times of single launches: record them with `taupy run --trace`"
    if timed and format in ("nsys", "chrome", "perfetto"):
        import shlex

        return (
            "start and end times of single launches: import them with "
            f"`taupy import --trace {shlex.quote(file)}`"
        )
    return "start and end times of single launches, which the imported file does not have"


def _busy_cells(row: BusyRow) -> list[Cell]:
    total = row.kernel_ns + row.copy_ns
    share = 100 * row.busy_ns / row.span_ns if row.busy_ns is not None and row.span_ns else None
    return [
        row.node,
        row.context,
        row.device,
        row.kernel_ns,
        row.copy_ns,
        row.busy_ns,
        share,
        row.overlap_ns,
        row.gaps,
        row.longest_gap_ns,
        100 * row.without_owner_ns / total if total else None,
    ]
