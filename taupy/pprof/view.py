"""A table before it is printed: title, columns, rows and notes.

Every reading command produces views. A view does not depend on terminals, files or databases;
`terminal.py` prints it as text, CSV, JSON or Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from taupy.dataclass import dataclass, replace

Kind = Literal[
    "any",  # any value: a column of a user's own query
    "text",
    "range",  # "1.2 .. 3.4": text that is not cut, as a number
    "int",
    "float",
    "percent",  # 0 to 100
    "time_ns",  # "1.23 ms"
    "about_percent",  # an estimated share: "~12.3"
    "about_ns",  # an estimated time: "~1.23 ms"
    "about_count",  # a number that follows from estimates: "~1.234"
    "about_tau_time",  # an estimated time in TAU's msec cell: "~1,234"
    "about_milliseconds",  # "~1.230000"
    "milliseconds",  # nanoseconds in, "1.230000" out
    "bytes",  # "1.5 MiB"
    "prefixed",  # "1.74 G"
    "rate",  # "37,540"
    "tau_time",  # nanoseconds in, TAU's msec cell out
    "tau_per_call",  # nanoseconds in, TAU's usec/call cell out
    "tau_count",  # TAU's cell for values that are not times
]
"""How a value is formatted for people. CSV and JSON contain the unrounded value."""

Audience = Literal["all", "people", "machines"]

Cell = str | int | float | bytes | None
"""None is an absent value: empty in text and CSV, null in JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a view.

    Attributes:
        name: its name in CSV and JSON, with the unit: `exclusive_ns`.
        kind: how its values are formatted.
        heading: its heading in text, up to two lines; the name if empty.
        audience: "people" for text and Markdown only (an indented name), "machines" for CSV and
            JSON only (information that text has in the title).
        width: minimum width in text.
        spare: dropped first if the window is too narrow.
        says_empty: people see it even if it is empty in all rows, since that is an answer. So they
            do columns of "any" kind and sides; others only with values.
        silent_zero: people do not see it if it is zero in all rows, either: a state in which
            nothing was seen.
        side: one of those that the table compares. All are shown, even if empty: in a narrow window
            the table has parts.
        sentence: a reason or conclusion, which is wrapped, never cut: in a window too narrow for
            the table, below its row.
    """

    name: str
    kind: Kind = "text"
    heading: str = ""
    audience: Audience = "all"
    width: int = 0
    spare: bool = False
    says_empty: bool = False
    silent_zero: bool = False
    side: bool = False
    sentence: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One table. Every row has one cell per column.

    Attributes:
        title: the line above the table, empty for none.
        notes: remarks on the whole table, shown below it.
        warnings: what must be known before the table is read, shown above it.
        kernels: full names of kernels in its texts, which people see shortened (`cells.py`). They
            need not be named where each row has `timer` and `groups`.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    kernels: Sequence[str] = ()

    def first(self, limit: int | None) -> View:
        """The view with at most this many rows; None for all."""
        return self if limit is None else replace(self, rows=self.rows[:limit])

    def only(self, is_shown: Callable[[Column, Iterator[Cell]], bool]) -> View:
        """The view without the columns of which that is false, given each column's cells."""
        kept = [
            at
            for at, column in enumerate(self.columns)
            if is_shown(column, (row[at] for row in self.rows))
        ]
        columns = [self.columns[at] for at in kept]
        return replace(self, columns=columns, rows=[[row[at] for at in kept] for row in self.rows])
