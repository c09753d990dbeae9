"""Read the tables in Nsight Compute's CSV, of which there are four kinds.

long      a row for each launch and metric: raw and details pages
wide      a row for each launch, a column for each metric, units in the second line
summary   a row for each kernel and metric: `ncu --print-summary`, with mean, minimum and maximum
pivot     a wide table that a script made from these: its index, then a column for each metric

The program's own output may precede, interrupt or follow the rows; the file may begin with a byte
order mark, and the header may be repeated for another process. A first pass determines whether
numbers are written 1,234.5 or 1.234,5.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple

from taupy.errors import FormatError
from taupy.formats import limits, reading
from taupy.formats.nsight import ncu_units
from taupy.formats.nsight.ncu_labels import is_metric, metric_name
from taupy.formats.reading import refusal
from taupy.model.progress import SILENT, Progress
from taupy.units import listing, several

Kind = Literal["long", "wide", "summary", "pivot"]

_MAY_BE_HEADER: Final = re.compile(rb"Kernel Name|Process ID|__\w+\.(?:sum|avg|max|min)")
_ROW: Final = re.compile(r'"?(\d{1,12})"?,')
_NUMBER: Final = re.compile(r"\s*[-+]?[\d.,]+(?:[eE][-+]?\d+)?\s*")
_ENOUGH_MARKS: Final = 50
_LEAST_METRICS: Final = 3

VALUES: Final = frozenset(
    ("Section Name", "Body Item Label", "Metric Name", "Metric Unit", "Metric Value", "Rule Name",
     "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup", "Minimum",
     "Maximum", "Average")
)  # fmt: skip
"""Columns that describe a metric or a rule; all others identify the launch."""

_IDENTITY: Final = frozenset(
    ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
     "Stream", "Block Size", "Grid Size", "Device", "CC", "Invocations")
)  # fmt: skip


class Value(NamedTuple):
    """A metric of a row; `number` is None if the text is not a number."""

    name: str
    unit: str
    text: str
    number: float | None
    least: float | None = None
    largest: float | None = None


class Row(NamedTuple):
    """A row: all of its cells, and its values."""

    cells: Mapping[str, str]
    values: list[Value]


class Header(NamedTuple):
    """The columns of a table."""

    kind: Kind
    columns: tuple[str, ...]


def header(line: str) -> Header | None:
    """Parse a line as a header; None if it is not one."""
    columns = tuple(cell.strip() for cell in split(line.removeprefix("\ufeff")))
    numbered = columns[:2] == ("ID", "Process ID")
    named = "Metric Name" in columns and (numbered or "Kernel Name" in columns)
    if named and "Metric Value" in columns:
        return Header("long", columns)
    if named and "Average" in columns:
        return Header("summary", columns)
    if numbered:
        return Header("wide", columns)
    if any(_NUMBER.fullmatch(cell) for cell in columns):
        return None
    metrics = sum(1 for cell in columns if is_metric(cell))
    if metrics >= (1 if "Kernel Name" in columns else _LEAST_METRICS):
        return Header("pivot", columns)
    return None


def may_be_header(line: bytes) -> bool:
    """Whether a line is worth checking for a header."""
    return _MAY_BE_HEADER.search(line) is not None


def split(line: str) -> list[str]:
    """The cells of a row, which may contain line breaks; empty if it is not CSV."""
    line = line.replace("\r", "")
    lines = line.splitlines(keepends=True) if "\n" in line else [line]
    try:
        return next(csv.reader(lines), [])
    except csv.Error:
        return []


class NcuRows:
    """The rows of a file.

    Attributes:
        number: number of the last line read.
        kind: kind of the table; None before its header.
        errors: the profiler's own error messages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.kind: Kind | None = None
        self.errors: list[str] = []
        self._columns: tuple[str, ...] = ()
        self._units: list[str] = []
        self._decimal = "."
        self._not_read = 0
        self._left_out: dict[str, None] = {}

    def rows(self, progress: Progress) -> Iterator[Row]:
        """All rows, in order.

        Raises:
            FormatError: a header is invalid, or the file ends within a row.
        """
        self._decimal = NcuRows(self.path)._decimal_mark()
        for row in self._split_rows(progress):
            cells = dict(zip(self._columns, row, strict=True))
            yield Row(cells, list(self._values(row, cells)))

    def notes(self) -> list[str]:
        notes = []
        if self._not_read:
            lines = several(self._not_read, "line")
            notes.append(f"left out: {lines} of other columns, though the beginning is a row's")
        if self._decimal == ",":
            notes.append(
                "numbers are read as 1.234,5: points between thousands, comma before tenths"
            )
        if self.kind == "pivot":
            notes.append("a pivot table has no units: values are taken as ns, byte, hz and counts")
        if self._left_out:
            names = listing(self._left_out, 6)
            notes.append(f"columns that are not metrics were left out: {names}")
        return notes

    def _decimal_mark(self) -> str:
        """The decimal mark, from the first unambiguous values; see `ncu_units.decimal`."""
        marks: Counter[str] = Counter()
        try:
            for row in islice(self._split_rows(SILENT), limits.NCU_SURVEYED):
                cells = dict(zip(self._columns, row, strict=True))
                for value in self._values(row, cells):
                    marks[ncu_units.decimal(value.name, value.unit, value.text)] += 1
                if marks["."] + marks[","] >= _ENOUGH_MARKS:
                    break
        except FormatError:
            pass  # reported where the file is read
        return "," if marks[","] > marks["."] else "."

    def _values(self, row: list[str], cells: Mapping[str, str]) -> Iterator[Value]:
        if self.kind in ("wide", "pivot"):
            for column, unit, text in zip(self._columns, self._units, row, strict=True):
                if self.kind == "pivot" and not is_metric(column):
                    self._leave_out(column)
                elif column not in _IDENTITY and column not in VALUES:
                    yield self._value(metric_name(column), unit, text)
            return
        name = metric_name(cells["Metric Name"], cells.get("Body Item Label", ""))
        unit = cells.get("Metric Unit", "")
        if not name:
            return
        if self.kind == "long":
            yield self._value(name, unit, cells.get("Metric Value", ""))
            return
        least, largest = (self._number(cells.get(column, "")) for column in ("Minimum", "Maximum"))
        yield self._value(name, unit, cells["Average"])._replace(least=least, largest=largest)

    def _value(self, name: str, unit: str, text: str) -> Value:
        return Value(name, unit, text, self._number(text))

    def _number(self, text: str) -> float | None:
        return ncu_units.number(text, self._decimal)

    def _leave_out(self, column: str) -> None:
        if column not in ("", "Time", "Count", "Metric Name", *_IDENTITY):
            self._left_out.setdefault(column)

    # --- lines ---------------------------------------------------------------

    def _split_rows(self, progress: Progress) -> Iterator[list[str]]:
        pending: list[str] = []
        cut = 0
        for raw in reading.lines(self.path, progress):
            self.number += 1
            line = raw.decode("utf-8", "replace")
            if pending:
                pending.append(line)
                if sum(line.count('"') for line in pending) % 2 and len(pending) < limits.NCU_LINES:
                    continue
                line, pending = "\n".join(pending), []
            else:
                numbered = self._numbered and _ROW.match(line) is not None  # never a header
                if (
                    not numbered
                    and may_be_header(raw)
                    and (header_here := header(line)) is not None
                ):
                    self._take_header(header_here)
                    continue
                if not numbered and not self._may_be_row(line):
                    self._note(line)
                    continue
                if line.count('"') % 2:
                    pending = [line]
                    continue
            row = self._padded(split(line))
            if self._is_units(row):
                self._units = [unit.strip() for unit in row]
            elif len(row) == len(self._columns) and self._is_row(row):
                yield row
            elif self._numbered:
                self._not_read += 1
                cut = self.number if len(row) < len(self._columns) else 0
        if pending or (cut and cut == self.number):
            raise refusal(
                self.path, f"line {self.number}", "the file is cut short in the middle of a row"
            )

    @property
    def _numbered(self) -> bool:
        """Whether each row begins with the number of its launch."""
        return self._columns[:1] == ("ID",)

    def _take_header(self, header_here: Header) -> None:
        columns = header_here.columns
        if len(columns) > limits.NCU_COLUMNS or len(set(columns)) < len(columns):
            words = f"a header of {len(columns)} columns, {len(set(columns))} of them different"
            raise refusal(self.path, f"line {self.number}", words)
        self.kind, self._columns = header_here
        self._units = [""] * len(columns)

    def _may_be_row(self, line: str) -> bool:
        if not self._columns:
            return False
        if self._numbered:
            return _ROW.match(line) is not None or line.startswith(('"",', ",,"))
        return "," in line and not line.startswith("==")

    def _padded(self, row: list[str]) -> list[str]:
        """Fit a row to the header: some versions omit the cells of a missing rule, or add one."""
        missing = len(self._columns) - len(row)
        if missing == 1 or (missing > 0 and "Rule Name" in self._columns):
            return row + [""] * missing
        if missing < 0 and not row[-1].strip():
            return row[:missing]
        return row

    def _is_units(self, row: list[str]) -> bool:
        """Whether this is the second line of a wide table, with units under the metrics."""
        if self.kind not in ("wide", "pivot") or len(row) != len(self._columns):
            return False
        first = row[0].strip()
        return first == "Metric Unit" or (not first and not any(map(_NUMBER.fullmatch, row)))

    def _is_row(self, row: list[str]) -> bool:
        if self._numbered:
            return row[0].isdigit()
        if self.kind == "pivot":
            return any(map(_NUMBER.fullmatch, row))
        return bool(row[self._columns.index("Metric Name")].strip())

    def _note(self, line: str) -> None:
        if line.startswith("==ERROR==") and len(self.errors) < 100:
            self.errors.append(line.removeprefix("==ERROR==").strip()[:1000])
