"""A small table as rich draws it on a terminal: the text that `table.py` writes elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from taupy.pprof.text import cut

_PADDING = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)
_RESET = "\x1b[0m"


def lines(
    headings: Sequence[Sequence[str]],
    rows: Iterable[tuple[Sequence[str], str]],
    widths: Sequence[int],
    right: Sequence[bool],
) -> Iterator[str]:
    """Lines of headings and rows with terminal escapes.

    Args:
        headings: of each column, its lines.
        rows: of each, the cells, which are cut to the widths, and a style.
        widths: of each column.
        right: whether a column is aligned to the right.
    """
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for heading, width, is_right in zip(headings, widths, right, strict=True):
        table.add_column(
            Text("\n".join(cut(line, width) for line in heading)),
            justify="right" if is_right else "left",
            width=width,
            no_wrap=True,
        )
    for shown, style in rows:
        fitting = map(cut, shown, widths)
        table.add_row(*map(Text, fitting), style=style)
    out = io.StringIO()
    Console(
        file=out,
        width=sum(widths) + len(widths) - 1,
        color_system="standard",
        force_terminal=True,
        no_color=False,
        legacy_windows=False,
        _environ={},
    ).print(table)
    without_padding = _PADDING.sub(lambda end: _RESET * ("\x1b" in end[0]), out.getvalue())
    return iter(without_padding.splitlines(keepends=True))
