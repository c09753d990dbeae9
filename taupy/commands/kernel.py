"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12

Machine code stored by `taupy static --store` is shown beside the measurements, or alone if the
trial has none of the kernel. `taupy kernels` shows all kernels, and sums them by other dimensions.

NAME is a kernel's short or full name, a part of it, a pattern with * and ?, or /REGEX/.
"""

from __future__ import annotations

import argparse

from taupy.answers.kernels import of_name
from taupy.commands import options, static
from taupy.comparison import kernel_beside
from taupy.errors import DatabaseError, TaupyError
from taupy.model.kernel_names import short_name
from taupy.pprof import code as code_views
from taupy.pprof import kernels, selection, terminal
from taupy.pprof.view import View
from taupy.profiledb import gpu_query, kernel_codes, selector
from taupy.profiledb.database import ProfileDB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="see above")
    parser.add_argument("--trial", default=selector.LATEST, help="default: latest")
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with options.opened(args) as db:
        try:
            views = _measured(db, args)
        except DatabaseError:
            raise
        except TaupyError as problem:
            views = _at_rest(db, args, str(problem))
            if not views:
                raise
    terminal.show_all(views, args.form)
    return 0


def _measured(db: ProfileDB, args: argparse.Namespace) -> list[View]:
    """What the trial says of the kernel, beside its code.

    Raises:
        TaupyError: there is no such trial, or it has no such kernel.
    """
    trial = selector.trial(db, args.trial)
    launches = of_name(gpu_query.launched(db, trial.id), trial.id, args.name)
    return _views(db, trial.id, launches)


def _at_rest(db: ProfileDB, args: argparse.Namespace, problem: str) -> list[View]:
    """The stored code of kernels that were not measured; none for a trial that was named."""
    if args.trial != selector.LATEST:
        return []
    test = selection.name_test(args.name)
    codes = kernel_codes.stored(db, lambda full, chip: test(full, short_name(full)))
    if not codes:
        return []
    rows = [(code, static.fitting(code)) for code in codes]
    return [
        code_views.table(rows, [f"the stored code only: {problem}"]),
        *(view for code in codes for view in static.details(code)),
    ]


def _views(db: ProfileDB, trial_id: int, launches: gpu_query.Launched) -> list[View]:
    """The launch sites of each kernel, and its code if `taupy static --store` has stored it."""
    sites = gpu_query.sites(launches)
    views = []
    for name in dict.fromkeys(row.timer for row in gpu_query.kernels(launches)):
        own = [site for site in sites if site.timer == name]
        views += [kernels.sites(own, name), *kernel_beside.views(db, trial_id, name, own)]
    return views
