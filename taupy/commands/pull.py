"""Copy trials from a team's store into a database, or list the store's trials.

    taupy pull --from postgresql://me@host/profiles                   list the trials in it
    taupy pull 12 15 --from postgresql://me@host/profiles
    taupy pull app=mnist,gpu=H200 --from postgresql://me@host/profiles --db h200.db

Trials are named as for `taupy trials`, by the store's numbers and names.
"""

from __future__ import annotations

import argparse

from taupy.commands import bar, options
from taupy.commands.merge import report
from taupy.commands.messages import say
from taupy.pprof import terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trial", nargs="*", metavar="TRIAL", help="trials to copy (default: none; list them)"
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)
    parser.add_argument(
        "--from",
        dest="store",
        metavar="ADDRESS",
        help="postgresql://USER@HOST/DATABASE (default: $TAUPY_DB, or `db` in pyproject.toml)",
    )


def run(args: argparse.Namespace) -> int:
    from taupy.store.pull import pull
    from taupy.store.reading import StoreDB

    file, meant = options.file_and_store(args)
    address = options.store_address(args.store or meant)
    if not args.trial:
        from taupy.commands.trials import table

        with bar.shown("reading the store"), StoreDB(address) as store:
            trials = store.trials()
        notes = () if trials else (f"{address} has no trials; `taupy push` adds some",)
        terminal.show(table(trials, notes), form=args.form)
        return 0
    with bar.shown("pulling") as progress:
        merged = pull(address, file, args.trial, progress)
    for result in merged:
        for line in report(result):
            say(line)
    return 0
