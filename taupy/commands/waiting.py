"""Show what threads did: compute, wait for a processor, sleep, or wait for a disk.

    taupy waiting                     the trial stored last
    taupy waiting 12 --by phase       by phase, or by another dimension
    taupy waiting --by step           each step of a training, measured exactly

Sampled by the watch, from outside, except for steps. `taupy run --cpu-time` measures CPU time
exactly.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.model.metric import CPU_TIME
from taupy.model.sampled import STATES
from taupy.pprof import sampled, step_waits, terminal
from taupy.profiledb.sampled import BY, looks, sampled_by, waits_by
from taupy.profiledb.steps import steps_of
from taupy.units import count, duration

_WAITS_FOR_GPU = "GPU_SYNC"
_STEP = "step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    options.add_by_argument(parser, (*BY, _STEP), "one row for each")
    options.add_limit_argument(parser)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.by == _STEP:
        return _of_steps(args)
    with running.selected_trial(args) as (db, trial):
        sums = sampled_by(db, trial.id, STATES, args.by, {})
        number, time_ns = looks(db, trial.id, STATES)
        gpu_ns = waits_by(db, trial.id, _WAITS_FOR_GPU, args.by)
    if not number and not gpu_ns:
        raise UsageError(
            f"trial {trial.id} has no record of what its threads did: it was run without the "
            "watch (docs/watch.md), with the plain engine or with an older taupy, or comes from "
            "another tool"
        )
    view = sampled.states(sums, args.by, gpu_ns, [_looks(number, time_ns)])
    terminal.show(view.first(args.limit), form=args.form)
    return 0


def _of_steps(args: argparse.Namespace) -> int:
    with running.selected_trial(args) as (db, trial):
        tables = steps_of(db, trial.id)
    if not tables:
        raise UsageError(f"trial {trial.id} has no steps: see docs/steps.md")
    whole = args.form != "text" or args.limit is not None
    views = [
        step_waits.view(*of_thread, whole=whole).first(args.limit)
        for of_thread in tables
        if CPU_TIME.name in of_thread[1].metrics
    ]
    if not views:
        raise UsageError(
            f"trial {trial.id} has no CPU time of its steps: it was measured by an older taupy, or "
            "comes from another tool"
        )
    views[-1] = replace(views[-1], notes=[*views[-1].notes, step_waits.EXACT])
    terminal.show_all(views, args.form)
    return 0


def _looks(number: int, time_ns: float) -> str:
    if not number:
        return "threads were not sampled (docs/watch.md): only waits for a GPU are known"
    return (
        f"{count(number)} looks, one per {duration(time_ns / number)} of a thread; the error is "
        "the standard error of a row's time"
    )
