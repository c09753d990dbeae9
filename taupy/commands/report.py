"""Say what to do: what ran, how well it was measured, its phases, and what could be saved.

    taupy report                      the trial stored last
    taupy report 12 -v                everything, with the evidence
    taupy report 12 --json            the same for programs, unrounded
    taupy report 12 -o report.html    a page: findings, flame graph, layers, memory, kernels
    taupy report 12 -o page.html --library-source    with the text of library files, too
    taupy report 12 15 -o page.html   a page that compares two trials (or sets of repeated runs)
    taupy report 12 15 -o page.html --fail-on "time > +5%"

At most seven findings, ordered by the seconds that each could save; docs/report.md lists the
faults that are recognised. With --fail-on the exit code is that of `taupy compare`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from taupy.commands import bar, options, running
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.escaping import columns
from taupy.pprof import terminal
from taupy.profiledb import selector
from taupy.report import document, screen
from taupy.report.report import report
from taupy.state.saving import save_named
from taupy.units import size

if TYPE_CHECKING:
    from taupy.model.progress import Progress
    from taupy.report.contents import Contents


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="*", metavar="TRIAL", help="one or two; default: latest")
    parser.add_argument("-o", "--output", metavar="FILE", help="write one HTML page instead")
    parser.add_argument(
        "--json", action="store_true", help="JSON, unrounded, with evidence and abstentions"
    )
    parser.add_argument(
        "--no-source", action="store_true", help="leave the program's source text out of the page"
    )
    parser.add_argument(
        "--library-source",
        action="store_true",
        help="put the text of library files into the page, read from this machine",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="everything, not only what fits on a screen"
    )
    options.add_list_argument(
        parser,
        "--fail-on",
        "CONDITION",
        "a gate on a page of two trials, such as 'time > +5%%'; may be repeated",
    )
    options.add_reading_arguments(parser)


def run(args: argparse.Namespace) -> int:
    trials = args.trials or [selector.LATEST]
    if len(trials) > 2:
        raise UsageError(f"report takes one trial, or two to compare, not {len(trials)}")
    if args.fail_on and (len(trials) != 2 or args.output is None):
        raise UsageError("--fail-on is for a page of two trials: taupy report A B -o FILE.html")
    if args.library_source and (len(trials) != 1 or args.output is None):
        raise UsageError("--library-source is for a page of one trial: taupy report A -o FILE.html")
    if args.output is not None:
        return _write_page(args, trials)
    if len(trials) == 2:
        raise UsageError("two trials are compared on a page: add -o FILE.html; or: taupy compare")
    with (
        running.selected_trial(args, trials[0]) as (db, trial),
        bar.shown(f"judging trial {trials[0]}"),
    ):
        name = trials[0] if running.may_name(trials[0]) else ""
        answer = report(db, trial, name, options.named(args))
    height = min(shutil.get_terminal_size((screen.WIDTH, screen.HEIGHT)).lines, screen.HEIGHT)
    if args.json:
        terminal.write(document.text(answer))
    else:
        text = screen.text(answer, columns(sys.stdout), height, verbose=args.verbose)
        terminal.write(text, screen.painted)
    return 0


def _write_page(args: argparse.Namespace, trials: list[str]) -> int:
    from taupy.report import page

    if args.json:
        raise UsageError("-o writes a page; --json prints: ask for one of them")
    with bar.shown("building the page") as progress:
        contents, code = _contents(args, trials, progress)
        text = page.html_page(contents)
    try:
        save_named(args.output, text)
    except OSError as problem:
        raise UsageError(f"{args.output} cannot be written: {problem.strerror}") from None
    say(f"wrote {args.output} ({size(len(text))})")
    return code


def _contents(
    args: argparse.Namespace, trials: list[str], progress: Progress
) -> tuple[Contents, int]:
    """The contents of the page, and the exit code."""
    from taupy.report import contents
    from taupy.study import conditions as gate
    from taupy.study import versus

    conditions = [gate.parse(text) for text in args.fail_on]
    if len(trials) == 1:
        with running.selected_trial(args, trials[0]) as (db, trial):
            page = contents.of_trial(
                *(db, trial, progress),
                with_source=not args.no_source,
                with_libraries=args.library_source,
            )
            return page, 0
    with options.opened(args) as db:
        compared, code = versus.of_sides(db, trials[0], trials[1], conditions, progress)
    return compared, code if conditions else 0
