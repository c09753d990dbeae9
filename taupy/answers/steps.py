"""Show the steps of a training: time, phases, samples per second, and logged values.

    taupy steps                       the first and last steps, and outliers
    taupy steps 12 --all              every step
    taupy steps --csv                 every step, for other tools
    taupy steps --kind validation     validation steps only
    taupy steps --metric cpu_time     what every step used of another metric

A step is one iteration: it ends when the next batch is fetched after the optimizer's step. See
docs/steps.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from taupy.answers.answer import Nothing
from taupy.model import options
from taupy.model.kinds import StepKind
from taupy.model.metric import CPU_TIME, RUN_DELAY
from taupy.model.options import option
from taupy.model.profile import TIME, UNKNOWN, Metric, Steps
from taupy.model.rows import ThreadRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.model.step_times import TOKENS, StepTimes, step_times
from taupy.network import steps as recorded
from taupy.network.phases import KINDS
from taupy.pprof.view import Audience, Cell, Column, View
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import not_of_steps, steps_of
from taupy.units import duration, rate, several

_ENDS, _OUTLIERS = 3, 10
"""Number of rows at either end, and of outliers, shown unless all are requested."""
WHICH = (
    Column("node", "int", audience="machines"),
    Column("thread", "int", audience="machines"),
    Column("kind", audience="machines"),
    Column("step", "int", "Step"),
    Column("steps", "int", "Steps"),
)
"""The columns that tell which step a row is, or which steps."""
PLACE = (
    *WHICH,
    Column("start_ns", "int", audience="machines"),
    Column("time_ns", "time_ns", "Time", width=9),
    Column("longest_ns", "time_ns", audience="machines"),
)
_MEMORY = {
    RESIDENT: Column("memory_bytes", "bytes", "Memory"),
    CUDA_ALLOCATED: Column("gpu_memory_bytes", "bytes", "GPU memory"),
}
_RATES = (
    Column("samples", "int", audience="machines"),
    Column("samples_per_second", "rate", "Samples/s"),
    Column("tokens_per_second", "rate", "Tokens/s"),
)


@dataclass(frozen=True)
class Options(options.Asked):
    whole: bool = options.whole("every step, not only unusual ones")
    kind: StepKind | None = option(None, "steps of this kind", choices=get_args(StepKind))
    metric: str | None = option(
        None, "what each step used of this metric (default: time)", metavar="NAME", is_text=True
    )


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each series of steps.

    Raises:
        TaupyError: no step has the metric.
    """
    metric = TIME
    if options.metric is not None:
        metric = metrics.resolve(db, trial, options.metric, of_steps=True).metric
    chosen = [of for of in steps_of(db, trial) if options.kind in (None, of[1].kind)]
    if not chosen:
        raise Nothing(
            f"trial {trial} has no steps{f' of {options.kind}' if options.kind else ''}: no "
            "optimizer of PyTorch was called, or it was measured by the plain engine or an "
            "older taupy; a program can mark its steps itself: see docs/steps.md"
        )
    if metric != TIME:
        return _of_metric(metric, chosen)
    facts = {fact.name: str(fact.value) for fact in query.trial_metadata(db, trial)}
    tokens = facts.get(recorded.TOKENS, "")
    return [_view(*of_thread, whole=options.whole, tokens=tokens) for of_thread in chosen]


def _of_metric(metric: Metric, chosen: list[tuple[ThreadRow, Steps]]) -> list[View]:
    measured = dict.fromkeys(name for _, series in chosen for name in series.metrics)
    if metric.name not in measured:
        raise not_of_steps(metric.name, measured)
    having = [of for of in chosen if metric.name in of[1].metrics]
    return [_metric_view(*of_thread, metric) for of_thread in having]


def _view(thread: ThreadRow, steps: Steps, *, whole: bool = True, tokens: str = "") -> View:
    """The table of one series.

    Args:
        whole: show all rows; otherwise the first, the last, and the slowest outliers.
        tokens: what was counted as tokens.
    """
    times = step_times(steps)
    rows = range(len(steps)) if whole else notable(steps, times)
    columns = (*_columns(steps), Column("mark", heading="Mark"))
    cells = [[*_cells(thread, steps, row), times.marks[row]] for row in rows]
    notes = [*_notes(steps, times, len(rows)), *_of_tokens(steps, tokens)]
    return View(title(thread, steps), columns, cells, notes).only(is_shown)


def title(thread: ThreadRow, steps: Steps) -> str:
    """What the steps of a series are, and of which thread."""
    place = f"{thread.node}.{thread.context}.{thread.thread}: {thread.name}"
    return f"{steps.kind.upper()} OF THREAD {place}"


def _metric_view(thread: ThreadRow, steps: Steps, metric: Metric) -> View:
    """What the thread used in each step, of a metric that is known of some."""
    place = thread.node, thread.thread, steps.kind
    values = map(_amount, steps.metrics[metric.name])
    times = steps.start_ns, steps.time_ns, steps.longest_ns
    rows = zip(steps.number, steps.count, *times, values, strict=True)
    cells: list[list[Cell]] = [[*place, *row] for row in rows]
    columns = [*PLACE, _metric_column(metric.name, metric.unit)]
    return View(f"{metric.name.upper()} OF {title(thread, steps)}", columns, cells).only(is_shown)


def _metric_column(name: str, unit: str = "") -> Column:
    if name in (CPU_TIME.name, RUN_DELAY.name):
        return Column(f"{name}_ns", "time_ns", name.replace("_", " ").capitalize(), width=9)
    return Column(name, "tau_count", f"{name}\n{unit}".strip())


