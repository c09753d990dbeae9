"""Numbers that are not metrics: of calls, of launches on GPUs, of user events.

Each is in a separate table, beside the values of metrics; this module defines how to sum them.
"""

from __future__ import annotations

from collections.abc import Iterable

from taupy.dataclass import NamedTuple
from taupy.errors import UsageError
from taupy.model.question import EVENTS, LAUNCHES, Source, Value
from taupy.model.table import Column, How
from taupy.profiledb.dimensions import dimension


class Measure(NamedTuple):
    """A number of a row: its SQL, unit, and how to combine several."""

    sql: str
    unit: str
    how: How = "sum"

    @property
    def summed(self) -> str:
        return f"{self.how}({self.sql})"


_TIMED = "CASE WHEN launch.count > launch.untimed THEN {} END"

MEASURES: dict[Value, Measure] = {
    "calls": Measure("call.calls", "call"),
    "subroutines": Measure("call.subroutines", "call"),
    "launch.count": Measure("launch.count", "launch"),
    "launch.untimed": Measure("launch.untimed", "launch"),
    "launch.time": Measure("launch.time_ns", "ns"),
    "launch.shortest": Measure(_TIMED.format("launch.minimum_ns"), "ns", "min"),
    "launch.longest": Measure(_TIMED.format("launch.maximum_ns"), "ns", "max"),
    "launch.squares": Measure("launch.sum_squares_ns2", "ns^2"),
    "launch.bytes": Measure("launch.bytes", "B"),
    "launch.occupancy": Measure("launch.occupancy * launch.time_ns", "ns"),
    "launch.occupied": Measure("CASE WHEN launch.occupancy IS NOT NULL THEN launch.time_ns END",
                               "ns"),
    "event.count": Measure("event.count", "sample"),
    "event.total": Measure("event.count * event.mean", ""),
    "event.least": Measure("event.minimum", "", "min"),
    "event.most": Measure("event.maximum", "", "max"),
}  # fmt: skip


def column(value: Value) -> Column:
    """The name of this number in a table."""
    measure = MEASURES[value]
    return Column(value, "", measure.unit, measure.how)


def source_of(values: Iterable[Value], dimensions: Iterable[str]) -> Source:
    """The kind of rows that a question reads.

    Raises:
        UsageError: the values have different sources, or a dimension belongs to another source.
    """
    sources: set[Source] = {
        "launch" if value in LAUNCHES else "event" if value in EVENTS else "call"
        for value in values
    }
    if len(sources) > 1:
        raise UsageError("one question asks for calls, for launches or for user events")
    source = sources.pop() if sources else "call"
    for name in dimensions:
        own = dimension(name).of
        if own in ("launch", "event") and own != source:
            rows = "launches on GPUs" if own == "launch" else "user events"
            raise UsageError(f"'{name}' is a dimension of {rows} only")
    return source
