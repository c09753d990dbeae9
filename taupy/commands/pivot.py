"""Tabulate many trials: applications, libraries and kernels by GPU.

    taupy pivot                                        time of every application on every GPU
    taupy pivot --rows application,library --columns gpu
    taupy pivot --rows application,kernel --cell warps_per_inst --cell gld_per_inst
    taupy pivot mnist --rows routine --columns meta.batch_size --baseline 16
    taupy pivot --rows kernel --cell bytes_dram --peak

Labels of trials: application, experiment, trial, id, gpu, tag, host, state, and any metadata by
name. Labels within a trial: routine, kernel, group, file, module.
"""

from __future__ import annotations

import argparse

from taupy.analysis.match import LEVELS
from taupy.commands import bar, options
from taupy.commands.compare_arguments import match_table
from taupy.comparison.trial_values import VALUES
from taupy.errors import NoSuchTrial, UsageError
from taupy.pprof import terminal
from taupy.profiledb import selector
from taupy.study import pivot, pivot_view
from taupy.study.pivot import Layout
from taupy.study.pivot_cells import ACROSS

PEOPLE_ROWS = 10
"""Default number of routines or kernels under each label of trials in tables for people."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_trials_argument(parser, " (default: all trials)")
    options.add_reading_arguments(parser)
    table = parser.add_argument_group("the table")
    table.add_argument(
        "--by", "--rows", dest="rows", type=_names, default=("application",), metavar="DIMENSIONS",
        help="labels of rows, one or several, such as application,library,kernel (default: "
        "application)",
    )  # fmt: skip
    table.add_argument(
        "--columns", type=_names, default=("gpu",), metavar="DIMENSIONS", help="default: gpu"
    )
    table.add_argument(
        "--cell", action="append", default=[], metavar="METRIC",
        help="measured or derived, or duration (default: time); may be repeated",
    )  # fmt: skip
    table.add_argument(
        "--value", choices=VALUES, default="exclusive", metavar="WHICH",
        help=", ".join(VALUES) + " (default: exclusive)",
    )  # fmt: skip
    table.add_argument(
        "--over",
        choices=("total", "mean", "max"),
        default="total",
        help="how to combine a trial's threads",
    )
    table.add_argument(
        "--across", choices=ACROSS, default="median",
        help="how to combine trials in one cell (default: median)",
    )  # fmt: skip
    relative = parser.add_argument_group("relative values").add_mutually_exclusive_group()
    relative.add_argument(
        "--baseline", metavar="LABEL", help="divide by the cell in this column, such as K80"
    )
    relative.add_argument(
        "--peak", action="store_true",
        help="in percent of each GPU's peak, measured or from its datasheet",
    )  # fmt: skip
    table.add_argument(
        "--ceiling", metavar="NAME",
        help="peak for --peak: fp32, 'tensor bf16', DRAM ... (default: by the metric's name)",
    )  # fmt: skip
    chosen = parser.add_argument_group("selection of routines and kernels")
    options.add_routines_arguments(chosen, "only those")
    options.add_matching_arguments(
        chosen,
        LEVELS,
        "how to match kernels on different GPUs, as in taupy compare",
        "a table of patterns, as in taupy compare",
    )
    options.add_table_arguments(
        parser.add_argument_group("output"),
        f"routines or kernels under each label (default: {PEOPLE_ROWS} for people, all in CSV "
        "and JSON)",
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different labels")
    return names


def run(args: argparse.Namespace) -> int:
    if twice := set(args.rows) & set(args.columns):
        raise UsageError(f"{', '.join(sorted(twice))} cannot be in both rows and columns")
    if args.ceiling and not args.peak:
        raise UsageError("--ceiling chooses the peak for --peak: add --peak")
    layout = Layout(
        rows=args.rows,
        columns=args.columns,
        cells=tuple(dict.fromkeys(args.cell)) or ("time",),
        value=args.value,
        over=args.over,
        across=args.across,
        baseline=args.baseline,
        peak=args.peak,
        ceiling=args.ceiling,
        level=args.match,
        table=match_table(args.match_table),
        groups=tuple(args.group),
        names=tuple(args.filter),
    )
    with options.opened(args) as db, bar.shown("reading trials"):
        trials = selector.many(db, args.trials) if args.trials else db.trials()
        if not trials:
            raise NoSuchTrial(f"{db.path} has no trials; `taupy run SCRIPT` adds one")
        answer = pivot.pivot_table(db, trials, layout)
    machines = args.form not in terminal.FOR_PEOPLE
    limit = None if args.all or (machines and args.limit is None) else args.limit or PEOPLE_ROWS
    terminal.show(pivot_view.view(answer, limit), form=args.form, color=options.colored(args))
    return 0
