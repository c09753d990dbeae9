"""Figures of a routine, shared by all views: values, sort order, columns."""

from __future__ import annotations

import math
import operator
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest, nsmallest
from itertools import compress, repeat
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from taupy.model.answer import Answer
from taupy.model.metric import Metric
from taupy.model.rows import TimerRow
from taupy.pprof.view import Cell, Column, Kind, View

T = TypeVar("T")

SortKey = Literal[
    "inclusive",
    "exclusive",
    "calls",
    "subroutines",
    "exclusive-per-call",
    "inclusive-per-call",
    "stddev",
    "name",
]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Sort order and number of rows.

    Attributes:
        limit: rows per table; the rest is summed as `-others-`.
        plain: times as msec, without TAU's h:mm:ss.mmm.
    """

    sort: SortKey = "inclusive"
    reverse: bool = False
    limit: int | None = None
    plain: bool = False


OTHERS = "-others-"
"""TAU's name for the sum of the rows beyond a limit."""


class Figures(NamedTuple):
    """Figures of one routine on one thread, or over threads.

    None if undefined: `-others-` has no inclusive value, because the routines in it overlap; a
    routine that was never called has no value per call.

    Attributes:
        percent: of the largest inclusive value in the table, including filtered rows.
        stddev: of exclusive values over threads; used for sorting only.
        rows: row numbers in the answer.
    """

    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str
    calls: float
    subroutines: float
    exclusive: float
    inclusive: float | None
    percent: float | None = None
    exclusive_per_call: float | None = None
    inclusive_per_call: float | None = None
    stddev: float = 0.0
    rows: tuple[int, ...] = ()


class Values(NamedTuple):
    """The values of an answer's rows, column by column."""

    calls: Sequence[float]
    subroutines: Sequence[float]
    exclusive: Sequence[float]
    inclusive: Sequence[float]

    @classmethod
    def of(cls, answer: Answer) -> Values:
        both = answer.values("exclusive"), answer.values("inclusive")
        return cls(answer.calls(), answer.subroutines(), *both)


def of(values: Values, rows: Sequence[int], names: Sequence[TimerRow]) -> list[Figures]:
    """The figures of these rows; `names` has one name per row."""
    numbers = zip(*(taken(column, rows) for column in values), strict=True)
    return [
        Figures(
            *name,
            calls,
            subroutines,
            exclusive,
            inclusive,
            None,
            ratio(exclusive, calls),
            ratio(inclusive, calls),
            rows=(row,),
        )
        for row, name, (calls, subroutines, exclusive, inclusive) in zip(
            rows, names, numbers, strict=True
        )
    ]


_VALUES: dict[SortKey, Callable[[Figures], float | None]] = {
    "inclusive": lambda figures: figures.inclusive,
    "exclusive": lambda figures: figures.exclusive,
    "calls": lambda figures: figures.calls,
    "subroutines": lambda figures: figures.subroutines,
    "exclusive-per-call": lambda figures: figures.exclusive_per_call,
    "inclusive-per-call": lambda figures: figures.inclusive_per_call,
    "stddev": lambda figures: figures.stddev,
}


def first(listed: Sequence[Figures], order: Order, answer: Answer | None) -> list[Figures]:
    """The first figures, as many as `order` says, followed by the sum of the others.

    The largest come first, names alphabetically; `reverse` inverts the order. Ties are sorted by
    name.

    Args:
        answer: the source of the figures; None if they cannot be added: there is no sum then.
    """
    key, reverse = _key(order)
    if order.limit is None or len(listed) <= order.limit:
        return sorted(listed, key=key, reverse=reverse)
    chosen = nlargest if reverse else nsmallest  # a sort of all takes much longer
    rows = chosen(order.limit, range(len(listed)), key=lambda row: key(listed[row]))
    shown = [listed[row] for row in rows]
    if answer is None:
        return shown
    above = set(rows)
    rest = [figures for row, figures in enumerate(listed) if row not in above]
    exclusive = [figures.exclusive for figures in rest]
    return [
        *shown,
        others(
            sum(figures.calls for figures in rest),
            sum(figures.subroutines for figures in rest),
            sum(exclusive)
            if answer.additive
            else answer.total(row for figures in rest for row in figures.rows),
        ),
    ]


def taken(column: Sequence[T], rows: Sequence[int]) -> Sequence[T]:
    """These rows of a column."""
    return column if rows == range(len(column)) else [*map(column.__getitem__, rows)]


def sort_keys(column: Sequence[float], rows: Sequence[int]) -> Sequence[float]:
    """These rows of a column, with undefined values below all numbers."""
    keys = taken(column, rows)
    return keys if isinstance(keys, array) else [*map(sortable, keys)]  # arrays are of integers


