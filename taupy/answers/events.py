"""Show user events: statistics of values that the program or taupy has noted, thread by thread.

    taupy events                      the trial stored last
    taupy events 12 --callpaths       call path by call path, as TAU's context events
    taupy events --event loss         only those whose name matches

`taupy pprof` shows them below the routines of each thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taupy.answers.answer import Nothing
from taupy.errors import UsageError
from taupy.model import options
from taupy.model.options import option
from taupy.model.rows import EventRow, ThreadRow
from taupy.model.sampled import OF_PROCESSES, PEAKS
from taupy.pprof import figures, selection
from taupy.pprof.selection import Place, place_of
from taupy.pprof.view import Column, View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.units import listing

LONGEST_PATH = 3
"""Number of routines shown of a call path, counted from its end."""

_NAMED = 8
"""Number of events that an error message names."""

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


@dataclass(frozen=True)
class Options(options.Asked):
    callpaths: bool = option(False, "call path by call path")
    event: str | None = option(
        None,
        "only events of this name: a part, a pattern with * and ?, or /REGEX/",
        metavar="NAME",
        is_text=True,
    )
    limit: int | None = options.limit()


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each thread that has events.

    Raises:
        UsageError: no event has such a name.
    """
    names = () if options.event is None else (options.event,)
    return tables(db, trial, query.threads(db, trial), options, names)


def tables(
    db: ProfileDB,
    trial: int,
    threads: Sequence[ThreadRow],
    options: Options,
    names: Sequence[str] = (),
) -> list[View]:
    """The same of these threads.

    Args:
        names: of events, in place of the options' one; () for all.
    """
    rows = query.user_events(db, trial)
    if not rows:
        raise Nothing(f"trial {trial} has no user events")
    tests = [selection.name_test(name) for name in names]
    chosen = [
        row for row in rows if not tests or any(test(row_name(row), row.event) for test in tests)
    ]
    event_names = listing(sorted({row.event for row in rows}), _NAMED)
    if not chosen:
        patterns = " or ".join(map(repr, names))
        raise UsageError(
            f"no user event of trial {trial} matches {patterns} (it has: {event_names})"
        )
    of_threads = by_thread(chosen if options.callpaths else over_callpaths(chosen), threads)
    if not of_threads:
        raise UsageError(
            f"no user event of trial {trial} is on these threads (it has: {event_names})"
        )
    return [view.first(options.limit) for view in of_threads.values()]


def by_thread(rows: Sequence[EventRow], threads: Sequence[ThreadRow]) -> dict[Place, View]:
    """One table for each of these threads that has events."""
    of_threads: dict[Place, list[EventRow]] = {place_of(thread): [] for thread in threads}
    for row in rows:
        of_threads.get(place_of(row), []).append(row)
    return {
        place_of(thread): _view(thread, mine)
        for thread in threads
        if (mine := of_threads[place_of(thread)])
    }


def _view(thread: ThreadRow, rows: Sequence[EventRow]) -> View:
    place = place_of(thread)
    cells = [
        ("event", *place, thread.name, row.count, row.maximum, row.minimum, row.mean,
         row.stddev, row_name(row), row.event, row.unit, row.callpath)
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


def row_name(row: EventRow) -> str:
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
