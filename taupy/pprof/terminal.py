"""Print views as text, CSV, JSON or Markdown.

The only module that writes results. It does not depend on the contents of the views.

- On a terminal, text is coloured and cut to the width of the window, and long text goes through
  a pager (`pager.py`). In a pipe or file, text is not coloured, and cut to `IN_A_PIPE` columns
  except with `--wide`. NO_COLOR and FORCE_COLOR are honoured.
- Names may contain anything. Control characters, newlines, terminal escapes and bidirectional
  overrides are always escaped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Literal

from taupy.escaping import columns, guarded, is_terminal
from taupy.pprof import cells, pager, table
from taupy.pprof.view import View

_CLEAR = "\x1b[H\x1b[2J"

IN_A_PIPE = 200
"""Columns of a table that is not on a terminal."""


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A form: the frame that a notebook gets, in a file of this name."""

    path: str


Form = Literal["text", "wide", "csv", "json", "markdown"] | ParquetFile
"""`wide` is text that is not cut."""

FOR_PEOPLE: tuple[Form, ...] = ("text", "wide", "markdown")


def is_for_programs(form: Form) -> bool:
    """Whether programs read it, which get all rows."""
    return form not in FOR_PEOPLE


def holds_rows_only(form: Form) -> bool:
    """CSV and Parquet hold one kind of rows, and no remarks."""
    return form == "csv" or isinstance(form, ParquetFile)


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
        width: maximum width; None for the terminal's, 0 for no limit.
        color: None to decide by the terminal and the environment.
    """
    _write([view], form, stream, width, color, alone=True)


def show_all(
    views: Iterable[View],
    form: Form = "text",
    stream: IO[str] | None = None,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Write several views, one after another.

    In JSON: a list of objects as written by `show`. In CSV: consecutive views with the same
    columns share one header; an empty line precedes any other header.
    """
    _write(views, form, stream, width, color, alone=False)


def redraw(views: Iterable[View]) -> None:
    """Write several views in place of all that the terminal shows."""
    out = sys.stdout
    lines = "".join(_lines(views, "text", out, None, None, alone=False))
    out.write(_CLEAR + lines)
    out.flush()


def _write(
    views: Iterable[View],
    form: Form,
    stream: IO[str] | None,
    width: int | None,
    color: bool | None,
    alone: bool,
) -> None:
    if isinstance(form, ParquetFile):
        from taupy.frames import write_parquet
        from taupy.pprof import forms

        write_parquet(forms.frame([*views]), form.path)
        return
    out = sys.stdout if stream is None else stream
    pager.write(_lines(views, form, out, width, color, alone), out)


def write(text: str, painted: Callable[[str, table.Painter], str] | None = None) -> None:
    """Write plain lines to standard output, escaped.

    Args:
        painted: gives the text its colours, where there are any.
    """
    paint = _painter() if painted is not None and wants_color(sys.stdout) else None
    lines = guarded(text)
    if paint is not None and painted is not None:
        lines = painted(lines, paint)
    pager.write(_encodable(iter([lines]), sys.stdout), sys.stdout)


def _lines(
    views: Iterable[View],
    form: Form,
    out: IO[str],
    width: int | None,
    color: bool | None,
    alone: bool,
) -> Iterator[str]:
    colored = False
    if form in ("text", "wide"):
        colored = wants_color(out) if color is None else color
        window = columns(out, piped=0) if width is None else width
        limit = window or (IN_A_PIPE if width is None else 0)
        if form == "wide":
            window = limit = 0
        else:
            views = map(cells.with_short_kernels, views)
        lines = table.lines(views, limit, _painter() if colored else None, bool(window))
    else:
        lines = _lines_in_form(form, views, alone)
    # Forms and tables escape their text; this catches anything they missed.
    return _encodable((guarded(line, colored=colored) for line in lines), out)


def _lines_in_form(form: Form, views: Iterable[View], alone: bool) -> Iterator[str]:
    """CSV, JSON or Markdown; their module is imported only when needed."""
    from taupy.pprof import forms

    if form == "csv":
        return forms.csv_lines(views)
    if form == "json":
        return forms.json_lines(views, alone)
    return forms.markdown_lines(map(cells.with_short_kernels, views))


# --- the terminal ------------------------------------------------------------


def wants_color(stream: IO[str]) -> bool:
    """NO_COLOR overrides FORCE_COLOR (any value but 0); otherwise colour needs a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced is not None and forced != "":
        return forced != "0"
    return is_terminal(stream) and os.environ.get("TERM", "") not in ("dumb", "unknown")


_PLAIN_LINES = str.maketrans("├└│…█▓▒░▚▞▙·▲◆●", "|`|~#=-.%/L.^*o")


def _encodable(lines: Iterator[str], out: IO[str]) -> Iterator[str]:
    """Escape characters that the stream's encoding (LANG=C) cannot represent."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    narrow = encoding.lower().replace("_", "-") not in ("utf-8", "utf8")
    for line in lines:
        if line.isascii() or not narrow:
            yield line
        else:
            plain = line.translate(_PLAIN_LINES)
            yield plain.encode(encoding, "backslashreplace").decode(encoding)


def _painter() -> table.Painter | None:
    """Colours by rich, which is imported only for a coloured terminal."""
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