def memory(thread: ThreadRow, steps: Steps, event: str) -> View:
    """The memory of each step, an event of `_MEMORY`, and its growth since the previous step."""
    place = _view(thread, steps).only(lambda column, _: column.name in _OF_MEMORY)
    amounts = [_bytes(value) for value in steps.values[event]]
    rows: list[list[Cell]] = []
    for cells, before, amount in zip(place.rows, [None, *amounts], amounts, strict=False):
        more = None if before is None or amount is None else amount - before
        rows.append([*cells, amount, more])
    columns = (*place.columns, _MEMORY[event], Column("growth_bytes", "bytes", "More"))
    return View(f"MEMORY OF {place.title}", columns, rows)


_OF_MEMORY = ("node", "thread", "kind", "step", "steps", "start_ns", "time_ns")


def _columns(steps: Steps) -> list[Column]:
    phases = [
        Column(f"{kind}_ns", "time_ns", kind.capitalize(), width=9, spare=kind in _SPARE)
        for kind in KINDS
        if kind in steps.phases
    ]
    who: Audience = "all" if phases else "machines"  # without phases it is the whole time
    other = Column("other_ns", "time_ns", "Other", audience=who, width=9)
    memory = [column for name, column in _MEMORY.items() if name in steps.values]
    used = [replace(_metric_column(name), audience="machines") for name in steps.metrics]
    taken = {column.name for column in (*PLACE, *phases, other, *memory, *_RATES, *used)}
    taken |= {"mark"}
    values = [
        Column(f"logged {name}" if name in taken else name, "tau_count", name, spare=at >= 3)
        for at, name in enumerate(_value_names(steps))
    ]
    return [*PLACE, *phases, other, *_RATES, *memory, *values, *used]


_SPARE = frozenset(("loss", "recompute", "scaling", "communication", "checkpoint", "compile"))


def _value_names(steps: Steps) -> list[str]:
    """Losses first, then in the order in which they were logged."""
    names = (name for name in steps.values if name not in _MEMORY)
    return sorted(names, key=lambda name: "loss" not in name.lower())


def is_shown(column: Column, cells: Iterator[Cell]) -> bool:
    """Whether a column of a table of steps says anything."""
    if column.name == "steps":
        return any(cell != 1 for cell in cells)
    optional = column.name in _OPTIONAL or column.name.endswith("_per_second")
    return not optional or any(cell not in (None, "") for cell in cells)


_OPTIONAL = ("samples", "mark", "runnable_ns")


def _cells(thread: ThreadRow, steps: Steps, row: int) -> list[Cell]:
    time = steps.time_ns[row]
    phases = [column[row] for kind in KINDS if (column := steps.phases.get(kind)) is not None]
    samples = None if steps.samples[row] == UNKNOWN else steps.samples[row]
    tokens = steps.values.get(TOKENS)
    return [
        *(thread.node, thread.thread, steps.kind, steps.number[row], steps.count[row]),
        *(steps.start_ns[row], time, steps.longest_ns[row]),
        *(phase or None for phase in phases),
        max(0, time - sum(phases)),
        *(samples, _rate(samples, time), _rate(None if tokens is None else tokens[row], time)),
        *(_bytes(steps.values[name][row]) for name in _MEMORY if name in steps.values),
        *(_number(steps.values[name][row]) for name in _value_names(steps)),
        *(_amount(column[row]) for column in steps.metrics.values()),
    ]


def _bytes(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _amount(value: float) -> float | None:
    """A metric's value; nanoseconds and events are whole."""
    return int(value) if value.is_integer() else _number(value)


def _rate(amount: float | None, time_ns: float) -> float | None:
    is_known = amount is not None and not math.isnan(amount) and time_ns > 0
    return amount / time_ns * 1e9 if is_known and amount is not None else None


def notable(steps: Steps, times: StepTimes, among: Sequence[int] | None = None) -> list[int]:
    """The rows that people see: the first, the last, and the slowest outliers.

    Args:
        among: choose from these rows, in their order; None for all.
    """
    rows = range(len(steps)) if among is None else among
    outliers = [row for row in rows if times.marks[row] == "outlier"]
    slowest = sorted(outliers, key=lambda row: -steps.time_ns[row])[:_OUTLIERS]
    return sorted({*rows[:_ENDS], *rows[-_ENDS:], *slowest})


def _of_tokens(steps: Steps, tokens: str) -> list[str]:
    return [f"tokens: {tokens}"] if tokens and TOKENS in steps.values else []


def _notes(steps: Steps, times: StepTimes, shown: int) -> list[str]:
    count, warm = sum(steps.count), times.marks.count("warm-up")
    outliers = times.marks.count("outlier")
    text = f"{several(count, 'step')} in {duration(sum(steps.time_ns))}"
    text += f": median {duration(times.median_ns)}, 95 % within {duration(times.p95_ns)}"
    if times.per_second:
        text += f"; {rate(times.per_second)} steps/s"
    if times.samples_per_second:
        text += f", {rate(times.samples_per_second)} samples/s"
    if times.tokens_per_second:
        text += f", {rate(times.tokens_per_second)} tokens/s"
    text += f", without {warm} of warm-up" if warm else ""
    notes = [text + (f"; outliers: {outliers}" if outliers else "")]
    if shown < len(steps):
        notes.append(f"{shown} of {len(steps)} rows shown; --all shows them all")
    if max(steps.count) > 1:
        notes.append(
            f"a row covers up to {max(steps.count)} steps, with the sum of their times: there "
            "were more than 16384; median and 95 % are of their means"
        )
    return notes
