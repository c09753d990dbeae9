"""Read nvprof's CSV (`nvprof --csv`): summaries, traces of the GPU, events and metrics.

A file may contain several tables, each after a line such as `==7== Profiling result:`. Tables of
metrics have no durations, which must come from another run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from taupy.formats import limits
from taupy.formats.nsight.csv_tables import (
    NS,
    TableReader,
    cells_of,
    decimal,
    device_of,
    whole,
)
from taupy.formats.nsight.summed_tables import least_squares, times
from taupy.formats.registry import Format
from taupy.model.profile import UserEvent
from taupy.model.work import COUNTED_LAUNCHES

# The columns that identify each kind of table.
_SUMMARY: Final = frozenset(("Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"))
_COUNTS: Final = frozenset(("Device", "Kernel", "Invocations", "Min", "Max", "Avg"))
_METRICS: Final = _COUNTS | {"Metric Name"}
_EVENTS: Final = _COUNTS | {"Event Name"}
_TRACE: Final = frozenset(("Start", "Duration", "Grid X", "Block X", "Name"))
_TABLES: Final = (_SUMMARY, _METRICS, _EVENTS, _TRACE)

_VALUE: Final = re.compile(r"([\d.]+(?:[eE][-+]?\d+)?)\s*(%|[kKMGT]?B/s)?")
_IDLE: Final = re.compile(r"Idle \(0\)")
_WHOLE: Final = re.compile(r"\d+")
_SIZES: Final = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

# nvprof's metrics that are equal to taupy's counters.
_OURS: Final = {
    "flop_count_dp": ("flop_fp64", "flop"),
    "flop_count_sp": ("flop_fp32", "flop"),
    "flop_count_hp": ("flop_fp16", "flop"),
    "inst_executed": ("inst_executed", "inst"),
    "inst_issued": ("inst_issued", "inst"),
    "dram_read_bytes": ("dram_read_bytes", "B"),
    "dram_write_bytes": ("dram_write_bytes", "B"),
}
# A level's bytes: the first of these for which the file has both parts.
_BYTES: Final = (
    ("bytes_dram", ("dram_read_bytes", "dram_write_bytes"), 1),
    ("bytes_dram", ("dram_read_transactions", "dram_write_transactions"), 32),
    ("bytes_l2", ("l2_read_transactions", "l2_write_transactions"), 32),
)
_TENSOR_LOAD: Final = "tensor_precision_fu_utilization"
_TENSOR_CHIPS: Final = re.compile(r"V100|TITAN V\b|Xavier|RTX|\bT4\b", re.IGNORECASE)


def recognises(path: Path, first: bytes) -> bool:
    return any(
        _table(cells_of(line.decode("utf-8", "replace"))) is not None
        for line in first.splitlines()
        if b"Name" in line and b"," in line
    )


class _Reader(TableReader):
    """Reads the tables of a file row by row."""

    tool = "nvprof"
    no_table = "no table of nvprof --csv"
    no_rows = "the tables have no rows"
    plain_ns = 1e3
    sizes = _SIZES
    fewest_cells = 2
    called = "table"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._kind: frozenset[str] | None = None
        self._metrics: dict[tuple[int, str], _Metrics] = {}

    def _begin(self, cells: list[str]) -> bool:
        table = _table(cells)
        if table is None:
            return False
        self._kind, self._columns, self._units = table, cells, {}
        return True

    def _row(self, cells: Mapping[str, str]) -> None:
        if self._is_units(cells):
            self._units = dict(cells)
        elif self._kind is _SUMMARY:
            self._summed(cells)
        elif self._kind is _TRACE:
            self._traced(cells)
        else:
            self._counted(cells)

    def _is_units(self, cells: Mapping[str, str]) -> bool:
        """Whether this is the line below a header, with the columns' units."""
        return (
            self._kind in (_SUMMARY, _TRACE)
            and not cells["Name"]
            and any(cells.get(column) in NS for column in ("Time", "Duration"))
        )

    def _summed(self, cells: Mapping[str, str]) -> None:
        count = whole(cells["Calls"])
        numbers = [self._ns(cells, column) for column in ("Time", "Min", "Max")]
        if count is None or None in numbers:
            self._not_read += 1
            return
        total, least, largest = (value or 0.0 for value in numbers)
        took = self._sound(times(count, total, least, largest))
        kind = cells.get("Type", "GPU activities")
        name = cells["Name"][: limits.LONGEST_NAME]
        if kind == "API calls" or ("Type" not in cells and name.startswith(("cuda", "cu"))):
            self.sums.add_api(name, took)
        elif kind == "GPU activities":
            self.sums.add_gpu(name, took)
        else:
            self._not_read += 1  # OpenACC and other host activities are part of the calls

    # --- metrics -------------------------------------------------------------

    def _counted(self, cells: Mapping[str, str]) -> None:
        count = whole(cells["Invocations"])
        name = cells.get("Metric Name") or cells.get("Event Name") or ""
        if not count or not name:
            self._not_read += 1
            return
        device, ordinal = device_of(cells["Device"])
        self.sums.name_device(ordinal, device)
        key = (ordinal, cells["Kernel"][: limits.LONGEST_NAME])
        metrics = self._metrics.setdefault(key, _Metrics(device))
        metrics.take(name, count, cells["Min"], cells["Max"], cells["Avg"])

    def _end(self) -> None:
        for (ordinal, kernel), metrics in self._metrics.items():
            untimed = times(metrics.count, 0, 0, 0)
            self.sums.add_gpu(kernel, untimed, ordinal, untimed=True)
            self.sums.add_values(kernel, metrics.sums(), metrics.units, ordinal)
            for sample in metrics.samples:
                self.sums.add_sample(kernel, sample, ordinal)
        if self._metrics:
            self.sums.notes.append(
                "nvprof's metrics have no durations: take them from a trial of the same program "
                "with `taupy roofline --timing TRIAL`"
            )


