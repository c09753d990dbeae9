"""USER EVENTS: statistics of sampled values, one table per thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from taupy.model.rows import EventRow, ThreadRow
from taupy.model.sampled import OF_PROCESSES, PEAKS
from taupy.pprof import figures
from taupy.pprof.selection import Place, place_of
from taupy.pprof.view import Column, View

LONGEST_PATH = 3
"""Number of routines shown of a call path, counted from its end."""

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
        meant: predicate on the name as shown and on the event's own name.
    """
    by_thread: dict[Place, list[EventRow]] = {place_of(thread): [] for thread in threads}
    for row in rows:
        place = place_of(row)
        if place in by_thread and (meant is None or meant(event_name(row), row.event)):
            by_thread[place].append(row)
    return {
        place_of(thread): _view(thread, of_thread)
        for thread in threads
        if (of_thread := by_thread[place_of(thread)])
    }


def _view(thread: ThreadRow, rows: Sequence[EventRow]) -> View:
    place = place_of(thread)
    cells = [
        ("event", *place, thread.name, row.count, row.maximum, row.minimum, row.mean,
         row.stddev, event_name(row), row.event, row.unit, row.callpath)
        for row in rows
    ]  # fmt: skip
    return View(
        "USER EVENTS Profile :NODE {}, CONTEXT {}, THREAD {}".format(*place), _COLUMNS, cells
    )


def over_callpaths(rows: Sequence[EventRow]) -> list[EventRow]:
    """One row per event and thread, combined over call paths.

    Events of a whole process, such as its resident memory, are listed under its first thread only,
    regardless of which thread sampled them.
    """
    first_of: dict[tuple[int, int], Place] = {}
    for row in rows:
        process = row.node, row.context
        first_of[process] = min(first_of.get(process, place_of(row)), place_of(row))
    together: dict[tuple[Place, str, str], list[EventRow]] = {}
    for row in rows:
        place = first_of[row.node, row.context] if row.event in OF_PROCESSES else place_of(row)
        own = row._replace(node=place[0], context=place[1], thread=place[2])
        together.setdefault((place, row.event, row.unit), []).append(own)
    return [_summed(events_of_name) for events_of_name in together.values()]


def _summed(rows: Sequence[EventRow]) -> EventRow:
    if rows[0].event in PEAKS:  # every thread reports it, with its call path at that moment
        rows = [max(rows, key=lambda row: row.maximum)]
    if len(rows) == 1:
        return rows[0]._replace(callpath=None)
    rows = [row for row in rows if row.count] or rows[:1]
    count = sum(row.count for row in rows)
    weights = [row.count / count if count else 0.0 for row in rows]
    mean = sum(row.mean * weight for row, weight in zip(rows, weights, strict=True))
    # Variance within each row, plus the distance of its mean from the overall mean.
    variance = sum(
        (row.stddev**2 + (row.mean - mean) ** 2) * weight
        for row, weight in zip(rows, weights, strict=True)
    )
    return rows[0]._replace(
        callpath=None,
        count=count,
        minimum=min(row.minimum for row in rows),
        maximum=max(row.maximum for row in rows),
        mean=mean,
        stddev=math.sqrt(variance),
    )


def event_name(row: EventRow) -> str:
    """TAU's notation for an event in a call path, with its unit if it has one.

    Only the end of a long call path is shown.
    """
    unit = f" ({row.unit})" if row.unit else ""
    if row.callpath is None:
        return row.event + unit
    routines = row.callpath.split(" => ")
    if len(routines) > LONGEST_PATH:
        routines = ["...", *routines[-LONGEST_PATH:]]
    return f"{row.event}{unit} : {' => '.join(routines)}"
