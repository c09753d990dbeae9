"""Shows views: text on a terminal or in a pipe, CSV, JSON, Markdown.

The one place that writes results. It knows nothing of what the views hold.

- On a terminal text has colour and no line is longer than the window; in a pipe
  there is neither colour nor truncation. NO_COLOR and FORCE_COLOR are honoured.
- CSV and JSON hold values unrounded; JSON is exact, in CSV a text that a
  spreadsheet would take for a formula gets a `'` in front.
- Names may hold anything. Control characters, newlines, terminal escapes and
  bidirectional overrides are always shown as escapes.
- A reader that goes away (`| head`) ends the output quietly.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Literal

from taupy import units
from taupy.pprof import text
from taupy.pprof.view import Cell, Column, Kind, View

Form = Literal["text", "csv", "json", "markdown"]

RULE = 87
"""Length of TAU's rule; ours is as long where the table is."""

NARROWEST_TEXT = 16
"""A text column is never cut below this; on a narrower terminal lines wrap."""

_SAMPLE = 500


def show(
    view: View,
    form: Form = "text",
    stream: IO[str] | None = None,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Write one view. In JSON: one object with `title`, `rows`, `notes`.

    Args:
        stream: standard output when None.
        width: columns to keep to; None asks the terminal, 0 is no limit.
        color: None asks the terminal and the environment.
    """
    _write(stream, lambda out: _lines([view], form, out, width, color, alone=True))


def show_all(
    views: Iterable[View],
    form: Form = "text",
    stream: IO[str] | None = None,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Write several views, one after another.

    In JSON: a list of the objects that `show` gives. In CSV: neighbours with the
    same columns share one header; an empty line stands before any other header.
    """
    _write(stream, lambda out: _lines(views, form, out, width, color, alone=False))


def _write(stream: IO[str] | None, lines: Callable[[IO[str]], Iterator[str]]) -> None:
    out = sys.stdout if stream is None else stream
    try:
        for line in lines(out):
            out.write(line)
        out.flush()
    except BrokenPipeError:
        # What is still buffered must not fail again when the interpreter ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _lines(
    views: Iterable[View],
    form: Form,
    out: IO[str],
    width: int | None,
    color: bool | None,
    alone: bool,
) -> Iterator[str]:
    if form == "csv":
        lines = _csv(views)
    elif form == "json":
        lines = _json(views, alone)
    elif form == "markdown":
        lines = _markdown(views)
    else:
        colored = wants_color(out) if color is None else color
        limit = terminal_width(out) if width is None else width
        lines = _text(views, limit, _painter() if colored else None)
    return _encodable(lines, out)


# --- the terminal ------------------------------------------------------------


def wants_color(stream: IO[str]) -> bool:
    """NO_COLOR wins over FORCE_COLOR (any value but 0), then a real terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced is not None and forced != "":
        return forced != "0"
    return _is_terminal(stream) and os.environ.get("TERM", "") not in ("dumb", "unknown")


def terminal_width(stream: IO[str]) -> int:
    """Columns of the terminal behind the stream; 0, no limit, for anything else."""
    if not _is_terminal(stream):
        return 0
    try:
        return max(0, int(os.environ["COLUMNS"]))
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 80


def _is_terminal(stream: IO[str]) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False


def _encodable(lines: Iterator[str], out: IO[str]) -> Iterator[str]:
    """In a narrow encoding (LANG=C) what cannot be written becomes an escape."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    for line in lines:
        if line.isascii():
            yield line
        else:
            yield line.encode(encoding, "backslashreplace").decode(encoding)


Painter = Callable[[str, str], str]  # (text, style) -> text with terminal escapes


def _painter() -> Painter | None:
    """Colours by rich, which is imported for a coloured terminal only."""
    try:
        from rich.color import ColorSystem
        from rich.style import Style
    except ImportError:
        return None
    styles: dict[str, Style] = {}

    def paint(shown: str, style: str) -> str:
        if style not in styles:
            styles[style] = Style.parse(style)
        return styles[style].render(shown, color_system=ColorSystem.STANDARD)

    return paint


# --- text --------------------------------------------------------------------


