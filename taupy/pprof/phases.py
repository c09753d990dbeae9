"""Training phases: where a thread's time goes, by kind.

A moment belongs to the nearest phase above it, so the times of all kinds and of `(no phase)` add
up to the thread's time. The forward pass inside a backward pass is a recomputation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from taupy.model import callpaths
from taupy.model.forest import preorder
from taupy.model.profile import Steps
from taupy.model.question import Condition, Label, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.step_times import quantile, step_times
from taupy.model.table import Table
from taupy.network.phase_paths import Within, phase_in
from taupy.network.phases import APART, KINDS, STEP
from taupy.pprof import steps as steps_views
from taupy.pprof.view import Cell, Column, Kind, View

NO_PHASE, NO_LAYER = "(no phase)", "(no layer)"
STEP_BY_STEP = "step"
ALL = "phase"
BYS = ("thread", "rank", "node", "trial", ALL, "layer", "layer_type", STEP_BY_STEP)
"""Dimensions by which tables can be split, with one table per label; by phase, there is one table;
by step, one for each series of steps (`by_step`)."""

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

_STEP_COLUMNS = (
    *steps_views.WHICH,
    *(column for column in _COLUMNS if column.name in ("share_percent", "time_ns", "per_step_ns")),
    Column("phase", heading="Phase"),
)


class Sum(NamedTuple):
    """Time [ns] and entries of one kind; `calls` is None for time outside phases."""

    time: float
    calls: int | None


def question(trial: int, by: str = "thread") -> Question:
    """What `views` needs: the call trees of all host threads.

    Args:
        by: one of `BYS`, except `step`.
    """
    host = Condition("kind", ("host",))
    by = "trial" if by == ALL else by
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
    by = "trial" if by == ALL else by
    training = {thread[:3]: steps for thread, steps in series if steps.kind == "training"}
    by_time = []
    for label, part, (sums, entered) in _parts(table, by):
        threads = {thread[:3] for thread in part.row_labels("thread")}
        steps = [training[thread] for thread in sorted(threads & training.keys())]
        if sums.keys() - {NO_PHASE, *APART}:
            count = sum(sum(of_thread.count) for of_thread in steps) or entered
            own = steps[0] if steps and by == "thread" else None
            by_time.append((_trained(sums), _view(by, label, sums, count, own)))
    by_time.sort(key=lambda pair: -pair[0])
    return [view for _, view in by_time]


def by_step(series: Iterable[tuple[ThreadRow, Steps]], *, whole: bool = True) -> list[View]:
    """For each series, one row for each phase of each step; the rows of a step add up to its time.

    Args:
        whole: show all steps; otherwise the first, the last, and the slowest outliers.
    """
    return [_of_steps(thread, steps, whole) for thread, steps in series]


def _of_steps(thread: ThreadRow, steps: Steps, whole: bool) -> View:
    chosen = range(len(steps)) if whole else steps_views.chosen(steps, step_times(steps))
    rows = [
        (
            *(thread.node, thread.thread, steps.kind, steps.number[row], steps.count[row]),
            100 * time / steps.time_ns[row] if steps.time_ns[row] else None,
            *(time, time / steps.count[row], kind),
        )
        for row in chosen
        for kind, time in _of_step(steps, row)
    ]
    notes = []
    if len(chosen) < len(steps):
        notes.append(f"{len(chosen)} of {len(steps)} rows of steps are shown; --all shows them all")
    several = max(steps.count, default=1) > 1
    kept = [at for at, column in enumerate(_STEP_COLUMNS) if several or not _of_several(column)]
    return View(
        f"PHASES BY STEP, {steps_views.title(thread, steps)}",
        [_STEP_COLUMNS[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        notes,
    )


def _of_several(column: Column) -> bool:
    """Whether it says something only of rows that stand for several steps."""
    return column.name in ("steps", "per_step_ns")


def _of_step(steps: Steps, row: int) -> Iterator[tuple[str, int]]:
    """The phases of a step with their times, and the rest."""
    rest = steps.time_ns[row]
    for kind in KINDS:
        if time := steps.phases[kind][row] if kind in steps.phases else 0:
            rest -= time
            yield kind, time
    if rest > 0:
        yield NO_PHASE, rest


def _parts(
    table: Table, by: str
) -> Iterator[tuple[Label | ThreadRow, Table, tuple[dict[str, Sum], int]]]:
    """Each label with its part of the table, and with the sums of that part."""
    labels = table.row_labels(by)
    if by in ("layer", "layer_type"):  # a phase may begin in the layers around
        (phase, begins), (_, entered) = of_rows(table, labels), by_kind(table)
        rows_of: dict[Label, list[int]] = {}
        for row, label in enumerate(labels):
            rows_of.setdefault(label, []).append(row)
        for label, rows in rows_of.items():
            part = table.taken(rows)
            mine = [phase[row] for row in rows], [begins[row] for row in rows]
            sums, _ = _summed(part, *mine)
            if label is not None and not sums[NO_PHASE].time:
                del sums[NO_PHASE]
            yield NO_LAYER if label is None else label, part, (sums, entered)
    else:
        for label, part in table.parts(by).items():
            yield label, part, by_kind(part)


def by_kind(table: Table) -> tuple[dict[str, Sum], int]:
    """The sums of each kind, and the number of steps, of one thread."""
    return _summed(table, *of_rows(table))


def _summed(
    table: Table, phase: Sequence[str], begins: Sequence[bool]
) -> tuple[dict[str, Sum], int]:
    timers: Sequence[TimerRow] = table.labels["timer"]
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


def of_rows(table: Table, labels: Sequence[Label] | None = None) -> tuple[list[str], list[bool]]:
    """The phase of each row, and whether it begins there.

    Args:
        labels: of the rows; a phase also begins where another label does.
    """
    groups = [timer.groups for timer in table.labels["timer"]]
    parent = callpaths.parents(table)
    within: list[Within | None] = [None] * table.size
    phase, begins = [NO_PHASE] * table.size, [False] * table.size
    for row in preorder(parent):
        above = parent[row]
        around = within[above] if above >= 0 else None
        within[row] = here = phase_in(around, groups[table.codes["timer"][row]])
        if here is not None:
            phase[row] = here.kind
            begins[row] = around is None or here.kind != around.kind
        if labels is not None and (above < 0 or labels[row] != labels[above]):
            begins[row] = phase[row] != NO_PHASE
    return phase, begins


def _trained(sums: dict[str, Sum]) -> float:
    """Time in phases other than imports and the exit [ns]."""
    others = (NO_PHASE, "import", *APART)
    return sum(of_kind.time for kind, of_kind in sums.items() if kind not in others)


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
        for kind in (*KINDS, *APART, NO_PHASE)
        if (sums_of_kind := sums.get(kind)) is not None
    ]
    count = f"{steps} steps" if steps else "no steps: no optimizer of a known framework was called"
    kind: Kind = "text" if by in ("layer", "layer_type") else "int"
    columns = (*(Column(name, kind, audience="machines") for name in names), *_COLUMNS)
    return View(f"{by.upper().replace('_', ' ')} {title} ({count})", columns, rows)


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
