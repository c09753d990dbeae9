"""CSV of `nsys stats`, read: sums of kernels, copies and API calls, and traces of the GPU.

A file holds one report or several, with lines of nsys' own between them. A report that says
again what another one said (`cuda_gpu_sum` after `cuda_gpu_kern_sum`) is left out, as are those of
NVTX ranges, whose times overlap, and of what taupy has no place for.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from taupy.formats import limits
from taupy.formats.limits import refusal
from taupy.formats.nsight.summed_tables import (
    NS,
    SummedTables,
    decimal,
    extent,
    times,
    whole,
    work_of,
)
from taupy.formats.progress import Progress
from taupy.formats.registry import Format
from taupy.model.profile import Profile

Kind = Literal["kernels", "gpu", "copies", "sizes", "api", "trace", "other"]

_UNIT: Final = re.compile(r"(.*?)\s*[(:]+\s*(ns|us|ms|s|%|B|bytes?|KB|MB|GB|KiB|MiB|GiB)\)?")
_SIZES: Final = {"B": 1, "byte": 1, "bytes": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
                 "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}  # fmt: skip
_ALIASES: Final = {
    "Avg": "Average", "Min": "Minimum", "Max": "Maximum", "Num Calls": "Calls",
    "Time(%)": "Time", "Operations": "Count", "Range": "Range", "Total Time": "Total Time",
}  # fmt: skip
_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,3})\)")
_EXTENT: Final = re.compile(r"\d+")
_CUDA: Final = re.compile(r"cu[A-Z]|cuda|__cuda")


def recognises(path: Path, first: bytes) -> bool:
    return any(
        _kind(_columns(_cells(line.decode("utf-8", "replace")))) is not None
        for line in first.splitlines()
        if (b"Total" in line or b"Duration" in line) and b"," in line
    )


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The one trial of a file.

    Raises:
        FormatError: it has no report that is read, or no row.
    """
    reader = _Reader(path)
    reader.read(progress)
    if not reader.reports:
        raise refusal(path, "", "no report of nsys stats that taupy reads")
    if reader.sums.empty:
        raise refusal(path, f"line {reader.number}", "no kernel, copy or API call in its reports")
    yield reader.sums.profile(path, "nsys stats", {"time source": "nsys stats"})


