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
from taupy.model.sampled import BETWEEN, DOUBT, GROWTH, PEAK, RELEASED, RESIDENT
from taupy.pprof import sampled, terminal
from taupy.pprof.view import Column, View
from taupy.profiledb import query, selector
from taupy.profiledb.database import ProfileDB
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
    parser.add_argument(
        "selector", nargs="?", default=selector.LATEST, metavar="TRIAL",
        help="default: latest; `running`: a program that is still running, so far",
    )  # fmt: skip
    parser.add_argument(
        "--by", choices=sampled.BY, default="routine", help="one row for each (default: routine)"
    )
    parser.add_argument("--series", action="store_true", help="resident memory over time")
    parser.add_argument("--limit", "-n", type=options.count, metavar="N", help="show N rows")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    database = options.database_path(args)
    if args.selector == running.RUNNING and (runs := running.here(database)):
        return running.show(args, runs, run)
    with ProfileDB.open(database) as db:
        trial = selector.trial(db, args.selector)
        series = [row for row in query.timeline(db, trial.id) if row[3] == RESIDENT]
        sampled_rows = events_at_paths(db, trial.id, (GROWTH, DOUBT, BETWEEN, RELEASED, PEAK))
    if args.series:
        if not series:
            raise UsageError(f"trial {trial.id} has no memory over time: {_WHY}")
        rows = [_moment(*row) for row in series]
        terminal.show(View("RESIDENT MEMORY", _SERIES, rows[: args.limit]), form=args.form)
        return 0
    if not sampled_rows and not series:
        raise UsageError(f"trial {trial.id} has no samples of memory: {_WHY}")
    notes = [*_peaks(series, sampled_rows)]
    grown = [row for row in sampled_rows if row.name != PEAK]
    if not grown:
        notes.append("where it grew is not known: the plain engine cannot tell")
    view = sampled.growth(grown, args.by, notes)
    terminal.show(
        View(view.title, view.columns, view.rows[: args.limit], view.notes), form=args.form
    )
    return 0


_WHY = "it was run without a watch (docs/watch.md), with an older taupy, or is of another tool"


def _moment(
    node: int, context: int, thread: int, event: str, unit: str, start_s: float, end_s: float,
    mean: float, least: float, most: float, count: int,
) -> tuple[int, ...]:  # fmt: skip
    values = (int(value * _KIB) for value in (mean, least, most))
    return (node, int(start_s * _NS), int(end_s * _NS), *values)


def _peaks(series: list[tuple[float, ...]], sampled_rows: list[AtPath]) -> Iterator[str]:
    """When memory was largest, in each process, and what threads were in."""
    nodes = [(node, list(rows)) for node, rows in groupby(series, key=lambda row: int(row[0]))]
    for node, rows in nodes[:_NODES_AT_MOST]:
        first, last = rows[0], rows[-1]
        most = max(rows, key=lambda row: row[9])
        at = duration(most[5] * _NS)
        text = f"largest {size(most[9] * _KIB)}, {at} after the start"
        ends = f"{size(first[7] * _KIB)} at first, {size(last[7] * _KIB)} at last"
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