def _text(views: Iterable[View], limit: int, paint: Painter | None) -> Iterator[str]:
    for number, view in enumerate(views):
        if number:
            yield "\n"
        yield from _table(view, limit, paint)


def _table(view: View, limit: int, paint: Painter | None) -> Iterator[str]:
    columns, positions = _seen_by(view, "people")
    formats = [_FORMATS[column.kind] for column in columns]
    headings = [_heading(column) for column in columns]
    right = [_stands_right(column, view, at) for column, at in zip(columns, positions, strict=True)]
    widths = _widths(view, columns, positions, formats, headings)
    longest = sum(widths) + len(widths) - 1
    if limit and longest > limit:
        _narrow(widths, columns, limit)
        longest = sum(widths) + len(widths) - 1
    rule = "-" * min(longest, limit or RULE) + "\n"
    if view.title:
        yield _painted(text.cut(text.visible(view.title), limit), "bold cyan", paint) + "\n"
    yield rule
    for line in range(max(len(heading) for heading in headings)):
        yield _painted(
            _row([heading[line] if line < len(heading) else "" for heading in headings],
                 widths, right, limit).rstrip(),
            "bold",
            paint,
        ) + "\n"  # fmt: skip
    yield rule
    style_of = _heat(columns) if paint is not None else None
    for row in view.rows:
        shown = [formats[at](row[position]) for at, position in enumerate(positions)]
        line_text = _row(shown, widths, right, limit)
        style = style_of([row[position] for position in positions]) if style_of else ""
        yield _painted(line_text.rstrip(), style, paint) + "\n"
    if view.notes:
        yield rule
    for note in view.notes:
        yield _painted("note: " + text.visible(note), "yellow", paint) + "\n"


def _widths(
    view: View,
    columns: Sequence[Column],
    positions: Sequence[int],
    formats: Sequence[Callable[[Cell], str]],
    headings: Sequence[Sequence[str]],
) -> list[int]:
    widths = [
        max([column.width, *(text.width(line) for line in heading)])
        for column, heading in zip(columns, headings, strict=True)
    ]
    for row in view.rows:
        for at, position in enumerate(positions):
            needed = text.width(formats[at](row[position]))
            if needed > widths[at]:
                widths[at] = needed
    return widths


def _narrow(widths: list[int], columns: Sequence[Column], limit: int) -> None:
    """Take from the widest text column until all fit, or none can give more."""
    while sum(widths) + len(widths) - 1 > limit:
        flexible = [
            at for at, column in enumerate(columns)
            if column.kind in ("text", "any") and widths[at] > NARROWEST_TEXT
        ]  # fmt: skip
        if not flexible:
            return
        widest = max(flexible, key=lambda at: widths[at])
        excess = sum(widths) + len(widths) - 1 - limit
        others = [widths[at] for at in flexible if at != widest]
        floor = max([NARROWEST_TEXT, *(other - 1 for other in others if other < widths[widest])])
        widths[widest] = max(widths[widest] - excess, min(floor, widths[widest] - 1))


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], limit: int) -> str:
    parts = []
    for cell, wide, to_the_right in zip(cells, widths, right, strict=True):
        if limit:
            cell = text.cut(cell, wide)
        padding = " " * (wide - text.width(cell))
        parts.append(padding + cell if to_the_right else cell + padding)
    return " ".join(parts)


def _heading(column: Column) -> list[str]:
    return (column.heading or column.name).split("\n")


def _stands_right(column: Column, view: View, position: int) -> bool:
    if column.kind == "any":
        return any(isinstance(row[position], int | float) for row in view.rows[:_SAMPLE])
    return column.kind != "text"


def _heat(columns: Sequence[Column]) -> Callable[[Sequence[Cell]], str]:
    """Rows glow by their first share in percent: the eye finds the hot ones."""
    at = next((at for at, column in enumerate(columns) if column.kind == "percent"), None)

    def style_of(row: Sequence[Cell]) -> str:
        value = None if at is None else row[at]
        if not isinstance(value, int | float):
            return ""
        return "bold red" if value >= 50 else "yellow" if value >= 10 else ""

    return style_of


