"""Nsight Compute's CSV (`ncu --csv`), read: raw and details pages, long and wide.

The program's own output may stand before, between and after the rows, a byte order mark
before all; a header may come again for the next process. The details page has labels and
scaled units in place of metrics; the few that name a metric are taken as that.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from taupy.errors import FormatError
from taupy.formats import limits, ncu_units
from taupy.formats.limits import refusal
from taupy.formats.ncu_metrics import Counted, CountedLaunches
from taupy.formats.progress import SILENT, Progress
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.model.profile import Profile

_HEADER: Final = re.compile(rb'^\xef?\xbb?\xbf?"?ID"?,"?Process ID"?,', re.MULTILINE)
_ROW: Final = re.compile(r'"?(\d{1,12})"?,')
_MOST_LOOKED: Final = 64 << 20
_MOST_JOINED: Final = 1000
_MOST_COLUMNS: Final = 20_000
_MOST_SURVEYED: Final = 100_000
_ENOUGH_MARKS: Final = 50

_KNOWN: Final = frozenset(
    ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
     "Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Body Item Label",
     "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
     "Estimated Speedup Type", "Estimated Speedup", "Invocations", "Minimum", "Maximum", "Average")
)  # fmt: skip

# Labels of the details page that stand for a metric.
_LABELS: Final = {
    "Duration": "gpu__time_duration.sum",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "SM Frequency": "smsp__cycles_elapsed.avg.per_second",
    "DRAM Bandwidth": "dram__bytes.sum.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "L2 Cache Frequency": "lts__cycles_elapsed.avg.per_second",
    "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
    "Theoretical L2 Cache Bytes Accessible": "derived__lts__lts2xbar_bytes.sum.peak_sustained",
    "Theoretical L1/TEX Cache Bytes Accessible": (
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained"
    ),
    **{
        f"Theoretical Predicated-On {name}FMA Operations": (
            f"derived__sm__sass_thread_inst_executed_op_{name.lower()}fma_pred_on_x{factor}"
        )
        for name, factor in (("D", 2), ("F", 2), ("H", 4))
    },
    **{
        f"Theoretical Predicated-On {name}FMA Thread Instructions Executed": (
            f"sm__sass_thread_inst_executed_op_{name.lower()}fma_pred_on.sum.peak_sustained"
        )
        for name in "DFH"
    },
    **{
        f"Predicated-On {name} Thread Instructions Executed Per Cycle": (
            f"smsp__sass_thread_inst_executed_op_{name.lower()}_pred_on.sum.per_cycle_elapsed"
        )
        for kind in "DFH"
        for name in (f"{kind}ADD", f"{kind}MUL", f"{kind}FMA")
    },
}


def recognises(path: Path, first: bytes) -> bool:
    if _HEADER.search(first):
        return True
    if b"==PROF==" not in first and b"==WARNING==" not in first:
        return False
    with open(path, "rb") as file:  # a talkative program: look further
        seen = first[-64:]
        for _ in range(_MOST_LOOKED >> 20):
            piece = file.read(1 << 20)
            if not piece:
                return False
            if _HEADER.search(seen + piece):
                return True
            seen = piece[-64:]
    return False


def launches(path: Path, progress: Progress) -> Iterator[Counted]:
    """The launches one by one, in their order."""
    return (one for one, _ in _Table(path).launches(progress))


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The one trial of a file; processes are nodes in order of appearance.

    Raises:
        FormatError: there is no header, no launch, or a row that cannot be.
    """
    launches = CountedLaunches()
    table = _Table(path)
    names: dict[str, str] = {}
    for one, process in table.launches(progress):
        try:
            launches.add(one)
        except OverflowError as problem:
            raise refusal(path, f"line {table.number}", str(problem)) from None
        if process:
            names.setdefault("application", process)
    if not table.columns:
        raise refusal(
            path, "", 'no header line beginning with "ID","Process ID": not from ncu --csv'
        )
    if not launches.count:
        raise refusal(path, f"line {table.number}", "no kernel was profiled: there are no rows")
    notes = launches.notes() + table.notes()
    metadata = {"ncu errors": "\n".join(table.errors)} if table.errors else {}
    if notes:
        metadata[IMPORT_NOTES] = "\n".join(notes)
    application = names.get("application") or path.stem.partition(".")[0] or path.name
    try:
        profile = launches.profile(application, metadata, path.stat().st_mtime)
    except OverflowError:
        raise refusal(path, "", "its values are too large to be counts") from None
    yield profile


