"""Rule: the host waits for the GPU, after which the GPU is idle until the host continues."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings.calls import largest_part, place
from taupy.analysis.findings.gpu_clock import GpuClock, gpu_clock, is_allocation, is_wait
from taupy.analysis.findings.trial import HOST, Trial
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, several

KIND = "synchronisation"
NEEDS = ("host", "gpu", "clock")

LEAST = 0.05
"""Minimum cost of waits beyond the GPU's own work, as a share of the time outside imports. A wait
at the end of each step costs the latency of a launch, less than a percent of a step of some
milliseconds."""


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial)
    if clock is None:
        return
    for matches, what, attempt in (
        (is_wait, "waits for the GPU",
         "read results (.item(), .cpu(), prints) once in many steps, or a step later; use events "
         "for stopwatches"),
        (is_allocation, "allocates and frees GPU memory, which waits for the GPU,",
         "keep the memory and use it again, or allocate from a pool (cudaMallocAsync)"),
    ):  # fmt: skip
        waits = clock.host_calls(matches)
        saved = clock.saved_ns(waits=waits.ns)
        if saved < LEAST * clock.wall_ns:
            continue
        places = _places(clock, waits.rows)
        most = max(places, key=lambda timer: places[timer])
        names = tuple(dict.fromkeys(trial.calls.timer[row].timer for row in waits.rows))
        yield Finding(
            KIND,
            f"the host {what} {count(waits.calls)} times for {duration(waits.ns)}, from "
            f"{several(len(places), 'place')}{largest_part(place(most), places[most], waits.ns)}; "
            f"afterwards the GPU is idle, for {duration(clock.idle_ns)} in all{clock.why_idle}",
            saved_ns=saved,
            wall_ns=trial.wall_ns,
            evidence=(trial.evidence(("callpath", "timer"), (Condition("timer", names), HOST)),),
            confidence="high" if len(places) == 1 else "medium",
            attempt=attempt,
            refuted_by="the results are needed by the host before it can launch anything else",
        )


def _places(clock: GpuClock, rows: tuple[int, ...]) -> dict[TimerRow | None, float]:
    """The time that each of the program's routines waits."""
    waited_ns: dict[TimerRow | None, float] = {}
    for row in rows:
        timer = clock.trial.caller(row)
        waited_ns[timer] = waited_ns.get(timer, 0) + clock.trial.calls.inclusive[row]
    return waited_ns
