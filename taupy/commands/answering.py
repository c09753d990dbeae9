"""Commands that print an answer (`taupy/answers/`): its options are theirs."""

from __future__ import annotations

import argparse
from typing import Any

from taupy.answers.answer import settings
from taupy.commands import bar, options, running
from taupy.pprof import terminal


class Command:
    """The command of an answer, in place of a module.

    Args:
        answer: a module of `taupy.answers`.
    """

    def __init__(self, answer: Any) -> None:
        self._views, self._options, self.__doc__ = answer.views, answer.Options, answer.__doc__

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The trial, the options of the answer, the database and the form."""
        running.add_trial_argument(parser)
        for field, setting in settings(self._options):
            names = setting.names or (f"--{field.name.replace('_', '-')}",)
            if isinstance(field.default, bool):  # people get less unless they ask for all
                parser.add_argument(*names, dest=field.name, action="store_true", help=setting.help)
            else:
                parser.add_argument(
                    *names,
                    dest=field.name,
                    type=setting.spelled if setting.choices or setting.is_text else options.count,
                    choices=setting.choices or None,
                    default=field.default,
                    metavar=setting.metavar,
                    help=setting.help,
                )
        options.add_database_argument(parser)
        options.add_form_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the answer."""
        given = {field.name: getattr(args, field.name) for field, _ in settings(self._options)}
        if "whole" in given:
            given["whole"] |= args.form != "text"
        chosen = self._options(**given)
        with (
            running.selected_trial(args) as (db, trial),
            bar.shown(f"reading trial {trial.id}"),
        ):
            tables = self._views(db, trial.id, chosen)
        if chosen.alone:
            (table,) = tables
            terminal.show(table, args.form)
        else:
            terminal.show_all(tables, args.form)
        return 0
