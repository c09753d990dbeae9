"""GPU work as read from the database: the rows that `profiledb.gpu_query` returns."""

from __future__ import annotations

import math
from collections import Counter

from taupy.dataclass import NamedTuple
from taupy.model.gpu_time import GpuTime
from taupy.model.table import Table


def spread(timed: int, time_ns: int, sum_squares_ns2: float) -> tuple[float, float]:
    """Mean and standard deviation of the times of `timed` launches; NaN for 0 launches."""
    if not timed:
        return math.nan, math.nan
    mean = time_ns / timed
    return mean, math.sqrt(max(0.0, sum_squares_ns2 / timed - mean * mean))


def launched_times(table: Table) -> list[float]:
    """The time of all launches of each row [ns]. Those that are not timed take the mean of the
    others of the row or, if it has none, of the kernel on this GPU.

    Args:
        table: of `question.LAUNCHES`, by device, timer and any other dimensions.
    """
    kernels = list(zip(*map(table.row_labels, ("device", "timer")), strict=True))
    columns = map(table.column, ("launch.count", "launch.untimed", "launch.time"))
    rows = [(count, count - untimed, ns or 0) for count, untimed, ns in zip(*columns, strict=True)]
    timed: Counter[object] = Counter()
    times: Counter[object] = Counter()
    for kernel, (_, number, ns) in zip(kernels, rows, strict=True):
        timed[kernel] += number
        times[kernel] += ns
    return [
        ns * count / number if number else count * times[kernel] / (timed[kernel] or 1)
        for kernel, (count, number, ns) in zip(kernels, rows, strict=True)
    ]


class SiteRow(NamedTuple):
    """One kernel or copy with one configuration, from one call path, on one stream.

    `routine` is the nearest routine above the launch, `callpath` the whole path down to
    the launching call; both say so if the launch was not seen. Times are in nanoseconds, over
    the timed launches; None where none was timed.
    """

    node: int
    context: int
    thread: int
    timer: str
    short_name: str
    groups: str
    routine: str
    callpath: str
    callpath_id: int
    calls: int
    untimed: int
    time_ns: int
    minimum_ns: int | None
    maximum_ns: int | None
    sum_squares_ns2: float
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    registers: int | None
    shared_static_bytes: int | None
    shared_dynamic_bytes: int | None
    local_bytes: int | None
    occupancy: float | None
    limiter: str | None
    bytes: int | None


class KernelRow(NamedTuple):
    """All launches of one kernel (or copy) of a trial on one GPU.

    `percent` is the share of that GPU's total time, launches without a time taken by the mean of
    the kernel's others; `mean_ns` and `stddev_ns` are over the timed launches, `occupancy` is
    weighted by time, `routine` is the one that launched most of the time, and `routines` the number
    of launching routines. `configurations` is their number, None where they are not known.
    """

    node: int
    context: int
    timer: str
    short_name: str
    groups: str
    percent: float
    calls: int
    untimed: int
    time_ns: int
    minimum_ns: int | None
    maximum_ns: int | None
    mean_ns: float
    stddev_ns: float
    bytes: int | None
    occupancy: float | None
    limiter: str | None
    configurations: int | None
    routine: str
    routines: int


class BusyRow(NamedTuple):
    """Totals of one GPU. Times in nanoseconds.

    `kernel_ns` and `copy_ns` are sums over streams: concurrent work counts
    twice. The other values require the start and end of every activity (`--trace`) and are
    otherwise None: `busy_ns` is the time in which anything ran, `span_ns` from the first start to
    the last end, `overlap_ns` the time in which kernels and copies overlapped, `gaps` the number of
    idle periods in between, `longest_gap_ns` the longest of them, and `time` what the whole went
    to.
    """

    node: int
    context: int
    device: str
    kernel_ns: int
    copy_ns: int
    without_owner_ns: int
    span_ns: int | None = None
    busy_ns: int | None = None
    overlap_ns: int | None = None
    gaps: int | None = None
    longest_gap_ns: int | None = None
    time: GpuTime | None = None
