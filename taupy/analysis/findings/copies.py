"""Copies between host and GPU that could be faster, or fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from taupy.analysis.findings.calls import largest_part, place
from taupy.analysis.findings.gpu_clock import GpuClock, gpu_clock, is_copy, is_wait
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Evidence, Finding
from taupy.model.question import EVENTS, Condition, Question
from taupy.model.rows import TimerRow
from taupy.units import count, duration, size

KIND = "copies"
NEEDS = ("host", "gpu", "clock")

SMALL_BYTES = 64 * 1024
"""A copy of 64 KiB takes some 5 us at 12 GB/s, as long as the call that starts it. For smaller
copies, the call takes longer than the copy."""

LEAST_SMALL = 1000
"""Minimum number of copies: at some 10 us each, this many cost 10 ms, the least time that makes a
finding."""


_WAITS = 1.1
"""Waits for each copy, at most: of a routine with many more, most are for something else."""


class _Copy(NamedTuple):
    """Copies from one call path, in one direction."""

    callpath: int
    name: str
    number: int
    gpu_ns: float
    bytes: int


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial)
    if clock is None:
        return
    copies = _copies(clock)
    pageable = _pageable(trial)
    large = [copy for copy in copies if copy.bytes >= SMALL_BYTES * copy.number]
    yield from _from_pageable(clock, [copy for copy in large if copy.callpath in pageable])
    yield from _small(clock, [copy for copy in copies if copy.bytes < SMALL_BYTES * copy.number])


def _from_pageable(clock: GpuClock, copies: Sequence[_Copy]) -> Iterator[Finding]:
    gpu = sum(copy.gpu_ns for copy in copies)
    moved = sum(copy.bytes for copy in copies)
    if not gpu:
        return
    trial = clock.trial
    yield Finding(
        KIND,
        f"{size(moved)} are copied from or to pageable memory in {duration(gpu)} "
        f"({size(moved / gpu * 1e9)}/s){_where(clock, copies, _gpu_ns)}; the host waits meanwhile",
        saved_ns=clock.saved_ns(gpu=gpu, waits=clock.blocking_copies.ns),
        wall_ns=trial.wall_ns,
        evidence=(_evidence(trial, copies),),
        confidence="high",
        attempt="copy from and to pinned memory: pin_memory=True and "
        ".to(device, non_blocking=True)",
        refuted_by="the same copies are as slow from pinned memory",
    )


def _small(clock: GpuClock, copies: Sequence[_Copy]) -> Iterator[Finding]:
    number = sum(copy.number for copy in copies)
    if number < LEAST_SMALL:
        return
    trial, host = clock.trial, _host_ns(clock, copies)
    gpu = sum(copy.gpu_ns for copy in copies)
    mean = sum(copy.bytes for copy in copies) / number
    yield Finding(
        KIND,
        f"{count(number)} copies of {size(mean)} on average take the host "
        f"{duration(host)}{_where(clock, copies, partial(_host_ns, clock))}",
        saved_ns=clock.saved_ns(host=host, gpu=gpu),
        wall_ns=trial.wall_ns,
        evidence=(_evidence(trial, copies),),
        confidence="high",
        attempt="combine related data in one buffer and copy that",
        refuted_by="what is copied is only known piece by piece",
    )


def _copies(clock: GpuClock) -> list[_Copy]:
    table = clock.launches
    rows = zip(
        *(table.row_labels("device"), table.row_labels("callpath"), table.row_labels("timer")),
        *map(table.column, ("launch.count", "launch.time", "launch.bytes")),
        strict=True,
    )
    return [
        _Copy(callpath, timer.short_name, number, ns or 0, moved)
        for device, callpath, timer, number, ns, moved in rows
        if device == clock.device
        and timer.short_name.startswith("Memcpy")
        and moved is not None
        and callpath not in clock.once
    ]


def _pageable(trial: Trial) -> set[int]:
    """Call paths of copies from or to pageable memory."""
    table = trial.ask(Question((trial.id,), (), ("callpath", "event"), values=EVENTS))
    pairs = zip(table.row_labels("callpath"), table.row_labels("event"), strict=True)
    return {path for path, event in pairs if "pageable" in event.name and "copied" in event.name}


def _host_ns(clock: GpuClock, copies: Sequence[_Copy]) -> float:
    """The main thread's time in the calls that made these copies, in the waits that follow each of
    them, as in PyTorch's copies from pageable memory, and in the Python that makes them."""
    calls = clock.trial.calls
    rows = {*clock.starts((copy.callpath for copy in copies), is_copy)}
    copied: dict[int, float] = {}
    for row in rows:
        copied[calls.parent[row]] = copied.get(calls.parent[row], 0) + calls.calls[row]
    rows |= {
        row
        for row in calls.rows(is_wait)
        if calls.calls[row] <= _WAITS * copied.get(calls.parent[row], 0)
    }
    return clock.made_ns(rows)


def _gpu_ns(copies: Sequence[_Copy]) -> float:
    return sum(copy.gpu_ns for copy in copies)


def _where(
    clock: GpuClock, copies: Sequence[_Copy], taken: Callable[[Sequence[_Copy]], float]
) -> str:
    """The routine that makes most of these copies, by the time that they take, as a clause."""
    by_routine: dict[TimerRow | None, list[_Copy]] = {}
    for copy in copies:
        rows = clock.starts([copy.callpath], is_copy)
        by_routine.setdefault(clock.trial.caller(rows[0]) if rows else None, []).append(copy)
    times = {timer: taken(own) for timer, own in by_routine.items()}
    most = max(times, key=times.__getitem__)
    return largest_part(place(most), times[most], taken(copies))


def _evidence(trial: Trial, copies: Sequence[_Copy]) -> Evidence:
    where = (Condition("callpath", tuple(sorted({copy.callpath for copy in copies}))),)
    return trial.evidence(
        ("timer", "callpath"), where, ("launch.time", "launch.count", "launch.bytes"), ()
    )
