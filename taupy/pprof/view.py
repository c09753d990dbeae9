"""What a table is before it is shown: a title, columns, rows and notes.

Every reading command ends in views. A view knows nothing of terminals, files or
databases; `terminal.py` turns it into text, CSV, JSON or Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "any",  # whatever comes: a column of a user's own query
    "text",
    "int",
    "float",
    "percent",  # 0 to 100
    "time_ns",  # "1.23 ms"
    "milliseconds",  # nanoseconds in, "1.230000" out
    "bytes",  # "1.5 MiB"
    "tau_time",  # nanoseconds in, TAU's msec cell out
    "tau_per_call",  # nanoseconds in, TAU's usec/call cell out
    "tau_count",  # TAU's cell for all that is not a time
]
"""How people see a value. CSV and JSON give the value itself, unrounded."""

Audience = Literal["all", "people", "machines"]

Cell = str | int | float | bytes | None
"""None is an absent value: nothing in text and CSV, null in JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a view.

    Attributes:
        name: what CSV and JSON call it, with its unit: `exclusive_ns`.
        kind: how people see its values.
        heading: what people read above it, up to two lines; the name where empty.
        audience: "people" for text and Markdown only (a name with its indent),
            "machines" for CSV and JSON only (what the title already says).
        width: the least width in text.
        spare: a text that is left out first where the window is too narrow.
    """

    name: str
    kind: Kind = "text"
    heading: str = ""
    audience: Audience = "all"
    width: int = 0
    spare: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """One table. Every row has as many cells as there are columns.

    Attributes:
        title: the line above the table, empty for none.
        notes: remarks on the table as a whole, shown beneath it.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
