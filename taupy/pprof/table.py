"""Views as text: aligned columns under TAU's headings, narrowed to a terminal."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from taupy.escaping import visible
from taupy.pprof import cells, fitting, text
from taupy.pprof.view import Cell, Column, View

RULE = 87
"""Length of TAU's rule, used if the table is at least as wide."""

SMALL = 200
"""Rows up to which rich draws a table in colours; it takes 30 times as long for thousands."""

Painter = Callable[[str, str], str]
"""Maps a text and a style to the text with terminal escapes."""


def lines(
    views: Iterable[View], limit: int, paint: Painter | None, window: bool = True
) -> Iterator[str]:
    """Tables as text, with an empty line between them.

    Args:
        limit: width of the window in columns; 0 for no limit.
        paint: adds colours; None for no colours.
        window: whether it is one: in a pipe or file, titles and notes are not wrapped.
    """
    for number, view in enumerate(views):
        if number:
            yield "\n"
        yield from _table(view, limit, paint, window)


def _table(view: View, limit: int, paint: Painter | None, window: bool) -> Iterator[str]:
    columns, positions = cells.seen_by(view, "people")
    formats = [cells.FORMATS[column.kind] for column in columns]
    headings = [cells.heading(column) for column in columns]
    needed = _needed(view, positions, formats, headings)
    below: list[int] = []
    if limit and sum(needed) + len(needed) - 1 > limit:
        # In a window sentences stand below their rows.
        below = [at for at, column in enumerate(columns) if column.sentence and window]
        kept = [at for at in range(len(columns)) if at not in below]
        below = [positions[at] for at in below]
        columns, positions = [columns[at] for at in kept], [positions[at] for at in kept]
        formats, headings = [formats[at] for at in kept], [headings[at] for at in kept]
        needed = [needed[at] for at in kept]
    widths = [max(column.width, wide) for column, wide in zip(columns, needed, strict=True)]
    notes = list(view.notes)
    fits = [fitting.Fit([*range(len(columns))], widths)]
    if limit and sum(widths) + len(widths) - 1 > limit:
        fits = fitting.fitted(columns, widths, needed, limit)
        shown = {at for fit in fits for at in fit.kept}
        if left_out := [" ".join(headings[at]) for at in range(len(columns)) if at not in shown]:
            where, instead = ("in this narrow window", "--csv") if window else ("here", "--wide")
            notes.append(f"not shown {where}: {', '.join(left_out)} (use {instead})")
    wrap = limit if window else 0
    longest = max(sum(fit.widths) + len(fit.widths) - 1 for fit in fits)
    rule = "-" * min(longest, wrap or RULE) + "\n"
    for warning in view.warnings:
        for line in _wrapped("note: " + visible(warning), wrap):
            yield _painted(line, "yellow", paint) + "\n"
    if view.title:
        for line in _wrapped(visible(view.title), wrap, breaks_words=True):
            yield _painted(line, "bold cyan", paint) + "\n"
    for fit in fits:
        part = _Part(
            view,
            [columns[at] for at in fit.kept],
            [positions[at] for at in fit.kept],
            [headings[at] for at in fit.kept],
            fit.widths,
        )
        yield rule
        yield from part.lines(below, rule, limit, paint, window)
    if notes:
        yield rule
    for note in notes:
        for line in _wrapped("note: " + visible(note), wrap):
            yield _painted(line, "yellow", paint) + "\n"


