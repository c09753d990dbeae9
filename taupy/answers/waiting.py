"""Show what threads did: compute, wait for a processor, sleep, or wait for a disk.

    taupy waiting                     the trial stored last
    taupy waiting 12 --by phase       by phase, or by another dimension
    taupy waiting --by step           each step of a training, measured exactly

Sampled by the watch, from outside, except for steps. `taupy run --cpu-time` measures CPU time
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from taupy.answers import answer
from taupy.answers.answer import Nothing
from taupy.model.metric import CPU_TIME
from taupy.model.sampled import STATES
from taupy.pprof import sampled, step_waits
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.sampled import BY, looks, sampled_by, waits_by
from taupy.profiledb.steps import steps_of
from taupy.units import count, duration

_WAITS_FOR_GPU = "GPU_SYNC"


@dataclass(frozen=True)
class Options(answer.Asked):
    by: str = answer.by((*BY, "step"), "one row for each")
    limit: int | None = answer.limit()
    whole: bool = answer.whole("by step: every step")

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
    view = sampled.states(sums, options.by, gpu_ns, [_looks(number, time_ns)])
    return [view.first(options.limit)]


def _of_steps(db: ProfileDB, trial: int, options: Options) -> list[View]:
    series = steps_of(db, trial)
    if not series:
        raise Nothing(f"trial {trial} has no steps: see docs/steps.md")
    whole = options.whole or options.limit is not None
    tables = [
        step_waits.view(*of_thread, whole=whole)
        for of_thread in series
        if CPU_TIME.name in of_thread[1].metrics
    ]
    if not tables:
        raise Nothing(
            f"trial {trial} has no CPU time of its steps: it was measured by an older taupy, or "
            "comes from another tool"
        )
    return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, step_waits.EXACT])]


def _looks(number: int, time_ns: float) -> str:
    if not number:
        return "threads were not sampled (docs/watch.md): only waits for a GPU are known"
    return (
        f"{count(number)} looks, one per {duration(time_ns / number)} of a thread; the error is "
        "the standard error of a row's time"
    )
