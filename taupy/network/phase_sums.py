"""Phases of call trees: the time in each kind of phase, and the phase of each call path.

A moment belongs to the nearest phase above it, so the times of all kinds and of `(no phase)` add
up to the thread's time. The forward pass inside a backward pass is a recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import compress
from operator import add

from taupy.dataclass import NamedTuple
from taupy.model import callpaths
from taupy.model.forest import callers_first
from taupy.model.question import Condition, Label, Question
from taupy.model.table import Table
from taupy.model.timer_columns import TimerColumns
from taupy.network.phase_paths import Within, phase_in
from taupy.network.phases import APART, KINDS, STEP, kind_of

NO_PHASE = "(no phase)"
_TREE = ("thread", "callpath", "parent", "timer")


class Sum(NamedTuple):
    """Time [ns] and entries of one kind; `calls` is None for time outside phases."""

    time: float
    calls: int | None


def question(trial: int, by: str = "thread") -> Question:
    """The call trees of all host threads, also by this dimension."""
    host = Condition("kind", ("host",))
    return Question((trial,), by=tuple({*_TREE, by}), where=(host,), values=("calls", "exclusive"))


def by_kind(table: Table) -> tuple[dict[str, Sum], int]:
    """The sums of each kind, in the order of kinds, and the number of steps, of one thread."""
    return summed(table, *row_phases(table))


def summed(
    table: Table, phase: Sequence[str], begins: Sequence[bool]
) -> tuple[dict[str, Sum], int]:
    timers = TimerColumns.of(table.labels["timer"])
    exclusive = table.column("exclusive", "time")
    times = {
        kind: reduce(add, filter(None, compress(exclusive, map(kind.__eq__, phase))), 0)
        for kind in dict.fromkeys((NO_PHASE, *phase))
    }
    calls: dict[str, float] = dict.fromkeys(times, 0)
    for kind, count in compress(zip(phase, table.column("calls"), strict=True), begins):
        calls[kind] += count or 0
    sums = {
        kind: Sum(times[kind], None if kind == NO_PHASE else int(calls[kind]))
        for kind in (*KINDS, *APART, NO_PHASE)
        if kind in times
    }
    is_step = [name.startswith(STEP) for name in timers.short_names]
    of_rows = map(is_step.__getitem__, table.codes["timer"])
    steps = table.taken([*compress(range(table.size), of_rows)])
    return sums, int(steps.by().column("calls")[0] or 0) if len(steps) else 0


def row_phases(table: Table, labels: Sequence[Label] | None = None) -> tuple[list[str], list[bool]]:
    """The phase of each row, and whether it begins there.

    Args:
        labels: of the rows; a phase also begins where another label does.
    """
    groups = TimerColumns.of(table.labels["timer"]).groups
    kinds = {of_timers: kind_of(of_timers) for of_timers in {*groups}}
    is_phase = [kinds[of_timer] is not None for of_timer in groups]
    phase, begins = [NO_PHASE] * table.size, [False] * table.size
    if not any(is_phase):
        return phase, begins
    parent = callpaths.parents(table)
    within: list[Within | None] = [None] * table.size
    codes = table.codes["timer"]
    for row in callers_first(parent):
        above, code = parent[row], codes[row]
        around = within[above] if above >= 0 else None
        within[row] = here = phase_in(around, groups[code]) if is_phase[code] else around
        if here is not None:
            phase[row] = here.kind
            begins[row] = around is None or here.kind != around.kind
        if labels is not None and (above < 0 or labels[row] != labels[above]):
            begins[row] = phase[row] != NO_PHASE
    return phase, begins
