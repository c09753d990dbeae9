"""The command `taupy pivot`: `study/pivot.py`."""

from __future__ import annotations

import argparse

from taupy.commands import answering, bar, options
from taupy.commands.compare_arguments import match_table
from taupy.pprof import terminal
from taupy.study import pivot, pivot_view
from taupy.study.pivot import Layout

__doc__ = pivot.__doc__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_trials_argument(parser, " (default: all trials)")
    options.add_reading_arguments(parser)
    output = answering.add_options(parser, Layout)["output"]
    options.add_form_arguments(output)
    options.add_color_argument(output)


def run(args: argparse.Namespace) -> int:
    args.table = match_table(args.table)
    layout = answering.chosen(args, Layout, ("text", "markdown"))
    with options.opened(args) as db, bar.shown("reading trials"):
        table = pivot_view.view(pivot.pivot_table(db, args.trials, layout))
    terminal.show(table, form=args.form, color=options.colored(args))
    return 0
