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

import argparse

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.pprof import phases, terminal
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    options.add_by_argument(parser, phases.BYS, "one table for each")
    parser.add_argument("--all", action="store_true", help="by step: every step")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.by == phases.STEP_BY_STEP:
        return _by_step(args)
    with running.selected_trial(args) as (db, trial):
        table = values(db, phases.question(trial.id, args.by))
        views = phases.views(table, steps_of(db, trial.id), args.by)
        views = running.with_window(db, trial.id, views)
    if not views:
        raise UsageError(
            f"trial {trial.id} has no known phases: it imported nothing and trained nothing with "
            "PyTorch, or it was recorded by an older taupy; see docs/phases.md"
        )
    terminal.show_all(views, args.form)
    return 0


def _by_step(args: argparse.Namespace) -> int:
    with running.selected_trial(args) as (db, trial):
        series = steps_of(db, trial.id)
    if not series:
        raise UsageError(f"trial {trial.id} has no steps: see docs/steps.md")
    whole = args.all or args.form != "text"
    terminal.show_all(phases.by_step(series, whole=whole), args.form)
    return 0
