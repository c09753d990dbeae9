"""Steps by what their thread did: it computed, waited for a processor, or waited otherwise."""

from __future__ import annotations

import math

from taupy.model.metric import CPU_TIME, RUN_DELAY
from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.step_times import step_times
from taupy.pprof.steps import PLACE, chosen, title
from taupy.pprof.view import Cell, Column, View
from taupy.units import duration, percent, several

_COLUMNS = (
    *PLACE,
    Column("on_cpu_ns", "time_ns", "On CPU", width=9),
    Column("runnable_ns", "time_ns", "Runnable", width=9),
    Column("waiting_ns", "time_ns", "Waiting", width=9),
    Column("mark", heading="Mark"),
)
EXACT = (
    "exact, not sampled: the kernel's own counters, read where each step begins and ends; Runnable "
    "is the wait for a processor, Waiting the rest: sleep, locks, disks, GPUs"
)
_NO_DELAY = "the kernel does not tell how long a thread waits for a processor: Waiting includes it"


def view(thread: ThreadRow, steps: Steps, *, whole: bool = True) -> View:
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
        for row in (range(len(steps)) if whole else chosen(steps, times))
    ]
    shown = [at for at, column in enumerate(_COLUMNS) if _is_shown(column.name, rows, at)]
    notes = [_whole(steps, parts)]
    if all(runnable is None for _, runnable, _ in parts):
        notes.append(_NO_DELAY)
    if len(rows) < len(steps):
        notes.append(f"{len(rows)} of {len(steps)} rows are shown; --limit N shows the first N")
    return View(
        f"WORKING OR WAITING: {title(thread, steps)}",
        [_COLUMNS[at] for at in shown],
        [[row[at] for at in shown] for row in rows],
        notes,
    )


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


def _whole(steps: Steps, parts: list[_Parts]) -> str:
    """The sum over all steps of which the parts are known."""
    columns = zip(steps.count, steps.time_ns, parts, strict=True)
    rows = [(count, time, *of_row) for count, time, of_row in columns if of_row[0] is not None]
    count, time, *sums = (
        sum(number or 0 for number in column) for column in zip(*rows, strict=True)
    )
    shares = ", ".join(
        f"{percent(100 * part / time if time else 0)} % {name}"
        for part, name in zip(sums, ("on a CPU", "runnable", "waiting"), strict=True)
    )
    return f"{several(count, 'step')} in {duration(time)}: {shares}"


def _is_shown(name: str, rows: list[list[Cell]], at: int) -> bool:
    if name == "steps":
        return any(row[at] != 1 for row in rows)
    return name not in ("runnable_ns", "mark") or any(row[at] not in (None, "") for row in rows)
