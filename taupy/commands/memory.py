"""Show when memory was largest, and where it grew.

    taupy memory                      the trial stored last
    taupy memory 12 --by layer        growth by layer, or by another dimension
    taupy memory 12 --by step         the largest memory in each step of a training
    taupy memory --series --csv       resident memory over time
    taupy memory --gpu                the same for memory that PyTorch has allocated on GPUs

Growth is sampled: growth that cannot be charged to a routine has its own row.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.model.rows import TimelineRow
from taupy.model.sampled import CUDA, CUDA_ALLOCATED, CUDA_RESERVED, HOST, RESIDENT, MemoryEvents
from taupy.pprof import sampled, steps, terminal
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sampled import BY, Peak, peaks, sampled_by
from taupy.profiledb.steps import steps_of
from taupy.units import duration, size

_SERIES = (
    Column("node", "int", "Node"),
    Column("event", heading="Of"),
    Column("start_ns", "time_ns", "From"),
    Column("end_ns", "time_ns", "To"),
    Column("resident_bytes", "bytes", "Memory"),
    Column("least_bytes", "bytes", "Least"),
    Column("most_bytes", "bytes", "Most"),
)
_STEP = "step"
_KIB, _NS = 1024, 1_000_000_000
_NODES_AT_MOST = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    options.add_by_argument(parser, (*BY, _STEP), "one row for each")
    parser.add_argument("--series", action="store_true", help="memory over time")
    parser.add_argument(
        "--gpu", action="store_true", help="GPU memory held by PyTorch's caching allocator"
    )
    options.add_limit_argument(parser)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    events, title = (CUDA, "MEMORY OF PYTORCH ON GPUS") if args.gpu else (HOST, "RESIDENT MEMORY")
    why = _WHY_NO_GPU if args.gpu else _WHY
    if args.by == _STEP and not args.series:
        return _by_step(args, CUDA_ALLOCATED if args.gpu else RESIDENT)
    with running.selected_trial(args) as (db, trial):
        series = _gpu_series(db, trial.id) if args.gpu else query.timeline(db, trial.id, RESIDENT)
        grown = sampled_by(db, trial.id, events.grown, args.by, sampled.APART)
        largest = peaks(db, trial.id, events.peak)
    if args.series:
        if not series:
            raise UsageError(f"trial {trial.id} has no {title.lower()} over time: {why}")
        view = View(title, _SERIES, [_moment(row) for row in series])
        terminal.show(view.first(args.limit), form=args.form)
        return 0
    if not grown and not largest and not series:
        raise UsageError(f"trial {trial.id} has no samples of {title.lower()}: {why}")
    notes = [*_peaks(series, largest, events)]
    if not grown and not args.gpu:
        notes.append("where it grew is not known: the plain engine cannot tell")
    view = sampled.growth(grown, args.by, notes, events)
    terminal.show(view.first(args.limit), form=args.form)
    return 0


def _by_step(args: argparse.Namespace, event: str) -> int:
    with running.selected_trial(args) as (db, trial):
        series = steps_of(db, trial.id)
    views = [
        steps.memory(*of_thread, event) for of_thread in series if event in of_thread[1].values
    ]
    if not views:
        why = _WHY_NO_GPU if args.gpu else _WHY
        what = f"memory of its steps: {why}" if series else "steps: see docs/steps.md"
        raise UsageError(f"trial {trial.id} has no {what}")
    terminal.show_all([view.first(args.limit) for view in views], args.form)
    return 0


_WHY = (
    "it was run without the watch (docs/watch.md) or with an older taupy, or comes from another "
    "tool"
)
_WHY_NO_GPU = (
    "no use of CUDA by PyTorch was seen (docs/watch.md), or it was run with the plain engine or "
    "an older taupy"
)


def _gpu_series(db: ProfileDB, trial_id: int) -> list[TimelineRow]:
    names = (CUDA_ALLOCATED, CUDA_RESERVED)  # of each GPU
    return [row for row in query.timeline(db, trial_id) if row.event.startswith(names)]


def _moment(row: TimelineRow) -> tuple[Cell, ...]:
    values = (_bytes(value) for value in (row.mean, row.minimum, row.maximum))
    return (row.node, row.event, int(row.start_s * _NS), int(row.end_s * _NS), *values)


def _bytes(kib: float | None) -> int | None:
    return None if kib is None else int(kib * _KIB)


def _peaks(series: list[TimelineRow], largest: list[Peak], events: MemoryEvents) -> Iterator[str]:
    """For each process, when memory was largest, and where its threads were."""
    nodes = [(node, list(rows)) for node, rows in groupby(series, key=lambda row: row.node)]
    for node, rows in nodes[:_NODES_AT_MOST]:
        for event, moments in groupby(rows, key=lambda row: row.event):
            what = "" if event == RESIDENT else f"{event}: "
            yield f"process of node {node}: {what}{_largest(list(moments))}"
        yield from _reached([peak for peak in largest if peak.thread.node == node], events)
    if len(nodes) > _NODES_AT_MOST:
        yield f"not shown: {len(nodes) - _NODES_AT_MOST} more processes"


def _largest(rows: list[TimelineRow]) -> str:
    most = max(rows, key=lambda row: row.maximum or 0)
    at = duration(most.start_s * _NS)
    first, last = (size((row.mean or 0) * _KIB) for row in (rows[0], rows[-1]))
    text = f"largest {size((most.maximum or 0) * _KIB)}, {at} after the start"
    return f"{text} ({first} at first, {last} at last)"


def _reached(largest: list[Peak], events: MemoryEvents) -> Iterator[str]:
    """Where threads were when resident memory was largest; on GPUs, where it became largest."""
    if events == HOST:
        yield from (f"then thread {_within(peak)}" for peak in largest)
    elif largest:
        highest = max(largest, key=lambda peak: peak.most or 0)
        yield f"the most was reached when thread {_within(highest)}"


def _within(peak: Peak) -> str:
    where = " <= ".join(peak.routines[:4]) or "(no routine)"
    places = [where, *filter(None, (peak.phase, peak.layer))]
    return f"{peak.thread.thread} ({peak.thread.name}) was in {', '.join(places)}"
