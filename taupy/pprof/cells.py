"""Format values for people by their kind, and choose the columns they see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from taupy import units
from taupy.escaping import visible
from taupy.model.kernel_names import is_kernel, told_apart
from taupy.pprof.view import Audience, Cell, Column, Kind, View

Shown = Callable[[Cell], str]

_SAMPLE = 500
_STEP = " => "


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


def _prefixed(value: float) -> str:
    """With an SI prefix; what needs none and is whole, as 64 parameters, has no decimals."""
    if abs(value) < 1000 and value == int(value):
        return units.number(value)
    return units.prefixed(value, "")


FORMATS: dict[Kind, Callable[[Cell], str]] = {
    "any": _any,
    "text": _any,
    "range": _any,
    "int": _any,
    "float": _numeric(units.number),
    "percent": _numeric(units.percent),
    "time_ns": _numeric(units.duration),
    "about_percent": _numeric(lambda value: f"~{units.percent(value)}"),
    "about_count": _numeric(lambda value: f"~{units.tau_count(value)}"),
    "about_ns": _numeric(lambda value: f"~{units.duration(value)}"),
    "about_tau_time": _numeric(lambda value: f"~{units.tau_time(value)}"),
    "about_milliseconds": _numeric(lambda value: f"~{units.milliseconds(value)}"),
    "bytes": _numeric(units.size),
    "prefixed": _numeric(_prefixed),
    "rate": _numeric(units.rate),
    "milliseconds": _numeric(units.milliseconds),
    "tau_time": _numeric(units.tau_time),
    "tau_per_call": _numeric(units.tau_per_call),
    "tau_count": _numeric(units.tau_count),
}


def seen_by(view: View, audience: Audience) -> tuple[list[Column], list[int]]:
    """The columns for people or for machines, and their positions in rows.

    People do not see those that are empty in all rows: see `Column`.
    """
    positions = [
        at for at, column in enumerate(view.columns) if column.audience in ("all", audience)
    ]
    if audience == "people" and view.rows:
        positions = [at for at in positions if _says_something(view, at)]
    return [view.columns[at] for at in positions], positions


def _says_something(view: View, at: int) -> bool:
    column = view.columns[at]
    always = column.says_empty or column.side or column.kind == "any"
    nothing = (None, "", 0) if column.silent_zero else (None, "")
    return always or any(row[at] not in nothing for row in view.rows)


def with_short_kernels(view: View) -> View:
    """The view with the short names of kernels, told apart within the table."""
    names = [column.name for column in view.columns]
    kernel_of: list[str | None] = [None] * len(view.rows)
    if "timer" in names and "groups" in names:
        timer, groups = names.index("timer"), names.index("groups")
        kernel_of = [
            # Of a call path, the last routine.
            str(row[timer]).rpartition(_STEP)[2] if is_kernel(str(row[groups] or "")) else None
            for row in view.rows
        ]
    short = told_apart({*view.kernels, *filter(None, kernel_of)})
    short = {name: new for name, new in short.items() if name != new}
    if not short:
        return view
    everywhere = {name: short[name] for name in view.kernels if name in short}
    texts = {
        at
        for at, column in enumerate(view.columns)
        if column.kind == "text" and column.audience != "machines"
    }
    rows: list[Sequence[Cell]] = []
    for row, kernel in zip(view.rows, kernel_of, strict=True):
        own = {kernel: short[kernel]} if kernel in short else {}
        if everywhere or own:
            row = [
                _shortened(cell, everywhere | own) if at in texts else cell
                for at, cell in enumerate(row)
            ]
        rows.append(row)
    title = str(_shortened(view.title, short))
    columns = view.columns
    if everywhere:
        columns = [
            replace(column, heading=str(_shortened(column.heading or column.name, everywhere)))
            for column in columns
        ]
    return replace(view, title=title, columns=columns, rows=rows)


def _shortened(cell: Cell, short: Mapping[str, str]) -> Cell:
    if not isinstance(cell, str):
        return cell
    if cell in short:
        return short[cell]
    for name, new in short.items():
        cell = cell.replace(name, new)
    return cell


def heading(column: Column) -> list[str]:
    """The lines of a heading, at most two, with control characters escaped."""
    return [visible(line) for line in (column.heading or visible(column.name)).split("\n", 1)]


def stands_right(column: Column, view: View, position: int) -> bool:
    """Whether a column is right-aligned, as numbers are."""
    if column.kind == "any":
        return any(isinstance(row[position], int | float) for row in view.rows[:_SAMPLE])
    return column.kind != "text"
