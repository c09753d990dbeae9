"""Ranks, their steps and their collectives as tables: what `taupy ranks` shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from taupy.model.collectives import UNKNOWN_BYTES
from taupy.model.job import spans
from taupy.model.step_times import per_step
from taupy.pprof.view import Cell, Column, View
from taupy.ranks.causes import Cause
from taupy.ranks.data import Matched, Rank, Ranks
from taupy.ranks.matching import RankTimes
from taupy.units import duration, several

_RANKS = (
    Column("rank", "int", "Rank"),
    Column("steps", "int", "Steps"),
    Column("step_ns", "time_ns", "Step", width=9),
    Column("compute_ns", "time_ns", "Compute", width=9),
    Column("data_ns", "time_ns", "Data", width=9),
    Column("compile_ns", "time_ns", "Compile", width=9),
    Column("wait_ns", "time_ns", "Wait", width=9),
    Column("transfer_ns", "time_ns", "Transfer", width=9),
    Column("rest_ns", "time_ns", "Rest", width=9),
    Column("memory_bytes", "bytes", "Memory", width=9),
    Column("last", "int", "Last"),
    Column("caused_ns", "time_ns", "Caused", width=9),
)
_LONGER = (
    Column("routine", "text", "Longer routine"),
    Column("layer", "text", "Layer"),
    Column("routine_ns", "time_ns", "by", width=9),
)
"""What took the last rank longer, see `causes.py`."""
_STEPS = (
    Column("step", "int", "Step"),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("straggler", "int", "Straggler"),
    Column("caused_ns", "time_ns", "Caused", width=9),
    Column("phase", "text", "Longer phase"),
    Column("phase_ns", "time_ns", "by", width=9),
    *_LONGER,
)
_COLLECTIVES = (
    Column("communicator", "text", "Communicator"),
    Column("number", "int", "Number"),
    Column("operation", "text", "Operation"),
    Column("bytes", "bytes", "Bytes"),
    Column("step", "int", "Step"),
    Column("ranks", "int", "Ranks"),
    Column("last", "int", "Last"),
    Column("skew_ns", "time_ns", "Skew", width=9),
    Column("waited_ns", "time_ns", "Waited", width=9),
    Column("transfer_ns", "time_ns", "Transfer", width=9),
    Column("rest_ns", "time_ns", "Rest", width=9),
    *_LONGER,
)


class StepOfRanks(NamedTuple):
    """One step: its time on the slowest rank, the rank that was waited for, and what took that
    rank longer (`phase`, `cause`; None if unknown)."""

    number: int
    time_ns: float | None
    straggler: RankTimes | None
    phase: tuple[str, float] | None
    cause: Cause | None


def view(
    job: Ranks, sums: Sequence[RankTimes], step: int | None = None, notes: Sequence[str] = ()
) -> View:
    """One row per rank, for one step or all."""
    cells = [_cells(rank, times, step) for rank, times in zip(job.ranks, sums, strict=True)]
    title = f"{several(len(job.ranks), 'rank')}, {_count(job)}".upper()
    return View(title, _RANKS, cells, [*notes, *_imbalance(cells), *remarks(job)])


def _count(job: Ranks) -> str:
    count = sum(len(matched.number) for matched in job.matched if not matched.is_pair)
    sends = sum(len(matched.number) for matched in job.matched if matched.is_pair)
    return several(count, "matched collective") + (f", {several(sends, 'send')}" if sends else "")


def _cells(rank: Rank, times: RankTimes, step: int | None) -> list[Cell]:
    of_steps = _steps(rank, step)
    if of_steps is None:
        steps: list[Cell] = [None] * 5
    else:
        apart = (of_steps.data or 0.0) + (of_steps.compile or 0.0)
        inside = times.wait_ns + times.transfer_ns + times.rest_ns
        compute = max(0.0, of_steps.whole - apart - inside)
        steps = [of_steps.number, of_steps.median, compute, of_steps.data, of_steps.compile]
    return [
        *(rank.number, *steps, times.wait_ns, times.transfer_ns, times.rest_ns),
        *(rank.memory_bytes, times.last, times.caused_ns),
    ]


class _Steps(NamedTuple):
    """A rank's steps: their number, median and total time, and the time for data and compilation
    in them [ns]; None: unknown, or no compilation."""

    number: int
    median: float
    whole: float
    data: float | None
    compile: float | None


def _steps(rank: Rank, step: int | None) -> _Steps | None:
    """All steps, or one of them; None if there is none."""
    steps = rank.steps
    if steps is None or not len(steps):
        return None
    data, compiled = steps.phases.get("data"), steps.phases.get("compile")
    if step is None:
        return _Steps(
            sum(steps.count),
            median(per_step(steps)),
            sum(steps.time_ns),
            None if data is None else sum(data),
            (sum(compiled) or None) if compiled else None,
        )
    for row, (number, count) in enumerate(zip(steps.number, steps.count, strict=True)):
        if number <= step < number + count:
            took = steps.time_ns[row] / count
            of_data = None if data is None else data[row] / count
            of_compile = (compiled[row] / count or None) if compiled else None
            return _Steps(1, took, took, of_data, of_compile)
    return None


def _imbalance(cells: Sequence[Sequence[Cell]]) -> list[str]:
    names = [column.name for column in _RANKS]
    computed = [row[names.index("compute_ns")] for row in cells]
    values = [value for value in computed if isinstance(value, int | float)]
    if len(values) < 2 or not max(values):
        return []
    mean = sum(values) / len(values)
    return [
        f"compute: {duration(mean)} on average, {duration(max(values))} at most: an imbalance of "
        f"{100 * (max(values) / mean - 1):.1f} %"
    ]


def remarks(job: Ranks) -> list[str]:
    """What is missing, and how clocks were aligned."""
    notes = []
    if job.missing:
        several_of = len(job.missing) > 1
        notes.append(
            f"{'ranks' if several_of else 'rank'} {spans(job.missing)} "
            f"{'are' if several_of else 'is'} missing: waiting for "
            f"{'them' if several_of else 'it'} is counted as transfer"
        )
    notes += [f"{text}: from there on nothing is matched" for text in job.apart]
    notes += job.never_ended[:5]
    notes += job.behind[:5]
    notes += job.failed
    for rank, clock in sorted(job.clocks.items()):
        way = "ahead" if clock.offset_ns > 0 else "behind"
        drift = f", and drifts by {clock.drift * 1e6:.1f} us a second" if clock.drift else ""
        notes.append(
            f"the clock of rank {rank} is {duration(abs(clock.offset_ns))} {way}{drift}: aligned "
            f"by {several(clock.pairs, 'collective')}"
            + (f", within {duration(clock.residual_ns)}" if clock.pairs > 1 else "")
        )
    return notes


def steps_view(steps: Sequence[StepOfRanks], ranks: int) -> View:
    """One row per step."""
    rows = [
        (
            step.number,
            step.time_ns,
            step.straggler.rank if step.straggler else None,
            step.straggler.caused_ns if step.straggler else None,
            *(step.phase or (None, None)),
            *_longer(step.cause),
        )
        for step in steps
    ]
    return _shown(View(f"steps of {several(ranks, 'rank')}".upper(), _STEPS, rows))


def _longer(cause: Cause | None) -> tuple[Cell, ...]:
    return (None, None, None) if cause is None else (
        cause.timer.timer, cause.layer, cause.excess_ns
    )  # fmt: skip


def _shown(view: View) -> View:
    """The view without empty columns on what took longer."""
    names = {column.name for column in _LONGER}
    at = [
        place
        for place, column in enumerate(view.columns)
        if column.name not in names or any(row[place] is not None for row in view.rows)
    ]
    return replace(
        view,
        columns=[view.columns[place] for place in at],
        rows=[[row[place] for place in at] for row in view.rows],
    )


def collectives_view(
    job: Ranks,
    cause_of: Callable[[str, int], Cause | None],
    step: int | None = None,
    most: int | None = None,
    notes: Sequence[str] = (),
) -> View:
    """One row per collective: those with the largest skew, or all.

    Args:
        cause_of: what took the last rank longer, by communicator and number.
        step: only this step.
        most: maximum number of rows; None: all, in their order.
    """
    rows = [row for matched in job.matched for row in _collectives(matched, step)]
    notes_shown = [*notes]
    if most is not None and len(rows) > most:
        notes_shown.append(
            f"{most} of {len(rows)} collectives, the largest skew first; --all shows all"
        )
        rows = sorted(rows, key=lambda row: -_number(row[7]))[:most]
    with_causes = [[*row, *_longer(cause_of(str(row[0]), int(_number(row[1]))))] for row in rows]
    return _shown(View("COLLECTIVES", _COLLECTIVES, with_causes, notes_shown))


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def _collectives(matched: Matched, step: int | None) -> list[list[Cell]]:
    skew = matched.arrival - np.nanmin(matched.requested, axis=0)
    waited, transfer = np.nansum(matched.waited, axis=0), np.nan_to_num(matched.transfer).max(0)
    skew = waited if matched.is_pair else skew
    rest = np.nan_to_num(matched.rest).max(0)
    return [
        [
            *(matched.communicator, matched.number[at], matched.operation[at]),
            None if matched.bytes[at] == UNKNOWN_BYTES else matched.bytes[at],
            int(matched.step[at]) or None,
            int((~np.isnan(matched.requested[:, at])).sum()),
            matched.ranks[int(last)],
            *(float(skew[at]), float(waited[at]), float(transfer[at]), float(rest[at])),
        ]
        for at, last in enumerate(matched.last)
        if step is None or matched.step[at] == step
    ]


def slowest(job: Ranks) -> Mapping[int, float]:
    """The time of each step on the rank where it took longest [ns]."""
    longest: dict[int, float] = {}
    for rank in job.ranks:
        if rank.steps is None:
            continue
        for number, time in zip(rank.steps.number, per_step(rank.steps), strict=True):
            longest[number] = max(longest.get(number, 0.0), time)
    return longest
