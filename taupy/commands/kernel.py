"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12
    taupy kernel                      all kernels (as `taupy pprof --kernels`)

NAME is a kernel's short or full name, a part of it, a pattern with * and ?, or /REGEX/.
"""

from __future__ import annotations

import argparse

from taupy.commands import options
from taupy.errors import UsageError
from taupy.pprof import kernels, selection, terminal
from taupy.profiledb import gpu_query, selector
from taupy.profiledb.database import ProfileDB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="see above")
    parser.add_argument("--trial", default=selector.LATEST, help="default: latest")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with ProfileDB.open(options.database_path(args)) as db:
        trial = selector.one(db, args.trial)
        launches = gpu_query.launched(db, trial.id)
    rows = gpu_query.kernels(launches)
    if args.name is None:
        terminal.show_all(kernels.table(rows), args.form)
        return 0
    test = selection.name_test(args.name)
    chosen = [row for row in rows if test(row.timer, row.short_name)]
    if not chosen:
        largest = ", ".join(dict.fromkeys(row.short_name for row in rows[:8]))
        raise UsageError(
            f"no kernel of trial {trial.id} matches {args.name!r}; the largest are {largest}"
        )
    sites = gpu_query.sites(launches)
    names = dict.fromkeys(row.timer for row in chosen)
    views = [kernels.sites([site for site in sites if site.timer == name], name) for name in names]
    terminal.show_all(views, args.form)
    return 0
