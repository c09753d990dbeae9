"""`taupy kernel`: the answer, or else the stored code of a kernel that was not measured."""

from __future__ import annotations

import argparse

from taupy.analysis.kernel_occupancy import fitting
from taupy.answers import kernel
from taupy.commands import bar, options
from taupy.commands.answering import Command
from taupy.errors import DatabaseError, TaupyError
from taupy.model.kernel_names import short_name
from taupy.pprof import code, selection, terminal
from taupy.pprof.view import View
from taupy.profiledb import kernel_codes, selector

_ANSWER = Command(kernel)
__doc__ = kernel.__doc__
add_arguments = _ANSWER.add_arguments


def run(args: argparse.Namespace) -> int:
    try:
        return _ANSWER.run(args)
    except DatabaseError:
        raise
    except TaupyError as problem:
        views = _at_rest(args, str(problem))
        if not views:
            raise
    terminal.show_all(views, args.form)
    return 0


def _at_rest(args: argparse.Namespace, problem: str) -> list[View]:
    """The stored code of kernels that were not measured; none for a trial that was named."""
    if args.selector != selector.LATEST:
        return []
    test = selection.name_test(args.name)
    with options.opened(args) as db, bar.shown("reading stored code"):
        codes = kernel_codes.stored(db, lambda full, chip: test(full, short_name(full)))
    if not codes:
        return []
    rows = [(stored, fitting(stored)) for stored in codes]
    return [
        code.table(rows, [f"the stored code only: {problem}"]),
        *(view for stored in codes for view in code.details(stored)),
    ]