def _painted(shown: str, style: str, paint: Painter | None) -> str:
    return paint(shown, style) if paint is not None and style and shown else shown


# --- cells -------------------------------------------------------------------


def _any(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return text.visible(value)
    if isinstance(value, bytes):
        return _hexadecimal(value)
    return repr(value)


def _hexadecimal(value: bytes) -> str:
    return f"x'{value.hex()}'"


def _numeric(shown: Callable[[float], str]) -> Callable[[Cell], str]:
    def format_cell(value: Cell) -> str:
        if isinstance(value, int | float):
            # inf and nan have no digits to cut.
            return shown(value) if abs(value) < float("inf") else str(value)
        return _any(value)

    return format_cell


_FORMATS: dict[Kind, Callable[[Cell], str]] = {
    "any": _any,
    "text": _any,
    "int": _any,
    "float": _numeric(units.number),
    "percent": _numeric(units.percent),
    "time_ns": _numeric(units.duration),
    "bytes": _numeric(units.size),
    "tau_time": _numeric(units.tau_time),
    "tau_per_call": _numeric(units.tau_per_call),
    "tau_count": _numeric(units.tau_count),
}


def _seen_by(view: View, audience: Literal["people", "machines"]) -> tuple[list[Column], list[int]]:
    positions = [
        at for at, column in enumerate(view.columns) if column.audience in ("all", audience)
    ]
    return [view.columns[at] for at in positions], positions


# --- CSV, JSON, Markdown -----------------------------------------------------


class _Line:
    """What a csv.writer writes to: it keeps the last line."""

    def __init__(self) -> None:
        self.last = ""

    def write(self, line: str) -> int:
        self.last = line
        return len(line)


def _csv(views: Iterable[View]) -> Iterator[str]:
    line = _Line()
    writer = csv.writer(line, lineterminator="\n")
    header: list[str] | None = None
    for view in views:
        columns, positions = _seen_by(view, "machines")
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
        # As text, whatever a spreadsheet makes of a cell that looks like a formula.
        return text.visible("'" + value if value.startswith(("=", "+", "-", "@")) else value)
    return _hexadecimal(value) if isinstance(value, bytes) else value


def _json(views: Iterable[View], alone: bool) -> Iterator[str]:
    if not alone:
        yield "[\n"
    for number, view in enumerate(views):
        if number:
            yield ",\n"
        columns, positions = _seen_by(view, "machines")
        yield '{"title": ' + _json_value(view.title) + ',\n "rows": ['
        keys = [_json_value(column.name) for column in columns]
        for at, row in enumerate(view.rows):
            values = (_json_value(row[position]) for position in positions)
            pairs = ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))
            yield (",\n  {" if at else "\n  {") + pairs + "}"
        yield '],\n "notes": [' + ", ".join(_json_value(note) for note in view.notes) + "]}"
    yield "\n" if alone else "\n]\n"


def _json_value(value: Cell) -> str:
    if isinstance(value, bytes):
        value = _hexadecimal(value)
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "null"
    if isinstance(value, str):
        return text.json_visible(json.dumps(value, ensure_ascii=False))
    return json.dumps(value)


def _markdown(views: Iterable[View]) -> Iterator[str]:
    for number, view in enumerate(views):
        if number:
            yield "\n"
        columns, positions = _seen_by(view, "people")
        if view.title:
            yield f"### {_markdown_text(text.visible(view.title))}\n\n"
        headings = [" ".join(_heading(column)).strip() for column in columns]
        right = [
            _stands_right(column, view, at) for column, at in zip(columns, positions, strict=True)
        ]
        yield "| " + " | ".join(_markdown_text(heading) for heading in headings) + " |\n"
        yield "|" + "|".join(" ---: " if side else " --- " for side in right) + "|\n"
        formats = [_FORMATS[column.kind] for column in columns]
        for row in view.rows:
            cells = [formats[at](row[position]) for at, position in enumerate(positions)]
            yield "| " + " | ".join(_markdown_text(cell) for cell in cells) + " |\n"
        for note in view.notes:
            yield f"\n{_markdown_text(text.visible(note))}\n"


def _markdown_text(shown: str) -> str:
    return text.markdown(shown)
