"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12
    taupy kernel                      all kernels (as `taupy pprof --kernels`)
    taupy kernel NAME --by configuration

NAME is a kernel's short or full name, a part of it, a pattern with * and ?, or /REGEX/.
"""

from __future__ import annotations

import argparse

from taupy.commands import options
from taupy.errors import UsageError
from taupy.pprof import kernels, selection, terminal
from taupy.pprof.view import View
from taupy.profiledb import gpu_query, selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import OF_LAUNCHES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="see above")
    parser.add_argument("--trial", default=selector.LATEST, help="default: latest")
    parser.add_argument(
        "--by", choices=OF_LAUNCHES, metavar="DIMENSION", help="sums by " + ", ".join(OF_LAUNCHES)
    )
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with ProfileDB.open(options.database_path(args)) as db:
        trial = selector.trial(db, args.trial)
        launches = gpu_query.launched(db, trial.id, more=[args.by] if args.by else [])
    chosen = launches
    if args.name is not None:
        chosen = launches.of_kernels(selection.name_test(args.name))
        if not chosen.table:
            largest = [row.short_name for row in gpu_query.kernels(launches)[:8]]
            raise UsageError(
                f"no kernel of trial {trial.id} matches {args.name!r}; the largest are "
                + ", ".join(dict.fromkeys(largest))
            )
    if args.by or args.name is None:
        by = args.by or "kernel"
        rows = gpu_query.kernels(chosen, "timer" if by == "kernel" else by)
        terminal.show_all(kernels.table(rows, by=by), args.form)
    else:
        terminal.show_all(_sites(chosen), args.form)
    return 0


def _sites(launches: gpu_query.Launched) -> list[View]:
    """The launch sites of each kernel."""
    sites = gpu_query.sites(launches)
    names = dict.fromkeys(row.timer for row in gpu_query.kernels(launches))
    return [kernels.sites([site for site in sites if site.timer == name], name) for name in names]
