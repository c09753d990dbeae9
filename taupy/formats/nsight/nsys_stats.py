"""Read the CSV of `nsys stats`: sums of kernels, copies and API calls, and traces of the GPU.

A file contains one or more reports, with other lines of nsys between them. A report that repeats
another (`cuda_gpu_sum` after `cuda_gpu_kern_sum`) is omitted, as are reports of NVTX ranges, whose
times overlap, and others that do not fit into a profile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from taupy.formats import limits
from taupy.formats.nsight.csv_tables import TableReader, cells_of, extent, whole
from taupy.formats.nsight.summed_tables import times
from taupy.formats.registry import Format

Kind = Literal["kernels", "gpu", "copies", "sizes", "api", "trace", "other"]

_UNIT: Final = re.compile(r"(.*?)\s*[(:]+\s*(ns|us|ms|s|%|B|bytes?|KB|MB|GB|KiB|MiB|GiB)\)?")
_SIZES: Final = {"B": 1, "byte": 1, "bytes": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
                 "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}  # fmt: skip
_ALIASES: Final = {
    "Avg": "Average", "Min": "Minimum", "Max": "Maximum", "Num Calls": "Calls",
    "Operations": "Count", "GrdX": "Grid X", "GrdY": "Grid Y", "GrdZ": "Grid Z",
    "BlkX": "Block X", "BlkY": "Block Y", "BlkZ": "Block Z", "Reg/Trd": "Registers Per Thread",
    "StcSMem": "Static SMem", "DymSMem": "Dynamic SMem", "Bytes": "Size", "Ctx": "Context",
    "Strm": "Stream",
}  # fmt: skip
_EXTENT: Final = re.compile(r"\d+")
_CUDA: Final = re.compile(r"cu[A-Z]|cuda|__cuda")


def recognises(path: Path, first: bytes) -> bool:
    return any(
        _kind(dict(map(_column, cells_of(line.decode("utf-8", "replace"))))) is not None
        for line in first.splitlines()
        if (b"Total" in line or b"Duration" in line) and b"," in line
    )


class _Reader(TableReader):
    """Reads the reports of a file row by row."""

    tool = "nsys stats"
    no_table = "no report of nsys stats that taupy reads"
    no_rows = "no kernel, copy or API call in its reports"
    plain_ns = 1.0
    sizes = _SIZES
    fewest_cells = 3
    called = "report"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._kind: Kind = "other"
        self._seen: set[Kind] = set()
        self._left_out: dict[str, None] = {}
        self._moved: dict[str, int] = {}

    def _begin(self, cells: list[str]) -> bool:
        columns = [_column(cell) for cell in cells]
        kind = _kind(dict(columns))
        if kind is None:
            return False
        self._columns, self._units = [name for name, _ in columns], dict(columns)
        self._kind = kind
        again = kind in self._seen or (kind == "gpu" and self._seen & {"kernels", "copies"})
        again = again or (kind in ("kernels", "copies") and "gpu" in self._seen)
        if again or (kind == "trace" and self._seen & {"kernels", "copies", "gpu"}):
            self._left_out.setdefault("a report that repeats another one: left out")
            self._kind = "other"
        elif kind == "other":
            self._left_out.setdefault("reports that are neither of the GPU nor of CUDA: left out")
        self._seen.add(kind)
        return True

    def _end(self) -> None:
        self.sums.notes += self._left_out
        for name, moved in self._moved.items():
            self.sums.add_bytes(name, moved)
        if self._moved:
            self.sums.notes.append("bytes of copies are those that nsys has rounded")

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

    def _summed(self, cells: Mapping[str, str]) -> None:
        count = next(
            (whole(cells[column]) for column in ("Instances", "Calls", "Count") if column in cells),
            None,
        )
        total = self._ns(cells, "Total Time")
        if not count or total is None:
            self._not_read += 1
            return
        least, largest = (self._ns(cells, column) for column in ("Minimum", "Maximum"))
        mean = total / count
        took = self._sound(
            times(
                count,
                total,
                mean if least is None else least,
                mean if largest is None else largest,
                self._ns(cells, "StdDev"),
            )
        )
        name = (cells.get("Name") or cells.get("Operation") or "")[: limits.LONGEST_NAME]
        if self._kind == "api":
            self.sums.add_api(name, took, None if _CUDA.match(name) else "OS_API")
        else:
            grid, block = (_extent(cells.get(column)) for column in ("GridXYZ", "BlockXYZ"))
            self.sums.add_gpu(name, took, 0, grid, block)


def _column(cell: str) -> tuple[str, str]:
    """A column's name (nvprof's, if there is one) and its unit; a percentage keeps its name."""
    match = _UNIT.fullmatch(cell)
    if match is None or match[2] == "%":
        return _ALIASES.get(cell, cell), ""
    name = match[1].strip()
    return _ALIASES.get(name, name), match[2]


def _kind(columns: Mapping[str, object]) -> Kind | None:
    """The report that these columns belong to; None if they are not a header."""
    if {"Start", "Duration", "CorrId", "Grid X", "Name"} <= columns.keys():
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
    """The extent in a cell such as ` 896    1    1`."""
    return extent(_EXTENT.findall(text or ""))


read = _Reader.read

FORMAT = Format(
    name="nsys-stats",
    title="nsys stats CSV",
    suffixes=(),
    recognises=recognises,
    read=read,
)
