"""Show one GPU kernel: its launch sites, launch configurations and times.

    taupy kernel NAME                 in the trial stored last
    taupy kernel NAME --trial 12
    taupy kernel                      all kernels (as `taupy pprof --kernels`)
    taupy kernel NAME --by configuration
    taupy kernel NAME --by step       in which steps it was launched, after taupy run --trace=gpu

Machine code stored by `taupy static --store` is shown beside the measurements, or alone if the
trial has none of the kernel.

NAME is a kernel's short or full name, a part of it, a pattern with * and ?, or /REGEX/.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from taupy.commands import options, static
from taupy.comparison import kernel_beside
from taupy.errors import DatabaseError, TaupyError, UsageError
from taupy.model.gpu_rows import KernelRow
from taupy.model.kernel_names import short_name
from taupy.model.profile import Steps
from taupy.model.rows import ThreadRow
from taupy.model.step_spans import step_name
from taupy.model.step_times import step_times
from taupy.pprof import code as code_views
from taupy.pprof import kernels, selection, terminal
from taupy.pprof import steps as steps_views
from taupy.pprof.view import View
from taupy.profiledb import gpu_query, kernel_codes, selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import OF_LAUNCHES
from taupy.profiledb.steps import steps_of
from taupy.units import several


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="see above")
    parser.add_argument("--trial", default=selector.LATEST, help="default: latest")
    parser.add_argument(
        "--by", choices=(*OF_LAUNCHES, gpu_query.STEP), metavar="DIMENSION",
        help="sums by " + ", ".join((*OF_LAUNCHES, gpu_query.STEP)),
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="by step: every step")
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
    launches = gpu_query.launched(db, trial.id, more=[args.by] if args.by else [])
    chosen = _chosen(launches, trial.id, args.name)
    if args.by or args.name is None:
        by = args.by or "kernel"
        rows = gpu_query.kernels(chosen, "timer" if by == "kernel" else by)
        notes = list(launches.notes)
        if by == gpu_query.STEP and args.form == "text" and not args.all:
            rows, hidden = _for_people(rows, steps_of(db, trial.id))
            notes += [f"{several(hidden, 'step')} more: --all shows them"] if hidden else []
        views = kernels.table(rows, by=by, sort=None)
        return [*views[:-1], replace(views[-1], notes=[*views[-1].notes, *notes])]
    return _views(db, trial.id, chosen)


def _for_people(
    rows: list[KernelRow], series: Sequence[tuple[ThreadRow, Steps]]
) -> tuple[list[KernelRow], int]:
    """What ran in the first and last steps, in outliers, and in no step; and how many are left."""
    names = [
        {step_name(steps.kind, steps.number[row], steps.count[row]) for row in chosen}
        for _, steps in series
        for chosen in (range(len(steps)), steps_views.chosen(steps, step_times(steps)))
    ]
    hidden = {name for every in names[::2] for name in every}
    hidden -= {name for seen in names[1::2] for name in seen}
    shown = [row for row in rows if row.timer not in hidden]
    return shown, len({row.timer for row in rows} & hidden)


def _at_rest(db: ProfileDB, args: argparse.Namespace, problem: str) -> list[View]:
    """The stored code of kernels that were not measured; none for other questions."""
    if args.name is None or args.by or args.trial != selector.LATEST:
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


def _chosen(
    launches: gpu_query.Launched, trial_id: int, name: str | None
) -> gpu_query.Launched:  # fmt: skip
    if name is None:
        return launches
    chosen = launches.of_kernels(selection.name_test(name))
    if not chosen.table:
        largest = [row.short_name for row in gpu_query.kernels(launches)[:8]]
        raise UsageError(
            f"no kernel of trial {trial_id} matches {name!r}; the largest are "
            + ", ".join(dict.fromkeys(largest))
        )
    return chosen


def _views(db: ProfileDB, trial_id: int, launches: gpu_query.Launched) -> list[View]:
    """The launch sites of each kernel, and its code if `taupy static --store` has stored it."""
    sites = gpu_query.sites(launches)
    views = []
    for name in dict.fromkeys(row.timer for row in gpu_query.kernels(launches)):
        own = [site for site in sites if site.timer == name]
        views += [kernels.sites(own, name), *kernel_beside.views(db, trial_id, name, own)]
    return views