class _Reader:
    """The reports of a file, read row by row."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self.reports = 0
        self.sums = SummedTables()
        self._path = path
        self._columns: dict[str, tuple[int, str]] = {}
        self._width = 0
        self._kind: Kind | None = None
        self._seen: set[Kind] = set()
        self._not_read = 0
        self._left_out: dict[str, None] = {}
        self._moved: dict[str, int] = {}

    def read(self, progress: Progress) -> None:
        for raw in limits.lines(self._path, progress):
            self.number += 1
            cells = _cells(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
            columns = _columns(cells)
            kind = _kind(columns)
            if kind is not None:
                self._begin(kind, columns, len(cells))
            elif self._kind is not None and len(cells) == self._width:
                self._row({name: cells[at] for name, (at, _) in self._columns.items()})
            elif self._kind is not None and len(cells) > 2:
                self._not_read += 1
        if self._not_read:
            note = f"{self._not_read} lines have other columns than their report: left out"
            self.sums.notes.append(note)
        self.sums.notes += self._left_out
        for name, moved in self._moved.items():
            self.sums.add_bytes(name, moved)
        if self._moved:
            self.sums.notes.append("bytes of copies are those that nsys has rounded")

    def _begin(self, kind: Kind, columns: dict[str, tuple[int, str]], width: int) -> None:
        self.reports += 1
        self._kind, self._columns, self._width = kind, columns, width
        again = kind in self._seen or (kind == "gpu" and self._seen & {"kernels", "copies"})
        again = again or (kind in ("kernels", "copies") and "gpu" in self._seen)
        if again or (kind == "trace" and self._seen & {"kernels", "copies", "gpu"}):
            self._left_out.setdefault("a report that says again what another said: left out")
            self._kind = "other"
        elif kind == "other":
            self._left_out.setdefault("reports that are neither of the GPU nor of CUDA: left out")
        self._seen.add(kind)

    def _row(self, cells: Mapping[str, str]) -> None:
        if self._kind == "other":
            return
        if self._kind == "trace":
            self._traced(cells)
        elif self._kind == "sizes":
            moved = self._bytes(cells, "Total")
            if moved is not None:
                self._moved[cells["Operation"]] = moved
        else:
            self._summed(cells)

    def _ns(self, cells: Mapping[str, str], column: str) -> float | None:
        value = decimal(cells.get(column))
        if value is None:
            return None
        return value * NS.get(self._columns[column][1], 1.0)

    def _bytes(self, cells: Mapping[str, str], column: str) -> int | None:
        size = decimal(cells.get(column))
        return None if size is None else round(size * _SIZES.get(self._columns[column][1], 1))

    def _summed(self, cells: Mapping[str, str]) -> None:
        count = next(
            (whole(cells[one]) for one in ("Instances", "Calls", "Count") if one in cells), None
        )
        total = self._ns(cells, "Total Time")
        if not count or total is None:
            self._not_read += 1
            return
        least, largest = (self._ns(cells, one) for one in ("Minimum", "Maximum"))
        mean = total / count
        took = times(
            count,
            total,
            mean if least is None else least,
            mean if largest is None else largest,
            self._ns(cells, "StdDev"),
        )
        if not took.sound:
            raise refusal(self._path, f"line {self.number}", "no program takes so long")
        name = (cells.get("Name") or cells.get("Operation") or "")[: limits.LONGEST_NAME]
        if self._kind == "api":
            self.sums.add_api(name, took, None if _CUDA.match(name) else "OS_API")
        else:
            grid, block = (_extent(cells.get(one)) for one in ("GridXYZ", "BlockXYZ"))
            self.sums.add_gpu(name, took, 0, grid, block)

    def _traced(self, cells: Mapping[str, str]) -> None:
        start, took = self._ns(cells, "Start"), self._ns(cells, "Duration")
        if start is None or took is None:
            self._not_read += 1
            return
        text = cells.get("Device", "")
        match = _DEVICE.fullmatch(text)
        ordinal = int(match[2]) if match is not None else 0
        self.sums.name_device(ordinal, match[1] if match is not None else text)
        work = work_of(cells["Name"][: limits.LONGEST_NAME])
        if work.kind == "kernel":
            work = work._replace(
                grid=extent(cells.get(f"Grd{axis}") for axis in "XYZ"),
                block=extent(cells.get(f"Blk{axis}") for axis in "XYZ"),
                registers=whole(cells.get("Reg/Trd")),
                shared_static_bytes=self._bytes(cells, "StcSMem"),
                shared_dynamic_bytes=self._bytes(cells, "DymSMem"),
            )
        key = (ordinal, whole(cells.get("Ctx")) or 0, whole(cells.get("Strm")) or 0)
        begin = round(start)
        moved = None if work.kind == "kernel" else self._bytes(cells, "Bytes")
        try:
            self.sums.add_record(key, work, begin, begin + round(took), moved)
        except OverflowError as problem:
            raise refusal(self._path, f"line {self.number}", str(problem)) from None


def _columns(cells: list[str]) -> dict[str, tuple[int, str]]:
    """Columns by name without their unit: position and unit."""
    found: dict[str, tuple[int, str]] = {}
    for at, cell in enumerate(cells):
        match = _UNIT.fullmatch(cell)
        name, unit = (match[1].strip(), match[2]) if match is not None else (cell, "")
        if unit == "%":
            continue
        found[_ALIASES.get(name, name)] = at, unit
    return found


def _kind(columns: Mapping[str, object]) -> Kind | None:
    """Which report these are the columns of; None where they are no header."""
    if {"Start", "Duration", "CorrId", "GrdX", "Name"} <= columns.keys():
        return "trace"
    if {"Total", "Count", "Operation"} <= columns.keys():
        return "sizes"
    if "Total Time" not in columns or not {"Name", "Operation", "Range"} & columns.keys():
        return None
    if "Category" in columns:
        return "gpu" if "Instances" in columns else "other"
    if "Range" in columns or not {"Instances", "Calls", "Count"} & columns.keys():
        return "other"
    if "Operation" in columns:
        return "copies"
    return "kernels" if "Instances" in columns else "api"


def _extent(text: str | None) -> tuple[int, int, int] | None:
    """` 896    1    1`."""
    return extent(_EXTENT.findall(text or ""))


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []


FORMAT = Format(
    name="nsys-stats",
    title="nsys stats CSV",
    suffixes=(),
    recognises=recognises,
    read=read,
)
