"""What was sampled at call paths, by routine, phase, layer or call path: growth of memory, and
whether threads worked or waited.

Each sample belongs to the innermost routine, so own values of all rows add up to the whole; what
no routine, phase or layer owns has a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import CUDA, HOST, STATES, MemoryEvents
from taupy.network.layers import is_layer, layer_of
from taupy.network.phases import nearest
from taupy.pprof.layers import NO_LAYER
from taupy.pprof.phases import NO_PHASE
from taupy.pprof.view import Cell, Column, View

By = Literal["routine", "phase", "layer", "callpath", "thread"]
BY: tuple[By, ...] = get_args(By)
NO_ROUTINE = "(no routine)"
BETWEEN_LOOKS = "(growth between looks)"
_KIB = 1024


class Seen(Protocol):
    """Samples of one user event at one call path, as `profiledb.trial_facts` gives them.

    Attributes:
        path: its timers, the innermost first; empty if they belong to none.
    """

    @property
    def thread(self) -> ThreadRow: ...
    @property
    def path(self) -> Sequence[TimerRow]: ...
    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def total(self) -> float: ...


@dataclass(slots=True)
class _Sums:
    """Of one row: by event, its own and those with what it called."""

    count: dict[str, int] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    within: dict[str, float] = field(default_factory=dict)


def labels(by: By, thread: ThreadRow, path: Sequence[TimerRow]) -> list[str]:
    """The row that a call path belongs to; behind it those that it lies within."""
    if by == "routine":
        return [timer.timer for timer in path] or [NO_ROUTINE]
    if by == "phase":
        return [nearest(timer.groups for timer in reversed(path)) or NO_PHASE]
    if by == "layer":
        return [layer_of(timer.short_name) for timer in path if is_layer(timer.groups)] or [
            NO_LAYER
        ]
    if by == "callpath":
        return [" => ".join(timer.timer for timer in reversed(path)) or NO_ROUTINE]
    return [" ".join((".".join(map(str, thread[:3])), thread.name)).strip()]


def _sums(samples: Iterable[Seen], by: By) -> dict[str, _Sums]:
    """The sums of each label. A sample belongs to the first one of its labels, apart from growth
    between looks: what is known is only that it lies within all of them."""
    sums: dict[str, _Sums] = {}
    for seen in samples:
        above = labels(by, seen.thread, seen.path)
        own = BETWEEN_LOOKS if seen.name in _BETWEEN else above[0]
        row = sums.setdefault(own, _Sums())
        row.count[seen.name] = row.count.get(seen.name, 0) + seen.count
        row.own[seen.name] = row.own.get(seen.name, 0) + seen.total
        for label in set(above):
            outer = sums.setdefault(label, _Sums()).within
            outer[seen.name] = outer.get(seen.name, 0) + seen.total
    return sums


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
_BETWEEN = {events.between for events in _TITLES}


def growth(samples: Sequence[Seen], by: By, notes: Sequence[str], of: MemoryEvents = HOST) -> View:
    """Where memory grew [KiB in the samples, byte here], the most first.

    Net is what was given back taken off.
    """
    sums = _sums(samples, by)
    added = (of.growth, of.between)
    own = {label: sum(entry.own.get(name, 0) for name in added) for label, entry in sums.items()}
    net = {
        label: sum(entry.within.get(name, 0) for name in added) - entry.within.get(of.released, 0)
        for label, entry in sums.items()
    }
    whole = sum(own.values())
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
    return View(_TITLES[of], (*_GROWTH, _named(by)), rows, notes)


_STATE_COLUMNS = (
    Column("on_cpu_ns", "time_ns", "On CPU", width=9),
    Column("runnable_ns", "time_ns", "Runnable", width=9),
    Column("sleeping_ns", "time_ns", "Sleeping", width=9),
    Column("disk_ns", "time_ns", "Disk", width=9),
    Column("error_ns", "time_ns", "Error", width=9),
    Column("looks", "int", "Looks"),
)


def states(
    samples: Sequence[Seen], by: By, gpu_ns: dict[str, float] | None, notes: Sequence[str]
) -> View:
    """What threads were seen to do, those seen most first.

    Args:
        gpu_ns: of each row the time in calls that wait for a GPU, as CUPTI measured it; None if
            there are none.
    """
    sums = _sums(samples, by)
    looks = {label: sum(entry.count.values()) for label, entry in sums.items()}
    whole = sum(looks.values())
    time_ns = {label: sum(entry.own.values()) for label, entry in sums.items()}
    all_ns = sum(time_ns.values())
    rows: list[tuple[Cell, ...]] = []
    for label in sorted(sums, key=lambda label: (-time_ns[label], label)):
        if not looks[label] and not (gpu_ns or {}).get(label):
            continue
        own = sums[label].own
        error = all_ns * math.sqrt(looks[label] * (whole - looks[label]) / whole**3) if whole else 0
        waits = () if gpu_ns is None else (gpu_ns.get(label),)
        rows.append(
            (*(int(own.get(state, 0)) for state in STATES), int(error), looks[label], *waits, label)
        )
    gpu = () if gpu_ns is None else (Column("gpu_wait_ns", "time_ns", "GPU wait", width=9),)
    return View("WORKING OR WAITING (sampled)", (*_STATE_COLUMNS, *gpu, _named(by)), rows, notes)


def gpu_waits(samples: Iterable[Seen], by: By) -> dict[str, float]:
    """The time of calls that wait for a GPU, by the row of the routine that called them."""
    time_of: dict[str, float] = {}
    for seen in samples:
        label = labels(by, seen.thread, seen.path[1:])[0]
        time_of[label] = time_of.get(label, 0) + seen.total
    return time_of


def _named(by: By) -> Column:
    return Column(by, heading={"callpath": "Call path"}.get(by, by.capitalize()))