class _Part(NamedTuple):
    """A table, or a part of it that has some of its sides."""

    view: View
    columns: Sequence[Column]
    positions: Sequence[int]
    headings: Sequence[Sequence[str]]
    widths: Sequence[int]

    def lines(
        self, below: Sequence[int], rule: str, limit: int, paint: Painter | None, window: bool
    ) -> Iterator[str]:
        """Headings and rows; below a row the sentences in these positions."""
        view, columns, positions, headings, widths = self
        formats = [cells.FORMATS[column.kind] for column in columns]
        right = [
            cells.stands_right(column, view, at)
            for column, at in zip(columns, positions, strict=True)
        ]
        height = max(map(len, headings), default=0)
        headings = [[*lines, *[""] * (height - len(lines))] for lines in headings]
        share = next((at for at, column in enumerate(columns) if column.kind == "percent"), None)
        styles = [""] * len(view.rows)
        if paint is not None and share is not None:
            styles = [_heat(row[positions[share]]) for row in view.rows]
        shown = (
            [formats[at](row[position]) for at, position in enumerate(positions)]
            for row in view.rows
        )
        if paint is not None and len(view.rows) <= SMALL:
            from taupy.pprof import rich_table

            drawn = rich_table.lines(headings, zip(shown, styles, strict=True), widths, right)
            yield from itertools.islice(drawn, height)
            yield rule
            for line, row in zip(drawn, view.rows, strict=True):
                yield line
                yield from _below(row, below, limit)
            return
        for above in zip(*headings, strict=True):
            yield _painted(_row(above, widths, right, limit), "bold", paint) + "\n"
        yield rule
        wraps = not window and any(column.sentence for column in columns)
        for cells_of_row, style, row in zip(shown, styles, view.rows, strict=True):
            for on_line in _on_lines(cells_of_row, columns, widths) if wraps else [cells_of_row]:
                yield _painted(_row(on_line, widths, right, limit), style, paint) + "\n"
            yield from _below(row, below, limit)


def _needed(
    view: View,
    positions: Sequence[int],
    formats: Sequence[Callable[[Cell], str]],
    headings: Sequence[Sequence[str]],
) -> list[int]:
    widths = [max((text.width(line) for line in heading), default=0) for heading in headings]
    for row in view.rows:
        for at, position in enumerate(positions):
            needed = text.width(formats[at](row[position]))
            if needed > widths[at]:
                widths[at] = needed
    return widths


def _wrapped(line: str, limit: int, breaks_words: bool = False) -> list[str]:
    """Wrap a sentence to the window (0: do not wrap); paths and commands are not broken."""
    if not limit or text.width(line) <= limit:
        return [line]
    return textwrap.wrap(
        line,
        limit,
        subsequent_indent="  ",
        break_long_words=breaks_words,
        break_on_hyphens=False,
    )


def _below(row: Sequence[Cell], positions: Sequence[int], limit: int) -> Iterator[str]:
    """The sentences of a row, each on lines of its own."""
    for at in positions:
        if row[at]:
            yield from (f"{line}\n" for line in _wrapped(f"  {visible(str(row[at]))}", limit))


def _on_lines(
    shown: Sequence[str], columns: Sequence[Column], widths: Sequence[int]
) -> list[list[str]]:
    """The cells of a row with sentences wrapped, which take further lines."""
    parts = [
        textwrap.wrap(cell, wide) or [""] if column.sentence else [cell]
        for cell, column, wide in zip(shown, columns, widths, strict=True)
    ]
    return [list(line) for line in itertools.zip_longest(*parts, fillvalue="")]


def _row(shown: Sequence[str], widths: Sequence[int], right: Sequence[bool], limit: int) -> str:
    parts = []
    for cell, wide, to_the_right in zip(shown, widths, right, strict=True):
        if limit:
            cell = text.cut(cell, wide)
        if not cell.isascii():
            wide += len(cell) - text.width(cell)  # rjust counts every letter as one column
        parts.append(cell.rjust(wide) if to_the_right else cell.ljust(wide))
    return " ".join(parts).rstrip()


def _heat(share: Cell) -> str:
    """A row's style by its share in percent, so that expensive rows stand out."""
    if not isinstance(share, int | float):
        return ""
    return "bold red" if share >= 50 else "yellow" if share >= 10 else ""


def _painted(shown: str, style: str, paint: Painter | None) -> str:
    return paint(shown, style) if paint is not None and style and shown else shown
