"""Views as text: aligned columns under TAU's headings, narrowed to a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from taupy.pprof import cells, text
from taupy.pprof.view import Cell, Column, View

RULE = 87
"""Length of TAU's rule; ours is as long where the table is."""

NARROWEST_TEXT = 16
"""A text column is never cut below this; on a narrower terminal lines wrap."""

Painter = Callable[[str, str], str]
"""Takes a text and a style, gives the text with the terminal's escapes."""


def lines(views: Iterable[View], limit: int, paint: Painter | None) -> Iterator[str]:
    for number, view in enumerate(views):
        if number:
            yield "\n"
        yield from _table(view, limit, paint)


def _table(view: View, limit: int, paint: Painter | None) -> Iterator[str]:
    columns, positions = cells.seen_by(view, "people")
    formats = [cells.FORMATS[column.kind] for column in columns]
    headings = [cells.heading(column) for column in columns]
    right = [
        cells.stands_right(column, view, at) for column, at in zip(columns, positions, strict=True)
    ]
    widths = _widths(view, columns, positions, formats, headings)
    longest = sum(widths) + len(widths) - 1
    if limit and longest > limit:
        _narrow(widths, columns, limit)
        longest = sum(widths) + len(widths) - 1
    rule = "-" * min(longest, limit or RULE) + "\n"
    if view.title:
        yield _painted(text.cut(text.visible(view.title), limit), "bold cyan", paint) + "\n"
    yield rule
    for at in range(max(map(len, headings), default=0)):
        above = [heading[at] if at < len(heading) else "" for heading in headings]
        yield _painted(_row(above, widths, right, limit), "bold", paint) + "\n"
    yield rule
    share = next((at for at, column in enumerate(columns) if column.kind == "percent"), None)
    for row in view.rows:
        shown = [formats[at](row[position]) for at, position in enumerate(positions)]
        style = "" if share is None or paint is None else _heat(row[positions[share]])
        yield _painted(_row(shown, widths, right, limit), style, paint) + "\n"
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
            at
            for at, column in enumerate(columns)
            if column.kind in ("text", "any") and widths[at] > NARROWEST_TEXT
        ]
        if not flexible:
            return
        widest = max(flexible, key=lambda at: widths[at])
        excess = sum(widths) + len(widths) - 1 - limit
        others = [widths[at] for at in flexible if at != widest]
        floor = max([NARROWEST_TEXT, *(other - 1 for other in others if other < widths[widest])])
        widths[widest] = max(widths[widest] - excess, min(floor, widths[widest] - 1))


def _row(shown: Sequence[str], widths: Sequence[int], right: Sequence[bool], limit: int) -> str:
    parts = []
    for cell, wide, to_the_right in zip(shown, widths, right, strict=True):
        if limit:
            cell = text.cut(cell, wide)
        if not cell.isascii():
            wide += len(cell) - text.width(cell)  # for rjust all letters are one column wide
        parts.append(cell.rjust(wide) if to_the_right else cell.ljust(wide))
    return " ".join(parts).rstrip()


def _heat(share: Cell) -> str:
    """A row glows by its share in percent: the eye finds the hot ones."""
    if not isinstance(share, int | float):
        return ""
    return "bold red" if share >= 50 else "yellow" if share >= 10 else ""


def _painted(shown: str, style: str, paint: Painter | None) -> str:
    return paint(shown, style) if paint is not None and style and shown else shown
