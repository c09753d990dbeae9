"""The command `taupy sweep`: `study/sweep.py`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from taupy.commands import answering, bar, options
from taupy.commands.messages import say
from taupy.errors import NoSuchTrial, UsageError
from taupy.pprof import terminal
from taupy.profiledb import selector
from taupy.profiledb.dimensions import METADATA
from taupy.study import sweep as study
from taupy.study.sweep import PARTS, PEOPLE_ROWS, Part, Sweep, SweepOptions

__doc__ = study.__doc__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("selector", nargs="*", metavar="TRIAL", help="which trials")
    answering.add_options(parser, SweepOptions)
    parser.add_argument(
        "--show",
        metavar="WHAT",
        help=f"{', '.join(PARTS)}, several with commas, or all (default: totals, steps of a "
        "training, routines)",
    )
    options.add_list_argument(
        parser, "--plot", "FILE", "also write a picture: .png or .svg; may be repeated"
    )
    parser.add_argument(
        "--block", type=_blocks, metavar="N,N,...",
        help="rank block sizes of stored kernels (`taupy static --store`) by their occupancy, "
        "beside times measured in these trials",
    )  # fmt: skip
    parser.add_argument("--kernel", metavar="NAME", help="with --block: only these kernels")
    options.add_reading_arguments(parser)
    options.add_form_arguments(parser)


def _blocks(text: str) -> list[int]:
    sizes = [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]
    if not sizes or len(sizes) != len(text.split(",")) or not 1 <= min(sizes) <= max(sizes) <= 1024:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of block sizes from 1 to 1024, such as 64,128"
        )
    return sizes


def _rank_blocks(args: argparse.Namespace) -> int:
    from taupy.comparison.kernel_proposals import blocks_view

    with options.opened(args) as db:
        chosen = args.selector or [f"{METADATA}block=*"]
        try:
            trials = [trial.id for trial in selector.many(db, chosen)]
        except NoSuchTrial:
            if args.selector:
                raise
            trials = []
        view = blocks_view(db, args.block, args.kernel, trials)
    terminal.show(view, form=args.form)
    return 0


def run(args: argparse.Namespace) -> int:
    if args.block:
        return _rank_blocks(args)
    if args.kernel:
        raise UsageError("--kernel needs --block, such as --block 64,128,256")
    parts = _parts(args.show or "totals,steps,routines")
    if args.plot:
        from taupy.study import sweep_plot

        for path in args.plot:
            sweep_plot.kind_of(path)
    question = answering.chosen(args, SweepOptions, terminal.FOR_PEOPLE)
    with options.opened(args) as db, bar.shown("reading the trials"):
        sweep = Sweep(db, args.selector, question)
    from taupy.study.sweep_views import view

    people = not terminal.is_for_programs(args.form)
    views = [view(sweep, part, people=people) for part in parts]
    views = [shown for part, shown in zip(parts, views, strict=True) if args.show or shown.rows]
    views[0] = replace(views[0], warnings=sweep.warnings)
    if len(views) == 1:
        terminal.show(views[0], form=args.form)
    else:
        terminal.show_all(views, form=args.form)
    for path in args.plot:
        with bar.shown("drawing"):
            sweep_plot.write(sweep, path, question.limit or PEOPLE_ROWS)
        say(f"wrote {path}")
    return 0


def _parts(text: str) -> list[Part]:
    if text == "all":
        return list(PARTS)
    parts: list[Part] = []
    for word in text.split(","):
        matches = [part for part in PARTS if part == word.strip() or part == word.strip() + "s"]
        if not matches:
            raise UsageError(f"--show takes {', '.join(PARTS)} or all, not {word.strip()!r}")
        parts += matches
    return parts
