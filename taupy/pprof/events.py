"""USER EVENTS: values sampled at moments, one table a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taupy.model.rows import EventRow, ThreadRow
from taupy.pprof import figures
from taupy.pprof.selection import Place, place_of
from taupy.pprof.view import Column, View

_COLUMNS = (
    *figures.THREAD_COLUMNS,
    Column("samples", "int", "NumSamples", width=10),
    Column("maximum", "tau_count", "MaxValue", width=10),
    Column("minimum", "tau_count", "MinValue", width=10),
    Column("mean", "tau_count", "MeanValue", width=10),
    Column("stddev", "tau_count", "Std. Dev.", width=10),
    Column("name", "text", "Event Name", audience="people"),
    Column("event", audience="machines"),
    Column("unit", audience="machines"),
    Column("callpath", audience="machines"),
)


def views(
    rows: Sequence[EventRow],
    threads: Sequence[ThreadRow],
    meant: Callable[[str, str], bool] | None = None,
) -> dict[Place, View]:
    """One table for each of these threads that has events.

    Args:
        meant: a test on the name as shown and on the event's own name.
    """
    made = {}
    for thread in threads:
        place = place_of(thread)
        found = [
            ("event", *place, thread.name, row.count, row.maximum, row.minimum, row.mean,
             row.stddev, event_name(row), row.event, row.unit, row.callpath)
            for row in rows
            if place_of(row) == place and (meant is None or meant(event_name(row), row.event))
        ]  # fmt: skip
        if found:
            title = "USER EVENTS Profile :NODE {}, CONTEXT {}, THREAD {}".format(*place)
            made[place] = View(title, _COLUMNS, found)
    return made


def event_name(row: EventRow) -> str:
    """TAU's spelling of an event within a call path, and the unit where it has one."""
    name = row.event if row.callpath is None else f"{row.event} : {row.callpath}"
    return f"{name} ({row.unit})" if row.unit else name
