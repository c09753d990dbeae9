"""Show the steps of a training: time, phases, samples per second, and logged values.

    taupy steps                       the first and last steps, and outliers
    taupy steps 12 --all              every step
    taupy steps --csv                 every step, for other tools
    taupy steps --kind validation     validation steps only

A step is one iteration: it ends when the next batch is fetched after the optimizer's step. See
docs/steps.md.
"""

from __future__ import annotations

import argparse

from taupy.commands import options, running
from taupy.errors import UsageError
from taupy.network.steps import TOKENS
from taupy.pprof import steps, terminal
from taupy.profiledb import query
from taupy.profiledb.steps import steps_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(parser)
    parser.add_argument("--all", action="store_true", help="every step, not only unusual ones")
    parser.add_argument("--kind", choices=("training", "validation"), help="steps of this kind")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with running.selected_trial(args) as (db, trial):
        tables = [
            (thread, series)
            for thread, series in steps_of(db, trial.id)
            if args.kind in (None, series.kind)
        ]
        facts = {fact.name: str(fact.value) for fact in query.trial_metadata(db, trial.id)}
    if not tables:
        raise UsageError(
            f"trial {trial.id} has no steps{f' of {args.kind}' if args.kind else ''}: no "
            "optimizer of PyTorch was called, or it was measured by the plain engine or an "
            "older taupy; a program can mark its steps itself: see docs/steps.md"
        )
    whole = args.all or args.form != "text"
    views = [
        steps.view(*of_thread, whole=whole, tokens=facts.get(TOKENS, "")) for of_thread in tables
    ]
    terminal.show_all(views, args.form)
    return 0
