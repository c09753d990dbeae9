"""Format values for people by their kind, and choose the columns they see."""

from __future__ import annotations

from collections.abc import Callable

from taupy import units
from taupy.escaping import visible
from taupy.pprof.view import Audience, Cell, Column, Kind, View

Shown = Callable[[Cell], str]

_SAMPLE = 500


def _any(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, bytes):
        return hexadecimal(value)
    return repr(value)


def hexadecimal(value: bytes) -> str:
    """Bytes as SQL writes them."""
    return f"x'{value.hex()}'"


def _numeric(shown: Callable[[float], str]) -> Callable[[Cell], str]:
    def format_cell(value: Cell) -> str:
        if isinstance(value, int | float):
            # inf and nan have no digits to cut.
            return shown(value) if abs(value) < float("inf") else str(value)
        return _any(value)

    return format_cell


FORMATS: dict[Kind, Callable[[Cell], str]] = {
    "any": _any,
    "text": _any,
    "int": _any,
    "float": _numeric(units.number),
    "percent": _numeric(units.percent),
    "time_ns": _numeric(units.duration),
    "bytes": _numeric(units.size),
    "prefixed": _numeric(lambda value: units.prefixed(value, "")),
    "milliseconds": _numeric(units.milliseconds),
    "tau_time": _numeric(units.tau_time),
    "tau_per_call": _numeric(units.tau_per_call),
    "tau_count": _numeric(units.tau_count),
}


def seen_by(view: View, audience: Audience) -> tuple[list[Column], list[int]]:
    """The columns for people or for machines, and their positions in rows."""
    positions = [
        at for at, column in enumerate(view.columns) if column.audience in ("all", audience)
    ]
    return [view.columns[at] for at in positions], positions


def heading(column: Column) -> list[str]:
    """The lines of a heading, at most two, with control characters escaped."""
    return [visible(line) for line in (column.heading or visible(column.name)).split("\n", 1)]


def stands_right(column: Column, view: View, position: int) -> bool:
    """Whether a column is right-aligned, as numbers are."""
    if column.kind == "any":
        return any(isinstance(row[position], int | float) for row in view.rows[:_SAMPLE])
    return column.kind != "text"
