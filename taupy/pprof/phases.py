"""Training phases: where a thread's time goes, by kind.

A moment belongs to the nearest phase above it, so the times of all kinds and of `(no phase)` add
up to the thread's time. The forward pass inside a backward pass is a recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from taupy.model import callpaths
from taupy.model.forest import preorder
from taupy.model.profile import Steps
from taupy.model.question import Condition, Label, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.step_times import quantile
from taupy.model.table import Table
from taupy.network.phases import KINDS, STEP, kind_of, meant
from taupy.pprof.view import Cell, Column, View

NO_PHASE = "(no phase)"
BYS = ("thread", "rank", "node", "trial")
"""Dimensions by which tables can be split, with one table per label."""

_TREE = ("thread", "callpath", "parent", "timer")
_COLUMNS = (
    Column("share_percent", "percent", "%Time", width=5),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("calls", "int", "Calls"),
    Column("per_step_ns", "time_ns", "Per step", width=9),
    Column("p50_ns", "time_ns", "p50", width=9),
    Column("p95_ns", "time_ns", "p95", width=9),
    Column("phase", heading="Phase"),
)


class Sum(NamedTuple):
    """Time [ns] and entries of one kind; `calls` is None for time outside phases."""

    time: float
    calls: int | None


def question(trial: int, by: str = "thread") -> Question:
    """What `views` needs: the call trees of all host threads.

    Args:
        by: one of `BYS`.
    """
    host = Condition("kind", ("host",))
    return Question((trial,), by=tuple({*_TREE, by}), where=(host,), values=("calls", "exclusive"))


def views(
    table: Table, series: Iterable[tuple[ThreadRow, Steps]] = (), by: str = "thread"
) -> list[View]:
    """One table for each label with a phase of training, the longest training first.

    Args:
        table: the answer to `question`.
        series: steps of threads that have some; those of validation are ignored.
        by: the dimension of the labels. Only threads have percentiles, as only they have steps.
    """
    training = {thread[:3]: steps for thread, steps in series if steps.kind == "training"}
    by_time = []
    for label, part in table.parts(by).items():
        sums, entered = by_kind(part)
        threads = {thread[:3] for thread in part.row_labels("thread")}
        steps = [training[thread] for thread in sorted(threads & training.keys())]
        if len(sums) > 1:
            count = sum(sum(of_thread.count) for of_thread in steps) or entered
            own = steps[0] if steps and by == "thread" else None
            by_time.append((_trained(sums), _view(by, label, sums, count, own)))
    by_time.sort(key=lambda pair: -pair[0])
    return [view for _, view in by_time]


def by_kind(table: Table) -> tuple[dict[str, Sum], int]:
    """The sums of each kind, and the number of steps, of one thread."""
    timers: Sequence[TimerRow] = table.labels["timer"]
    phase, begins = _phases(table, [kind_of(timer.groups) for timer in timers])
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys((NO_PHASE, *phase)))}
    groups = [numbers[kind] for kind in phase]
    times = table.summed(groups, len(numbers))[table.named("exclusive", "time")]
    entered = [group if begun else -1 for group, begun in zip(groups, begins, strict=True)]
    calls = table.summed(entered, len(numbers))[table.named("calls")]
    sums = {
        kind: Sum(time or 0, None if kind == NO_PHASE else int(count or 0))
        for kind, time, count in zip(numbers, times, calls, strict=True)
    }
    is_step = [timer.short_name.startswith(STEP) for timer in timers]
    steps = table.taken([row for row, code in enumerate(table.codes["timer"]) if is_step[code]])
    return sums, int(steps.by().column("calls")[0] or 0) if len(steps) else 0


def _phases(table: Table, kinds: Sequence[str | None]) -> tuple[list[str], list[bool]]:
    """The phase of each row, and whether it begins there."""
    parent = callpaths.parents(table)
    inside: list[frozenset[str]] = [frozenset()] * table.size
    phase, begins = [NO_PHASE] * table.size, [False] * table.size
    for row in preorder(parent):
        above = parent[row]
        if above >= 0:
            phase[row], inside[row] = phase[above], inside[above]
        kind = meant(kinds[table.codes["timer"][row]], inside[row])
        if kind is not None:
            begins[row] = kind != phase[row]
            phase[row], inside[row] = kind, inside[row] | {kind}
    return phase, begins


def _trained(sums: dict[str, Sum]) -> float:
    """Time in phases other than imports [ns]."""
    return sum(
        sums_of_kind.time for kind, sums_of_kind in sums.items() if kind not in (NO_PHASE, "import")
    )


def _view(
    by: str, label: Label | ThreadRow, sums: dict[str, Sum], steps: int, training: Steps | None
) -> View:
    whole = sum(sums_of_kind.time for sums_of_kind in sums.values())
    names: tuple[str, ...] = (by,)
    place: tuple[Cell, ...]
    title = str(label)
    if isinstance(label, ThreadRow):
        names, place = ("node", "thread"), (label.node, label.thread)
        title = f"{label.node}.{label.context}.{label.thread}: {label.name}"
    else:
        place = (label,)
    rows = [
        (
            *place,
            100 * sums_of_kind.time / whole if whole else None,
            *(sums_of_kind.time, sums_of_kind.calls),
            sums_of_kind.time / steps if steps else None,
            *_percentiles(training, kind),
            kind,
        )
        for kind in (*KINDS, NO_PHASE)
        if (sums_of_kind := sums.get(kind)) is not None
    ]
    count = f"{steps} steps" if steps else "no steps: no optimizer of a known framework was called"
    columns = (*(Column(name, "int", audience="machines") for name in names), *_COLUMNS)
    return View(f"{by.upper()} {title} ({count})", columns, rows)


def _percentiles(training: Steps | None, kind: str) -> tuple[float | None, float | None]:
    """Median and 95th percentile of the time in a phase per step [ns]; None if no step has it."""
    if training is None or (kind != NO_PHASE and kind not in training.phases):
        return None, None
    if kind == NO_PHASE:
        columns = zip(training.time_ns, *training.phases.values(), strict=True)
        times = [max(0, time - sum(phases)) for time, *phases in columns]
    else:
        times = [*training.phases[kind]]
    per_step = [time / count for time, count in zip(times, training.count, strict=True)]
    return quantile(per_step, 0.5), quantile(per_step, 0.95)