class _Metrics:
    """The metrics of one kernel."""

    def __init__(self, device: str) -> None:
        self.count = 0
        self.units: dict[str, str] = {COUNTED_LAUNCHES: "launch"}
        self.samples: list[UserEvent] = []
        self._device = device
        self._counts: dict[str, float] = {}
        self._tensor_idle = bool(device) and _TENSOR_CHIPS.search(device) is None

    def take(self, name: str, count: int, least: str, largest: str, mean: str) -> None:
        """Add one row. Integers without a unit are counts; all other values are not sums."""
        self.count = max(self.count, count)
        value = _value(mean)
        if name == _TENSOR_LOAD and _IDLE.fullmatch(largest.strip()):
            self._tensor_idle = True
        if value is None:
            return
        number, unit = value
        if not unit and all(_WHOLE.fullmatch(limit.strip()) for limit in (least, largest)):
            self._counts[name] = number * count
            return
        limits = [_value(limit) for limit in (least, largest)]
        low, high = (number if limit is None else limit[0] for limit in limits)
        squares = least_squares(count, number, low, high)
        self.samples.append(
            UserEvent(
                name=name,
                unit=unit or "ratio",
                count=count,
                minimum=low,
                maximum=high,
                mean=number,
                sum_squares=squares,
            )
        )

    def sums(self) -> dict[str, float]:
        """Sums, under taupy's names for known counters, otherwise under nvprof's."""
        sums: dict[str, float] = {COUNTED_LAUNCHES: self.count}
        for name, value in self._counts.items():
            ours, unit = _OURS.get(name, (name, "count"))
            sums[ours] = _plain(value)
            self.units[ours] = unit
        for level, parts, weight in _BYTES:
            if level not in sums and all(part in self._counts for part in parts):
                sums[level] = _plain(sum(weight * self._counts[part] for part in parts))
                self.units[level] = "B"
        if self._tensor_idle and any(name.startswith("flop") for name in sums):
            sums["flop_tensor"] = 0
            self.units["flop_tensor"] = "flop"
        return sums


def _value(text: str) -> tuple[float, str] | None:
    """A number and its unit; None for levels such as `Low (2)`."""
    match = _VALUE.fullmatch(text.strip())
    number = None if match is None else decimal(match[1])
    return None if match is None or number is None else (number, match[2] or "")


def _plain(value: float) -> float:
    return int(value) if value == int(value) and value < 1 << 50 else value


def _table(cells: list[str]) -> frozenset[str] | None:
    """The table that these columns belong to; None if they are not a header."""
    columns = frozenset(cells)
    return next((table for table in _TABLES if table <= columns), None)


read = _Reader.read

FORMAT = Format(
    name="nvprof",
    title="nvprof CSV",
    suffixes=(),
    recognises=recognises,
    read=read,
)
