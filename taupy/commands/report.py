"""Say what to do: what ran, how well it was measured, its phases, and what could be saved.

    taupy report                      the trial stored last
    taupy report 12 --json            the same for programs, with the evidence

At most seven findings, ordered by the seconds that each could save; docs/report.md lists the
faults that are recognised.
"""

from __future__ import annotations

import argparse
import shutil

from taupy.commands import options
from taupy.pprof import terminal
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.report import document, screen
from taupy.report.report import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trial", nargs="?", default=selector.LATEST, metavar="TRIAL", help="default: latest"
    )
    parser.add_argument(
        "--json", action="store_true", help="JSON, unrounded, with evidence and abstentions"
    )
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    with ProfileDB.open(options.database_path(args)) as db:
        answer = report(db, selector.trial(db, args.trial))
    window = shutil.get_terminal_size((screen.WIDTH, screen.HEIGHT))
    terminal.write(document.text(answer) if args.json else screen.text(answer, *window))
    return 0
