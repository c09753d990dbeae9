"""Show what threads did: compute, wait for a processor, sleep, or wait for a disk.

    taupy waiting                     the trial stored last
    taupy waiting 12 --by phase       by routine, phase, layer, call path or thread

Sampled by the watch, from outside. `taupy run --cpu-time` measures CPU time exactly.
"""

from __future__ import annotations

import argparse

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.model.sampled import STATES
from taupy.pprof import sampled, terminal
from taupy.profiledb.trial_facts import events_at_paths, times_at_paths
from taupy.units import count, duration

_WAITS_FOR_GPU = "GPU_SYNC"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    parser.add_argument(
        "--by", choices=sampled.BY, default="routine", help="one row for each (default: routine)"
    )
    options.add_limit_argument(parser)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with running.asked(args) as (db, trial):
        sampled_rows = events_at_paths(db, trial.id, STATES)
        gpu = times_at_paths(db, trial.id, _WAITS_FOR_GPU)
    if not sampled_rows:
        raise UsageError(
            f"trial {trial.id} does not say what its threads did: it was run without a watch "
            "(docs/watch.md), by the plain engine, with an older taupy, or is of another tool"
        )
    looks, time_ns = sum(row.count for row in sampled_rows), sum(row.total for row in sampled_rows)
    notes = [
        f"{count(looks)} looks, one each {duration(time_ns / looks)} of a thread; the error is the "
        "standard error of a row's time"
    ]
    gpu_ns = sampled.gpu_waits(gpu, args.by) if gpu else None
    view = sampled.states(sampled_rows, args.by, gpu_ns, notes)
    terminal.show(view.first(args.limit), form=args.form)
    return 0
