"""Show when memory was largest, and where it grew.

    taupy memory                      the trial stored last
    taupy memory 12 --by layer        growth by routine, phase, layer, call path or thread
    taupy memory --series --csv       resident memory over time

Growth is sampled: what could not be charged to a routine has a row of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.model.rows import TimelineRow
from taupy.model.sampled import BETWEEN, DOUBT, GROWTH, PEAK, RELEASED, RESIDENT
from taupy.pprof import sampled, terminal
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import query
from taupy.profiledb.trial_facts import AtPath, events_at_paths
from taupy.units import duration, size

_SERIES = (
    Column("node", "int", "Node"),
    Column("start_ns", "time_ns", "From"),
    Column("end_ns", "time_ns", "To"),
    Column("resident_bytes", "bytes", "Memory"),
    Column("least_bytes", "bytes", "Least"),
    Column("most_bytes", "bytes", "Most"),
)
_KIB, _NS = 1024, 1_000_000_000
_NODES_AT_MOST = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    parser.add_argument(
        "--by", choices=sampled.BY, default="routine", help="one row for each (default: routine)"
    )
    parser.add_argument("--series", action="store_true", help="resident memory over time")
    options.add_limit_argument(parser)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with running.asked(args) as (db, trial):
        series = query.timeline(db, trial.id, RESIDENT)
        sampled_rows = events_at_paths(db, trial.id, (GROWTH, DOUBT, BETWEEN, RELEASED, PEAK))
    if args.series:
        if not series:
            raise UsageError(f"trial {trial.id} has no memory over time: {_WHY}")
        view = View("RESIDENT MEMORY", _SERIES, [_moment(row) for row in series])
        terminal.show(view.first(args.limit), form=args.form)
        return 0
    if not sampled_rows and not series:
        raise UsageError(f"trial {trial.id} has no samples of memory: {_WHY}")
    notes = [*_peaks(series, sampled_rows)]
    grown = [row for row in sampled_rows if row.name != PEAK]
    if not grown:
        notes.append("where it grew is not known: the plain engine cannot tell")
    view = sampled.growth(grown, args.by, notes)
    terminal.show(view.first(args.limit), form=args.form)
    return 0


_WHY = "it was run without a watch (docs/watch.md), with an older taupy, or is of another tool"


def _moment(row: TimelineRow) -> tuple[Cell, ...]:
    values = (_bytes(value) for value in (row.mean, row.minimum, row.maximum))
    return (row.node, int(row.start_s * _NS), int(row.end_s * _NS), *values)


def _bytes(kib: float | None) -> int | None:
    return None if kib is None else int(kib * _KIB)


def _peaks(series: list[TimelineRow], sampled_rows: list[AtPath]) -> Iterator[str]:
    """When memory was largest, in each process, and what threads were in."""
    nodes = [(node, list(rows)) for node, rows in groupby(series, key=lambda row: row.node)]
    for node, rows in nodes[:_NODES_AT_MOST]:
        first, last = rows[0], rows[-1]
        most = max(rows, key=lambda row: row.maximum or 0)
        at = duration(most.start_s * _NS)
        text = f"largest {size((most.maximum or 0) * _KIB)}, {at} after the start"
        means = (size((row.mean or 0) * _KIB) for row in (first, last))
        ends = "{} at first, {} at last".format(*means)
        yield f"process of node {node}: {text} ({ends})"
        for row in sampled_rows:
            if row.name == PEAK and row.thread.node == node:
                yield f"then thread {_within(row)}"
    if len(nodes) > _NODES_AT_MOST:
        yield f"not shown: {len(nodes) - _NODES_AT_MOST} more processes"


def _within(row: AtPath) -> str:
    thread, path = row.thread, row.path
    phase, layer = (sampled.labels(by, thread, path)[0] for by in ("phase", "layer"))
    places = [name for name in (phase, layer) if not name.startswith("(no ")]
    where = " <= ".join(timer.short_name for timer in path[:4]) or sampled.NO_ROUTINE
    return f"{thread.thread} ({thread.name}) was in {where}" + (
        f", {', '.join(places)}" if places else ""
    )
