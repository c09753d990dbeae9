"""Read tables in CSV from NVIDIA's tools row by row: the common part of nvprof and nsys stats."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from taupy.formats import limits, reading
from taupy.formats.nsight.summed_tables import SummedTables, Times, work_of
from taupy.formats.reading import refusal
from taupy.model.gpu import Configuration, Extent
from taupy.model.profile import Profile
from taupy.model.progress import Progress
from taupy.units import several

NS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
"""A table's unit of time -> nanoseconds."""

_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,3})\)")


class TableReader:
    """Reads the tables of a file.

    Subclasses recognise headers (`_begin`) and handle rows (`_row`). Columns have nvprof's names.

    Attributes:
        sums: the contents of the rows.
    """

    tool: ClassVar[str]
    no_table: ClassVar[str]  # the message for a file without one, and for tables without rows
    no_rows: ClassVar[str]
    plain_ns: ClassVar[float]  # of a time in a column without a unit
    sizes: ClassVar[Mapping[str, int]]  # bytes of a unit
    fewest_cells: ClassVar[int]  # of a line that may be a row
    called: ClassVar[str]  # what the tool calls a table

    def __init__(self, path: Path) -> None:
        self.sums = SummedTables()
        self._path = path
        self._number = 0  # of the line that is read
        self._tables = 0
        self._columns: list[str] = []
        self._units: dict[str, str] = {}
        self._not_read = 0

    @classmethod
    def read(cls, path: Path, progress: Progress) -> Iterator[Profile]:
        """The only trial of a file.

        Raises:
            FormatError: the file has no table, or no row.
        """
        reader = cls(path)
        reader._read(progress)
        if not reader._tables:
            raise refusal(path, "", cls.no_table)
        if reader.sums.empty:
            raise refusal(path, f"line {reader._number}", cls.no_rows)
        yield reader.sums.profile(path, cls.tool, {"time source": cls.tool})

    def _read(self, progress: Progress) -> None:
        for raw in reading.lines(self._path, progress):
            self._number += 1
            line = raw.decode("utf-8", "replace").removeprefix("\ufeff")
            cells = [] if line.startswith("==") else cells_of(line)
            if self._begin(cells):
                self._tables += 1
            elif self._columns and len(cells) == len(self._columns):
                self._row(dict(zip(self._columns, cells, strict=True)))
            elif self._columns and len(cells) >= self.fewest_cells:
                self._not_read += 1
        self._end()
        if self._not_read:
            lines = several(self._not_read, "line")
            self.sums.notes.append(f"left out: {lines} of other columns than the {self.called}")

    def _begin(self, cells: list[str]) -> bool:
        """Whether these are the columns of a table; if so, the following rows belong to it."""
        raise NotImplementedError

    def _row(self, cells: Mapping[str, str]) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        """Called after the last row."""

    def _ns(self, cells: Mapping[str, str], column: str) -> float | None:
        value = decimal(cells.get(column))
        return None if value is None else value * NS.get(self._units.get(column, ""), self.plain_ns)

    def _bytes(self, cells: Mapping[str, str], column: str) -> int | None:
        size = decimal(cells.get(column))
        return (
            None if size is None else round(size * self.sizes.get(self._units.get(column, ""), 1))
        )

    def _sound(self, took: Times) -> Times:
        if not took.sound:
            raise refusal(self._path, f"line {self._number}", "no program takes so long")
        return took

    def _traced(self, cells: Mapping[str, str]) -> None:
        """Add a row of a trace: one kernel, copy or memset."""
        start, took = self._ns(cells, "Start"), self._ns(cells, "Duration")
        if start is None or took is None:
            self._not_read += 1
            return
        name, ordinal = device_of(cells.get("Device", ""))
        self.sums.name_device(ordinal, name)
        work = work_of(cells["Name"][: limits.LONGEST_NAME])
        if work.kind == "kernel":
            configuration = Configuration(
                grid=extent(cells.get(f"Grid {axis}") for axis in "XYZ"),
                block=extent(cells.get(f"Block {axis}") for axis in "XYZ"),
                registers=whole(cells.get("Registers Per Thread")),
                shared_static_bytes=self._bytes(cells, "Static SMem"),
                shared_dynamic_bytes=self._bytes(cells, "Dynamic SMem"),
            )
            work = work._replace(configuration=configuration)
        key = (ordinal, whole(cells.get("Context")) or 0, whole(cells.get("Stream")) or 0)
        begin = round(start)
        moved = None if work.kind == "kernel" else self._bytes(cells, "Size")
        try:
            self.sums.add_record(key, work, begin, begin + round(took), moved)
        except OverflowError as problem:
            raise refusal(self._path, f"line {self._number}", str(problem)) from None


def cells_of(line: str) -> list[str]:
    """The cells of a line; empty if it is not CSV."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]), [])]
    except csv.Error:
        return []


def device_of(text: str) -> tuple[str, int]:
    """Name and ordinal of a device such as `Tesla K20c (0)`."""
    match = _DEVICE.fullmatch(text)
    return (match[1], int(match[2])) if match is not None else (text, 0)


def whole(text: str | None) -> int | None:
    """The whole number in a cell; None if there is none."""
    digits = (text or "").strip()
    return int(digits) if digits.isdigit() and len(digits) < 19 else None


def decimal(text: str | None) -> float | None:
    """The number in a cell; None if there is none."""
    try:
        value = float((text or "").strip().replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < limits.VALUE else None


def extent(parts: Iterable[str | None]) -> Extent | None:
    """A grid or block, from its three cells."""
    axes = [whole(part) for part in parts]
    if len(axes) != 3 or None in axes or 0 in axes:
        return None
    x, y, z = (value or 0 for value in axes)
    return (x, y, z)
