"""Tables of a trial that was only looked at (`taupy attach`): its times are estimates, and say so.

How often something was called is not known there, which is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from taupy.pprof.view import Column, Kind, View

_ESTIMATES: Mapping[Kind, Kind] = {
    "percent": "about_percent",
    "time_ns": "about_ns",
    "tau_time": "about_tau_time",
    "milliseconds": "about_milliseconds",
}
_CALLS = ("calls", "subroutines")


def marked(view: View) -> View:
    """The table with `~` at its times and shares, and without numbers of calls."""
    columns = [_marked(column) for column in view.columns]
    unknown = {
        at
        for at, column in enumerate(columns)
        if column.name in _CALLS and column.kind in ("int", "float")
    }
    rows = [
        [None if at in unknown else cell for at, cell in enumerate(row)] if unknown else row
        for row in view.rows
    ]
    return replace(view, columns=columns, rows=rows)


def _marked(column: Column) -> Column:
    if column.kind not in _ESTIMATES or column.audience == "machines":
        return column
    heading = f"~{column.heading or column.name}"
    return replace(column, kind=_ESTIMATES[column.kind], heading=heading)
