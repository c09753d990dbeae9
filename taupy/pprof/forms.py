"""Views as CSV, JSON, Markdown and frames.

Values in CSV and JSON are not rounded. JSON is exact; in CSV, text that a spreadsheet would
interpret as a formula is prefixed with `'`.
"""

from __future__ import annotations

import csv
import json
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from taupy import escaping, frames
from taupy.pprof import cells
from taupy.pprof.view import Cell, View

if TYPE_CHECKING:
    import pandas as pd


_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _Line:
    """A target for csv.writer that keeps the last line."""

    def __init__(self) -> None:
        self.last = ""

    def write(self, line: str) -> int:
        self.last = line
        return len(line)


def csv_lines(views: Iterable[View]) -> Iterator[str]:
    """Rows as CSV, unrounded; a new header only where the columns change."""
    line = _Line()
    writer = csv.writer(line, lineterminator="\n")
    header: list[str] | None = None
    for view in views:
        columns, positions = cells.seen_by(view, "machines")
        names = [column.name for column in columns]
        if names != header:
            if header is not None:
                yield "\n"
            header = names
            writer.writerow([_csv_cell(name) for name in names])
            yield line.last
        for row in view.rows:
            writer.writerow([_csv_cell(row[position]) for position in positions])
            yield line.last


def _csv_cell(value: Cell) -> Cell:
    if isinstance(value, str):
        return escaping.csv_cell(value)
    return cells.hexadecimal(value) if isinstance(value, bytes) else value


def frame(views: Sequence[View], remarks: Iterable[str] = ()) -> pd.DataFrame:
    """Tables of the same kind as one frame: the columns of CSV, with types that do not depend on
    missing values; a column that one table lacks is missing there.

    `attrs["notes"]` has the remarks, and what JSON notes of the tables, each once.
    """
    table = frames.joined([_frame(view) for view in views])
    own = (note for view in views for note in (*view.warnings, *view.notes))
    table.attrs["notes"] = [*dict.fromkeys((*remarks, *own))]
    return table


def _frame(view: View) -> pd.DataFrame:
    columns, positions = cells.seen_by(view, "machines")
    kinds: dict[str, frames.Kind] = {
        column.name: "whole" if column.kind == "int" else "real"
        for column in columns
        if column.kind not in ("text", "any")
    }
    rows = [[row[at] for at in positions] for row in view.rows]
    return frames.frame(rows, [column.name for column in columns], kinds)


def json_lines(views: Iterable[View], alone: bool) -> Iterator[str]:
    """Tables as JSON, unrounded.

    Args:
        alone: write a single object; otherwise a list of objects.
    """
    if not alone:
        yield "[\n"
    for number, view in enumerate(views):
        if number:
            yield ",\n"
        columns, positions = cells.seen_by(view, "machines")
        line, end = '{"title": ' + _json_value(view.title) + ',\n "rows": [', "\n"
        keys = [_json_value(column.name) + ": " for column in columns]
        for row in view.rows:
            yield line + end
            values = [_json_value(row[position]) for position in positions]
            line, end = "  {" + ", ".join(map(operator.add, keys, values)) + "}", ",\n"
        yield (
            line
            + '],\n "notes": ['
            + ", ".join(_json_value(note) for note in (*view.warnings, *view.notes))
            + "]}"
        )
    yield "\n" if alone else "\n]\n"


def _json_value(value: Cell) -> str:
    if isinstance(value, bytes):
        value = cells.hexadecimal(value)
    if isinstance(value, str):
        return escaping.json_visible(_quoted(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    # `json.dumps` takes four times as long for a number, of which a table may have millions.
    return repr(value) if type(value) in (int, float) else json.dumps(value)


def markdown_lines(views: Iterable[View]) -> Iterator[str]:
    """Tables as Markdown, with their titles as headings."""
    for number, view in enumerate(views):
        if number:
            yield "\n"
        columns, positions = cells.seen_by(view, "people")
        if view.title:
            yield f"### {escaping.markdown(view.title)}\n\n"
        for warning in view.warnings:
            yield f"{escaping.markdown(warning)}\n\n"
        headings = [" ".join(cells.heading(column)).strip() for column in columns]
        right = [
            cells.stands_right(column, view, at)
            for column, at in zip(columns, positions, strict=True)
        ]
        yield "| " + " | ".join(escaping.markdown(heading) for heading in headings) + " |\n"
        yield "|" + "|".join(" ---: " if side else " --- " for side in right) + "|\n"
        formats = [cells.FORMATS[column.kind] for column in columns]
        for row in view.rows:
            shown = [formats[at](row[position]) for at, position in enumerate(positions)]
            yield "| " + " | ".join(escaping.markdown(cell) for cell in shown) + " |\n"
        for note in view.notes:
            yield f"\n{escaping.markdown(note)}\n"
