"""Show when memory was largest, and where it grew.

    taupy memory                      the trial stored last
    taupy memory 12 --by layer        growth by layer, or by another dimension
    taupy memory 12 --by step         the largest memory in each step of a training
    taupy memory --series --csv       resident memory over time
    taupy memory --gpu                the same for memory that PyTorch has allocated on GPUs

Growth is sampled: growth that cannot be charged to a routine has its own row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from taupy.answers import answer, steps
from taupy.answers.answer import Nothing
from taupy.model import options
from taupy.model.metric import ROOT_TIMER
from taupy.model.options import option
from taupy.model.rows import TimelineRow
from taupy.model.sampled import CUDA, CUDA_ALLOCATED, CUDA_RESERVED, HOST, RESIDENT, MemoryEvents
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sampled import BY, Peak, Sampled, peaks, sampled_by
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
BETWEEN_LOOKS = "(growth between looks)"
_APART = {events.between: BETWEEN_LOOKS for events in (HOST, CUDA)}
"""Growth known only to lie within certain routines has a row of its own."""
_GROWTH = (
    Column("share_percent", "percent", "%Growth", width=7),
    Column("growth_bytes", "bytes", "Growth", width=10),
    Column("doubt_bytes", "bytes", "Of it\nin doubt", width=10),
    Column("net_bytes", "bytes", "Net with\ncallees", width=10),
    Column("looks", "int", "Looks"),
)
_TITLES = {
    HOST: "GROWTH OF RESIDENT MEMORY (sampled)",
    CUDA: "GROWTH OF WHAT PYTORCH HAS ALLOCATED ON GPUS (sampled)",
}
_WHY_BETWEEN = {
    HOST: "short ones took turns and their page faults do not show whose it is",
    CUDA: "short ones took turns",
}
_MUCH = 0.1  # of the growth
_KIB, _NS = 1024, 1_000_000_000
_NODES_AT_MOST = 8
_WHY = (
    "it was run without the watch (docs/watch.md) or with an older taupy, or comes from another "
    "tool"
)
_WHY_NO_GPU = (
    "no use of CUDA by PyTorch was seen (docs/watch.md), or it was run with the plain engine or "
    "an older taupy"
)


@dataclass(frozen=True)
class Options(options.Asked):
    by: str = options.by((*BY, "step"), "one row for each")
    series: bool = option(False, "memory over time")
    gpu: bool = option(False, "GPU memory held by PyTorch's caching allocator")
    limit: int | None = options.limit()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_ignored("series", "by")

    @property
    def alone(self) -> bool:
        return self.by != "step"


PAGES = (
    *(Options(by) for by in ("routine", "phase", "layer", "callpath", "thread")),
    Options(gpu=True),
)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """Where memory grew, with notes on when it was largest; by step, one table for each series."""
    events, title = (
        (CUDA, "MEMORY OF PYTORCH ON GPUS") if options.gpu else (HOST, "RESIDENT MEMORY")
    )
    why = _WHY_NO_GPU if options.gpu else _WHY
    if options.by == "step":
        return _by_step(db, trial, options, why)
    series = _gpu_series(db, trial) if options.gpu else query.timeline(db, trial, RESIDENT)
    if options.series:
        if not series:
            raise Nothing(f"trial {trial} has no {title.lower()} over time: {why}")
        return [View(title, _SERIES, [_moment(row) for row in series]).first(options.limit)]
    grown = sampled_by(db, trial, events.grown, options.by, _APART)
    largest = peaks(db, trial, events.peak)
    if not grown and not largest and not series:
        raise Nothing(f"trial {trial} has no samples of {title.lower()}: {why}")
    notes = [*_peaks(series, largest, events)]
    if not grown and not options.gpu:
        notes.append("where it grew is not known: the plain engine cannot tell")
    return [_growth(grown, options.by, notes, events).first(options.limit)]


def _growth(
    sums: Mapping[str, Sampled], by: str, notes: Sequence[str], of: MemoryEvents = HOST
) -> View:
    """Where memory grew, largest growth first.

    Samples are in KiB, the table in bytes. Net growth is growth minus released memory.
    """
    added = (of.growth, of.between)
    own = {label: sum(entry.own.get(name, 0) for name in added) for label, entry in sums.items()}
    net = {
        label: sum(entry.within.get(name, 0) for name in added) - entry.within.get(of.released, 0)
        for label, entry in sums.items()
    }
    whole = sum(own.values())
    between = sum(entry.own.get(of.between, 0) for entry in sums.values())
    if between > _MUCH * whole:
        notes = [
            *notes,
            f"{between / whole:.0%} of the growth could not be charged to a routine, because "
            f"{_WHY_BETWEEN[of]}: it is in the `Net` of their callers",
        ]
    rows: list[tuple[Cell, ...]] = []
    for label in sorted(own, key=lambda label: (-own[label], -net[label], label)):
        entry = sums[label]
        doubt = entry.own.get(of.doubt)
        rows.append(
            (
                100 * own[label] / whole if whole else None,
                int(own[label] * _KIB),
                None if doubt is None else int(doubt * _KIB),
                None if label == BETWEEN_LOOKS else int(net[label] * _KIB),
                sum(entry.count.get(name, 0) for name in added),
                label,
            )
        )
    return View(_TITLES[of], (*_GROWTH, answer.column_of(by)), rows, notes)


def _by_step(db: ProfileDB, trial: int, options: Options, why: str) -> list[View]:
    event = CUDA_ALLOCATED if options.gpu else RESIDENT
    series = steps_of(db, trial)
    tables = [
        steps.memory(*of_thread, event) for of_thread in series if event in of_thread[1].values
    ]
    if not tables:
        what = f"memory of its steps: {why}" if series else "steps: see docs/steps.md"
        raise Nothing(f"trial {trial} has no {what}")
    return [view.first(options.limit) for view in tables]


def _gpu_series(db: ProfileDB, trial_id: int) -> list[TimelineRow]:
    names = (CUDA_ALLOCATED, CUDA_RESERVED)  # of each GPU
    return [row for row in query.timeline(db, trial_id) if row.event.startswith(names)]


def _moment(row: TimelineRow) -> tuple[Cell, ...]:
    values = (_bytes(value) for value in (row.mean, row.minimum, row.maximum))
    return (row.node, row.event, int(row.start_s * _NS), int(row.end_s * _NS), *values)


def _bytes(kib: float | None) -> int | None:
    return None if kib is None else int(kib * _KIB)


def _peaks(series: list[TimelineRow], seen: list[Peak], events: MemoryEvents) -> Iterator[str]:
    """For each process, when memory was largest, and where its threads were; on GPUs, where it
    became largest."""
    nodes = [(node, list(rows)) for node, rows in groupby(series, key=lambda row: row.node)]
    for node, rows in nodes[:_NODES_AT_MOST]:
        process = f"process {node}: " if len(nodes) > 1 else ""
        of_node = [peak for peak in seen if peak.thread.node == node]
        for event, moments in groupby(rows, key=lambda row: row.event):
            what = "" if event == RESIDENT else f"{event}: "
            largest, *where = _largest(list(moments), of_node if events == HOST else [])
            yield f"{process}{what}{largest}"
            yield from where
        if events == CUDA and of_node:
            highest = max(of_node, key=lambda peak: peak.most or 0)
            yield f"the most was reached when {_within(highest)}"
    if len(nodes) > _NODES_AT_MOST:
        yield f"{_NODES_AT_MOST} of {len(nodes)} processes shown"


def _largest(rows: list[TimelineRow], seen: Sequence[Peak]) -> Iterator[str]:
    """The largest amount, and when it was reached; where each thread was.

    Args:
        seen: where threads were when the process was seen with the most memory, which may be after
            the last point of the series, or before one that is larger by little.
    """
    most = max(rows, key=lambda row: row.maximum or 0)
    at_peak = max((peak.most or 0 for peak in seen), default=0)
    kib = max(most.maximum or 0, at_peak)
    text = f"largest {size(kib * _KIB)}"
    if most.maximum == kib:
        start, end = (duration(at * _NS) for at in (most.start_s, most.end_s))
        if most.minimum != most.maximum and start != end:  # several looks: their moments are lost
            start = f"between {start} and {end}"
        text += f", {start} after the start"
    first, last = (size((row.mean or 0) * _KIB) for row in (rows[0], rows[-1]))
    yield f"{text} ({first} at first, {last} at last)"
    when = "then" if at_peak == kib else f"at {size(at_peak * _KIB)}"
    yield from (f"{when} {_within(peak)}" for peak in seen)


def _within(peak: Peak) -> str:
    """The thread, its innermost routine, and what has called that."""
    name = peak.thread.name or f"thread {peak.thread.thread}"
    name = "the main thread" if name == "MainThread" else name
    routines = [routine for routine in peak.routines if routine != ROOT_TIMER][:4]
    where = ", called by ".join(filter(None, (", ".join(routines[:1]), ", ".join(routines[1:]))))
    within = {"phase": peak.phase, "layer": peak.layer}
    about = ", ".join(f"{what} {label}" for what, label in within.items() if label)
    return f"{name} was in {where or 'no routine'}" + (f" ({about})" if about else "")