def candidates(values: Values, rows: Sequence[int], order: Order) -> Sequence[int]:
    """The rows among which the first are, so that the others need no names."""
    if order.limit is None or len(rows) <= order.limit or order.sort in ("name", "stddev"):
        return rows
    name, _, per_call = order.sort.partition("-")
    keys = sort_keys(getattr(values, name), rows)
    if per_call:
        keys = [*map(sortable, map(ratio, keys, taken(values.calls, rows)))]
    chosen, meets = (nsmallest, operator.le) if order.reverse else (nlargest, operator.ge)
    bound = chosen(max(order.limit, 1), keys)[-1]
    return [*compress(rows, map(meets, keys, repeat(bound)))]


def _key(order: Order) -> tuple[Callable[[Figures], Any], bool]:
    """A key to sort by, and whether the sort is reversed."""
    if order.sort == "name":
        return lambda figures: figures.timer, order.reverse
    value = _VALUES[order.sort]
    if order.reverse:
        return lambda figures: (sortable(value(figures)), figures.timer), False
    return lambda figures: (-sortable(value(figures)), figures.timer), False


def sortable(value: float | None) -> float:
    """A sort key that places None and NaN below all numbers."""
    return -math.inf if value is None or math.isnan(value) else value


def others(calls: float, subroutines: float, exclusive: float) -> Figures:
    """The sum of the rows that are not shown."""
    return Figures(
        timer=OTHERS,
        short_name=OTHERS,
        file=None,
        line=None,
        groups="",
        calls=calls,
        subroutines=subroutines,
        exclusive=exclusive,
        inclusive=None,
        exclusive_per_call=ratio(exclusive, calls),
    )


def ratio(value: float | None, calls: float) -> float | None:
    """A value per call; None without calls or without a value."""
    return value / calls if calls and value is not None else None


def share(value: float | None, whole: float) -> float | None:
    """A share in percent; None if the whole is zero or unknown."""
    return 100.0 * value / whole if whole and value is not None else None


# --- columns -----------------------------------------------------------------


def value_kind(metric: Metric, plain: bool) -> Kind:
    """The kind of cell for a value of the metric; `plain`: without TAU's h:mm:ss.mmm."""
    if metric.unit != "ns":
        return "tau_count"
    return "milliseconds" if plain else "tau_time"


def value_name(name: str, metric: Metric) -> str:
    """A column's name in CSV and JSON, with its unit: `exclusive_ns`."""
    unit = re.sub(r"\W+", "_", metric.unit).strip("_")
    return f"{name}_{unit}" if unit else name


def value_columns(metric: Metric, plain: bool = False, counts: Kind = "int") -> list[Column]:
    """TAU's columns from %Time to usec/call, in TAU's widths."""
    timed = metric.unit == "ns"
    unit = "msec" if timed else metric.unit or "counts"
    per_call = "usec/call" if timed else f"{metric.unit or 'count'}/call"
    kind = value_kind(metric, plain)
    return [
        Column("percent", "percent", "%Time", width=5, says_empty=True),
        Column(value_name("exclusive", metric), kind, f"Exclusive\n{unit}", width=12),
        Column(value_name("inclusive", metric), kind, f"Inclusive\ntotal {unit}", width=12),
        Column("calls", counts, "#Call", width=11),
        Column("subroutines", counts, "#Subrs", width=11),
        Column(
            value_name("inclusive", metric) + "_per_call",
            "tau_per_call" if timed else "tau_count",
            f"Inclusive\n{per_call}",
            width=10,
        ),
    ]


def value_cells(figures: Figures) -> tuple[Cell, ...]:
    """A row's cells under `value_columns`."""
    return (
        figures.percent,
        figures.exclusive,
        figures.inclusive,
        figures.calls,
        figures.subroutines,
        figures.inclusive_per_call,
    )


def without_shares(view: View) -> View:
    """The table of a ratio, which has neither shares of a whole nor values per call.

    Where a ratio is undefined, the cell is empty.
    """
    view = view.only(
        lambda column, _: column.name != "percent" and not column.name.endswith("_per_call")
    )
    return replace(
        view, rows=[[cell if cell == cell else None for cell in row] for row in view.rows]
    )


NAME_COLUMNS = (
    Column("timer", "text", "Name"),
    Column("short_name", audience="machines"),
    Column("file", audience="machines"),
    Column("line", "int", audience="machines"),
    Column("groups", audience="machines"),
)


def name_cells(figures: Figures) -> tuple[Cell, ...]:
    """A row's cells under `NAME_COLUMNS`."""
    return figures.timer, figures.short_name, figures.file, figures.line, figures.groups


THREAD_COLUMNS = (
    Column("table", audience="machines"),
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("thread", "int", audience="machines"),
    Column("thread_name", audience="machines"),
)
"""Columns with the information in the title; `table` is thread, total, mean, min, max or stddev."""
