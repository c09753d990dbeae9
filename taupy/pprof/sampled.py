"""Samples at call paths, by routine, phase, layer or call path: growth of memory, and whether
threads worked or waited.

Each sample belongs to the innermost routine, so own values of all rows add up to the whole; samples
that no routine, phase or layer owns have a row of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from taupy.model.sampled import CUDA, HOST, STATES, MemoryEvents
from taupy.pprof.view import Cell, Column, View

BETWEEN_LOOKS = "(growth between looks)"
APART = {events.between: BETWEEN_LOOKS for events in (HOST, CUDA)}
"""Growth known only to lie within certain routines has a row of its own."""

_KIB = 1024
_MUCH = 0.1  # of the growth


class Sampled(Protocol):
    """The samples of one row, as `profiledb.sampled` returns them, by event: number, own total,
    and total including callees."""

    @property
    def count(self) -> Mapping[str, int]: ...
    @property
    def own(self) -> Mapping[str, float]: ...
    @property
    def within(self) -> Mapping[str, float]: ...


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


def growth(
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
            "short ones took turns: it is in the `Net` of their callers",
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
    sums: Mapping[str, Sampled], by: str, gpu_ns: Mapping[str, float], notes: Sequence[str]
) -> View:
    """The states in which threads were sampled; rows with the most time first.

    Args:
        gpu_ns: for each row, the time in calls that wait for a GPU, as CUPTI measured it; empty if
            there are none.
    """
    looks = {label: sum(entry.count.values()) for label, entry in sums.items()}
    whole = sum(looks.values())
    time_ns = {label: sum(entry.own.values()) for label, entry in sums.items()}
    all_ns = sum(time_ns.values())
    rows: list[tuple[Cell, ...]] = []
    for label in sorted({*sums, *gpu_ns}, key=lambda label: (-time_ns.get(label, 0), label)):
        waits = (gpu_ns.get(label),) if gpu_ns else ()
        if not looks.get(label):  # too short to be sampled
            if gpu_ns.get(label):
                rows.append((*(None for _ in STATES), None, 0, *waits, label))
            continue
        own = sums[label].own
        error = all_ns * math.sqrt(looks[label] * (whole - looks[label]) / whole**3)
        rows.append(
            (*(int(own.get(state, 0)) for state in STATES), int(error), looks[label], *waits, label)
        )
    gpu = (Column("gpu_wait_ns", "time_ns", "GPU wait", width=9),) if gpu_ns else ()
    return View("WORKING OR WAITING (sampled)", (*_STATE_COLUMNS, *gpu, _named(by)), rows, notes)


def _named(by: str) -> Column:
    heading = {"callpath": "Call path", "layer_type": "Class"}.get(by, by.capitalize())
    return Column(by, heading=heading)