class _Table:
    """The rows of a file, launch by launch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = []
        self.number = 0
        self.errors: list[str] = []
        self._skipped = 0
        self._not_read = 0
        self._units: list[str] = []
        self._decimal = "."

    def notes(self) -> list[str]:
        found = []
        if self._not_read:
            found.append(
                f"{self._not_read} lines that begin as rows do have other columns: left out"
            )
        if self._decimal == ",":
            found.append(
                "numbers are read as 1.234,5: points between thousands, comma before tenths"
            )
        return found

    def launches(self, progress: Progress) -> Iterator[tuple[Counted, str]]:
        """Each launch with its process's name, when its last row was seen."""
        self._decimal = _Table(self.path)._decimal_mark()
        current: Counted | None = None
        key: tuple[str, ...] = ()
        name = ""
        for row in self._rows(progress):
            cell = dict(zip(self.columns, row, strict=True))
            if not self.wide and "Metric Name" not in cell:
                raise refusal(self.path, f"line {self.number}", "neither metrics nor their names")
            mine = (cell["ID"], cell.get("Process ID", ""), cell.get("Host Name", ""),
                    cell.get("Kernel Name", ""), cell.get("Device", ""))  # fmt: skip
            if current is None or mine != key:
                if current is not None:
                    yield _whole(current), name
                current, key, name = self._launch(cell), mine, cell.get("Process Name", "")
            for metric, unit, text, label in self._values(row, cell):
                _take(current, metric, unit, ncu_units.number(text, self._decimal), text, label)
        if current is not None:
            yield _whole(current), name

    def _decimal_mark(self) -> str:
        """What the first values say that can be read in one way only; see `decimal`."""
        marks: Counter[str] = Counter()
        try:
            for row in islice(self._rows(SILENT), _MOST_SURVEYED):
                cell = dict(zip(self.columns, row, strict=True))
                for name, unit, text, label in self._values(row, cell):
                    marks[ncu_units.decimal(_metric_name(name, label), unit, text)] += 1
                if marks["."] + marks[","] >= _ENOUGH_MARKS:
                    break
        except FormatError:
            pass  # it is told of where the file is read
        return "," if marks[","] > marks["."] else "."

    def _values(self, row: list[str], cell: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
        """The metrics of a row: name, unit, value, and the label it stands under."""
        if self.wide:
            for column, unit, text in zip(self.columns, self._units, row, strict=True):
                if column not in _KNOWN:
                    yield column, unit, text, ""
        elif "Metric Name" in cell:
            value = cell.get("Metric Value", cell.get("Average", ""))
            yield (
                cell["Metric Name"],
                cell.get("Metric Unit", ""),
                value,
                cell.get("Body Item Label", ""),
            )

    @property
    def wide(self) -> bool:
        return "Metric Name" not in self.columns and any(one not in _KNOWN for one in self.columns)

    def _launch(self, cell: dict[str, str]) -> Counted:
        def whole(name: str) -> int:
            value = ncu_units.number(cell.get(name, ""))
            return int(value) if value is not None and 0 <= value < 1 << 32 else 0

        return Counted(
            kernel=cell.get("Kernel Name", "")[: limits.LONGEST_NAME] or "(unnamed kernel)",
            process=cell.get("Process ID", "")[:64],
            device=min(whole("Device"), 1 << 16),
            capability=cell.get("CC", "")[:16],
            context=whole("Context"),
            stream=whole("Stream"),
            grid=ncu_units.extent(cell.get("Grid Size", "")),
            block=ncu_units.extent(cell.get("Block Size", "")),
        )

    def _rows(self, progress: Progress) -> Iterator[list[str]]:
        pending: list[str] = []
        cut = 0
        for raw in limits.lines(self.path, progress):
            self.number += 1
            line = raw.decode("utf-8", "replace")
            if pending:
                pending.append(line)
                if sum(one.count('"') for one in pending) % 2 and len(pending) < _MOST_JOINED:
                    continue
                line, pending = "\n".join(pending), []
            else:
                if self.number == 1:
                    line = line.removeprefix("\ufeff")
                if _HEADER.match(raw):
                    self._take_header(line)
                    continue
                if not self.columns or not self._may_be_row(line):
                    self._note(line)
                    continue
                if line.count('"') % 2:
                    pending = [line]
                    continue
            row = _split(line)
            if len(row) == len(self.columns) - 1:
                row.append("")  # rows without a rule have no cell for it in some versions
            if self._is_units(row):
                self._units = [one.strip() for one in row]
                continue
            if len(row) > len(self.columns) and self._cut(row):
                row = row[: len(self.columns)]
            if len(row) < len(self.columns) and "Rule Name" in self.columns:
                row += [""] * (len(self.columns) - len(row))
            if len(row) != len(self.columns) or not row[0].isdigit():
                self._not_read += 1
                cut = self.number if len(row) < len(self.columns) else 0
                continue
            yield row
        if pending or (cut and cut == self.number):
            raise refusal(
                self.path, f"line {self.number}", "the file is cut short in the middle of a row"
            )

    def _take_header(self, line: str) -> None:
        columns = _split(line.removeprefix("\ufeff"))
        if len(columns) > _MOST_COLUMNS or len(set(columns)) < len(columns) or not columns:
            words = f"a header of {len(columns)} columns, {len(set(columns))} of them different"
            raise refusal(self.path, f"line {self.number}", words)
        columns[0] = "ID"
        self.columns = columns
        self._units = [""] * len(columns)

    def _may_be_row(self, line: str) -> bool:
        return _ROW.match(line) is not None or line.startswith(('"",', ",,"))

    def _is_units(self, row: list[str]) -> bool:
        """The second line of a wide table, with units under the metrics."""
        return self.wide and len(row) == len(self.columns) and not row[0].strip()

    @staticmethod
    def _cut(row: list[str]) -> bool:
        return not any(one.strip() for one in row[-1:])

    def _note(self, line: str) -> None:
        self._skipped += 1
        if line.startswith("==ERROR==") and len(self.errors) < 100:
            self.errors.append(line.removeprefix("==ERROR==").strip()[:1000])


def _split(line: str) -> list[str]:
    """The cells of a row, which may hold line ends; none where it is no CSV."""
    try:
        return next(csv.reader(line.replace("\r", "").splitlines(keepends=True)), [])
    except csv.Error:
        return []


def _metric_name(name: str, label: str) -> str:
    name = name.strip()[: limits.LONGEST_NAME]
    if not name or "__" in name:
        return name
    return _LABELS.get(name, f"{label}: {name}" if label else name)


def _take(
    one: Counted, name: str, unit: str, value: int | float | None, text: str, label: str
) -> None:
    """Add one metric's value; what is no number is a text, or nothing."""
    name = _metric_name(name, label)
    if not name:
        return
    if value is None:
        if text and text.lower() not in ("nan", "-nan", "inf", "-inf", "n/a"):
            one.texts[name] = text[:1000]
        return
    if value < 0 and name.endswith(".sum"):
        return  # no counter runs backwards
    factor, base = ncu_units.base(unit)
    one.values[name] = value if factor == 1 else value * factor
    if base:
        one.units[name] = base


def _whole(one: Counted) -> Counted:
    """A launch of which nothing was counted, and that had no extents, has failed."""
    one.failed = not one.values and one.block is None
    return one


FORMAT = Format(
    name="ncu-csv",
    title="Nsight Compute CSV",
    suffixes=(".ncu.csv",),
    recognises=recognises,
    read=read,
)
