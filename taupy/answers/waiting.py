"""Show what threads did: compute, wait for a processor, sleep, or wait for a disk.

    taupy waiting                     the trial stored last
    taupy waiting 12 --by phase       by phase, or by another dimension
    taupy waiting --by step           each step of a training, measured exactly

Sampled by the watch, from outside, except for steps. `taupy run --cpu-time` measures CPU time
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taupy.answers import answer
from taupy.answers.answer import Nothing
from taupy.answers.steps import PLACE, is_shown, notable, title
from taupy.model import options
from taupy.model.metric import CPU_TIME, RUN_DELAY
from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.sampled import STATES
from taupy.model.step_times import step_times
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sampled import BY, Sampled, looks, sampled_by, waits_by
from taupy.profiledb.steps import steps_of
from taupy.units import count, duration, percent, several

_WAITS_FOR_GPU = "GPU_SYNC"
_COLUMNS = (
    Column("on_cpu_ns", "time_ns", "On CPU", width=9, silent_zero=True),
    Column("runnable_ns", "time_ns", "Runnable", width=9, silent_zero=True),
    Column("sleeping_ns", "time_ns", "Sleeping", width=9, silent_zero=True),
    Column("disk_ns", "time_ns", "Disk", width=9, silent_zero=True),
    Column("error_ns", "time_ns", "Error", width=9, silent_zero=True),
    Column("looks", "int", "Looks"),
)
_STEP_COLUMNS = (
    *PLACE,
    Column("on_cpu_ns", "time_ns", "On CPU", width=9, silent_zero=True),
    Column("runnable_ns", "time_ns", "Runnable", width=9, silent_zero=True),
    Column("waiting_ns", "time_ns", "Waiting", width=9, silent_zero=True),
    Column("mark", heading="Mark"),
)
_EXACT = (
    "exact, not sampled: the kernel's own counters, read where each step begins and ends; Runnable "
    "is the wait for a processor, Waiting the rest: sleep, locks, disks, GPUs"
)
_NO_DELAY = "the kernel does not tell how long a thread waits for a processor: Waiting includes it"


@dataclass(frozen=True)
class Options(options.Asked):
    by: str = options.by((*BY, "step"), "one row for each")
    limit: int | None = options.limit()
    whole: bool = options.whole("by step: every step")

    @property
    def alone(self) -> bool:
        return self.by != "step"


PAGES = (Options("thread"), Options("routine"), Options("phase"))


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """What the sampled threads did; by step, measured, one table for each series of steps."""
    if options.by == "step":
        return [view.first(options.limit) for view in _of_steps(db, trial, options)]
    sums = sampled_by(db, trial, STATES, options.by, {})
    number, time_ns = looks(db, trial, STATES)
    gpu_ns = waits_by(db, trial, _WAITS_FOR_GPU, options.by)
    if not number and not gpu_ns:
        raise Nothing(
            f"trial {trial} has no record of what its threads did: it was run without the "
            "watch (docs/watch.md), with the plain engine or with an older taupy, or comes from "
            "another tool"
        )
    view = _states(sums, options.by, gpu_ns, [_looks(number, time_ns)])
    return [view.first(options.limit)]


def _of_steps(db: ProfileDB, trial: int, options: Options) -> list[View]:
    series = steps_of(db, trial)
    if not series:
        raise Nothing(f"trial {trial} has no steps: see docs/steps.md")
    whole = options.whole or options.limit is not None
    tables = [
        _step_view(*of_thread, whole=whole)
        for of_thread in series
        if CPU_TIME.name in of_thread[1].metrics
    ]
    if not tables:
        raise Nothing(
            f"trial {trial} has no CPU time of its steps: it was measured by an older taupy, or "
            "comes from another tool"
        )
    return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, _EXACT])]


def _looks(number: int, time_ns: float) -> str:
    if not number:
        return "threads were not sampled (docs/watch.md): only waits for a GPU are known"
    return (
        f"{count(number)} looks, one per {duration(time_ns / number)} of a thread; the error is "
        "the standard error of a row's time"
    )


def _states(
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
    return View(
        "WORKING OR WAITING (sampled)", (*_COLUMNS, *gpu, answer.column_of(by)), rows, notes
    )


def _step_view(thread: ThreadRow, steps: Steps, *, whole: bool = True) -> View:
    """The table of one series, whose steps must have CPU times.

    Args:
        whole: show all rows; otherwise the first, the last, and the slowest outliers.
    """
    times = step_times(steps)
    unknown = [math.nan] * len(steps)
    delays = steps.metrics.get(RUN_DELAY.name, unknown)
    parts = [
        _parts(*of_row)
        for of_row in zip(steps.time_ns, steps.metrics[CPU_TIME.name], delays, strict=True)
    ]
    rows: list[list[Cell]] = [
        [
            *(thread.node, thread.thread, steps.kind, steps.number[row], steps.count[row]),
            *(steps.start_ns[row], steps.time_ns[row], steps.longest_ns[row]),
            *(*parts[row], times.marks[row]),
        ]
        for row in (range(len(steps)) if whole else notable(steps, times))
    ]
    notes = [_sums(steps, parts)]
    if all(runnable is None for _, runnable, _ in parts):
        notes.append(_NO_DELAY)
    if len(rows) < len(steps):
        notes.append(f"{len(rows)} of {len(steps)} rows shown; --limit N shows the first N")
    name = f"WORKING OR WAITING: {title(thread, steps)}"
    return View(name, _STEP_COLUMNS, rows, notes).only(is_shown)


_Parts = tuple[int | None, int | None, int | None]


def _parts(time: int, cpu: float, delay: float) -> _Parts:
    """Times on a processor, runnable and waiting [ns]; None where unknown."""
    if math.isnan(cpu):
        return None, None, None
    # The step's time and its metrics are read one after the other: they may differ by microseconds.
    computed = min(int(cpu), time)
    if math.isnan(delay):
        return computed, None, time - computed
    runnable = min(int(delay), time - computed)
    return computed, runnable, time - computed - runnable


def _sums(steps: Steps, parts: list[_Parts]) -> str:
    """The sum over all steps of which the parts are known."""
    columns = zip(steps.count, steps.time_ns, parts, strict=True)
    rows = [(number, time, *of_row) for number, time, of_row in columns if of_row[0] is not None]
    number, time, *sums = (
        sum(number or 0 for number in column) for column in zip(*rows, strict=True)
    )
    shares = ", ".join(
        f"{percent(100 * part / time if time else 0)} % {name}"
        for part, name in zip(sums, ("on a CPU", "runnable", "waiting"), strict=True)
    )
    return f"{several(number, 'step')} in {duration(time)}: {shares}"
