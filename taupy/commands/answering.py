"""Arguments of commands from options that describe themselves (`model/options.py`), and the
commands that print an answer about one trial (`taupy/answers/`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from typing import Any, TypeVar

from taupy.commands import bar, options, running
from taupy.errors import UsageError
from taupy.model.options import Asked, Setting, settings
from taupy.pprof import terminal
from taupy.profiledb import selector

_Asked = TypeVar("_Asked", bound=Asked)


def add_options(
    parser: argparse.ArgumentParser, question: type[Asked]
) -> dict[str, argparse._ActionsContainer]:
    """Arguments for all options, in groups that have the headings that these name."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for field, setting in settings(question):
        if setting.group not in groups:
            groups[setting.group] = parser.add_argument_group(setting.group)
        group = groups[setting.group]
        if field.default is MISSING:
            group.add_argument(field.name, metavar=field.name.upper(), help=setting.help)
            continue
        names = setting.names or (f"--{field.name.replace('_', '-')}",)
        if isinstance(field.default, bool):  # people get less unless they ask for all
            group.add_argument(*names, dest=field.name, action="store_true", help=setting.help)
            continue
        repeated = isinstance(field.default, tuple) and setting.read is None
        group.add_argument(
            *names,
            dest=field.name,
            action="append" if repeated else "store",
            type=_reader(setting),
            choices=setting.choices or None,
            default=None if repeated else field.default,
            metavar=setting.metavar,
            help=setting.help,
        )
    return groups


def _reader(setting: Setting) -> Callable[[str], object]:
    if setting.read is not None:
        return argument(setting.read)
    return setting.spelled if setting.choices or setting.is_text else options.count


def argument(read: Callable[[str], object]) -> Callable[[str], object]:
    """The same for argparse, which shows the message."""

    def value(text: str) -> object:
        try:
            return read(text)
        except UsageError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return value


def chosen(
    args: argparse.Namespace, question: type[_Asked], short: Sequence[terminal.Form] = ("text",)
) -> _Asked:
    """The options that a command was given.

    Args:
        short: forms in which not all rows are shown unless `--all` asks for them.
    """
    values = ((field.name, getattr(args, field.name)) for field, _ in settings(question))
    given: dict[str, Any] = {name: value for name, value in values if value is not None}
    if "whole" in given:
        given["whole"] |= args.form not in short
    return question(**given)


class Command:
    """The command of an answer, in place of a module.

    Args:
        answer: a module of `taupy.answers`.
    """

    def __init__(self, answer: Any) -> None:
        self._views, self._options, self.__doc__ = answer.views, answer.Options, answer.__doc__

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The trial, the options of the answer, the database and the form."""
        if any(field.default is MISSING for field, _ in settings(self._options)):
            parser.add_argument(
                "--trial",
                dest="selector",
                metavar="TRIAL",
                default=selector.LATEST,
                help="default: latest",
            )
        else:
            running.add_trial_argument(parser)
        add_options(parser, self._options)
        options.add_database_argument(parser)
        options.add_form_arguments(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print the answer."""
        question = chosen(args, self._options)
        with (
            running.selected_trial(args) as (db, trial),
            bar.shown(f"reading trial {trial.id}"),
        ):
            tables = self._views(db, trial.id, question)
        if trial.is_sampled:
            from taupy.pprof.estimated import marked

            tables = [marked(table) for table in tables]
        if question.alone:
            (table,) = tables
            terminal.show(table, args.form)
        else:
            terminal.show_all(tables, args.form)
        return 0
