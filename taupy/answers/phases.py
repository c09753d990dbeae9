"""Show where the time of a training goes: data, forward, backward, optimizer, ...

    taupy phases                      the trial stored last
    taupy phases 12
    taupy phases --by rank            one table for each rank, with all its threads
    taupy phases --by layer           one table for each layer of a network
    taupy phases --by step            the phases of the first and last steps, and of outliers

Times add up to the time of the thread, or of all host threads of a rank, node or trial;
`(no phase)` is the time outside all known phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from taupy.answers import answer
from taupy.answers.answer import Nothing
from taupy.answers.steps import WHICH, notable, title
from taupy.model import options
from taupy.model.profile import Steps
from taupy.model.question import Label
from taupy.model.rows import ThreadRow
from taupy.model.step_times import quantile, step_times
from taupy.model.table import Table
from taupy.network import phase_sums
from taupy.network.phase_sums import NO_PHASE, Sum
from taupy.network.phases import APART, KINDS, kind_of
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.profiledb import gpu_query, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import heading
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values
from taupy.units import several

_NO_LAYER = "(no layer)"
_COLUMNS = (
    Column("share_percent", "percent", "%Time", width=5),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("calls", "int", "Calls"),
    Column("per_step_ns", "time_ns", "Per step", width=9),
    Column("p50_ns", "time_ns", "p50", width=9),
    Column("p95_ns", "time_ns", "p95", width=9),
    answer.column_of("phase"),
)

_STEP_COLUMNS = (
    *WHICH,
    *(column for column in _COLUMNS if column.name in ("share_percent", "time_ns", "per_step_ns")),
    answer.column_of("phase"),
)

By = Literal["thread", "rank", "node", "trial", "phase", "layer", "layer_type", "step"]


@dataclass(frozen=True)
class Options(options.Asked):
    by: By = options.by(get_args(By), "one table for each")
    whole: bool = options.whole("by step: every step")


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each label of a dimension; by phase, one; by step, one for each series."""
    series = steps_of(db, trial)
    if options.by == "step":
        if not series:
            raise Nothing(f"trial {trial} has no steps: see docs/steps.md")
        return [_of_steps(*of_thread, options.whole) for of_thread in series]
    by = "trial" if options.by == "phase" else options.by
    tables = []
    if any(map(kind_of, query.group_names(db, trial))):  # else no call path is in a phase
        tables = _of_run(values(db, phase_sums.question(trial, by)), series, by)
    if not tables:
        raise Nothing(
            f"trial {trial} has no known phases: it imported nothing and trained nothing with "
            "PyTorch, or it was recorded by an older taupy; see docs/phases.md"
        )
    if tuned := gpu_query.autotuning(db, trial):
        tables[-1] = replace(tables[-1], notes=[*tables[-1].notes, tuned])
    return answer.with_remarks(db, trial, tables)


def _of_run(table: Table, series: Iterable[tuple[ThreadRow, Steps]], by: str) -> list[View]:
    """One table for each label with a phase of training, the longest training first.

    Args:
        table: the answer to `phase_sums.question`.
        series: steps of threads that have some; those of validation are ignored.
        by: the dimension of the labels. Only threads have percentiles, as only they have steps.
    """
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


def _of_steps(thread: ThreadRow, steps: Steps, whole: bool) -> View:
    """One row for each phase of each step; the rows of a step add up to its time.

    Args:
        whole: show all steps; otherwise the first, the last, and the slowest outliers.
    """
    chosen = range(len(steps)) if whole else notable(steps, step_times(steps))
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
        notes.append(f"{len(chosen)} of {len(steps)} rows of steps shown; --all shows them all")
    has_several = max(steps.count, default=1) > 1
    view = View(f"PHASES BY STEP, {title(thread, steps)}", _STEP_COLUMNS, rows, notes)
    return view.only(lambda column, _: has_several or column.name not in _OF_SEVERAL)


_OF_SEVERAL = ("steps", "per_step_ns")
"""Columns that say something only of rows that stand for several steps."""


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
        (phase, begins), (_, entered) = (
            phase_sums.row_phases(table, labels),
            phase_sums.by_kind(table),
        )
        rows_of: dict[Label, list[int]] = {}
        for row, label in enumerate(labels):
            rows_of.setdefault(label, []).append(row)
        for label, rows in rows_of.items():
            part = table.taken(rows)
            mine = [phase[row] for row in rows], [begins[row] for row in rows]
            sums, _ = phase_sums.summed(part, *mine)
            if label is not None and not sums[NO_PHASE].time:
                del sums[NO_PHASE]
            yield _NO_LAYER if label is None else label, part, (sums, entered)
    else:
        for label, part in table.parts(by).items():
            yield label, part, phase_sums.by_kind(part)


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
        for kind, sums_of_kind in sums.items()
    ]
    count = "no steps: no optimizer of a known framework was called"
    count = several(steps, "step") if steps else count
    kind: Kind = "text" if by in ("layer", "layer_type") else "int"
    columns = (*(Column(name, kind, audience="machines") for name in names), *_COLUMNS)
    return View(f"{heading(by).upper()} {title} ({count})", columns, rows)


def _percentiles(training: Steps | None, kind: str) -> tuple[float | None, float | None]:
    """Median and 95th percentile of the time in a phase per step [ns]; None if no step has it."""
    # What is in no phase is known of steps whose phases are.
    if training is None or not (training.phases if kind == NO_PHASE else kind in training.phases):
        return None, None
    if kind == NO_PHASE:
        columns = zip(training.time_ns, *training.phases.values(), strict=True)
        times = [max(0, time - sum(phases)) for time, *phases in columns]
    else:
        times = [*training.phases[kind]]
    per_step = [time / count for time, count in zip(times, training.count, strict=True)]
    return quantile(per_step, 0.5), quantile(per_step, 0.95)
