"""The command `taupy compare`: `answers/compare.py`, with a gate, and files of GPU code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taupy.answers import compare
from taupy.answers.compare import Compared, Options
from taupy.commands import answering, bar, options
from taupy.commands.compare_arguments import (
    add_gate_arguments,
    allowed,
    match_table,
    means_code,
    write_junit,
)
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.pprof.view import View

if TYPE_CHECKING:  # imported only if there are conditions
    from taupy.study.conditions import Condition

__doc__ = compare.__doc__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_trials_argument(parser, "; two or more TRIALs")
    options.add_reading_arguments(parser)
    output = answering.add_options(parser, Options)["output"]
    add_gate_arguments(parser.add_argument_group("a gate for CI"))
    options.add_form_arguments(output)
    options.add_color_argument(output)


def run(args: argparse.Namespace) -> int:
    parsed = _conditions(args)
    args.table = match_table(args.table)
    if means_code(args):
        from taupy.commands import compare_code

        return compare_code.run(args, parsed)
    question = answering.chosen(args, Options, ("text", "markdown"))
    if parsed and question.by == "metadata":
        raise UsageError("--fail-on needs values, and --by metadata compares none")
    with options.opened(args) as db, bar.shown("comparing"):
        compared = compare.compared(db, args.trials, question, lenient=not parsed)
        gate, code = _judged(compared, parsed, args) if parsed else (None, 0)
        rows_only = terminal.holds_rows_only(args.form)
        views = compared.tables() if rows_only else compared.views()
        remarks = compared.remarks() if rows_only else []
    if gate is not None and not rows_only:
        views.insert(0, gate)
    for text in remarks:
        say(text)
    if gate is not None and rows_only:
        terminal.show(gate, stream=sys.stderr, color=False)
    terminal.show_all(views, args.form, color=options.colored(args))
    return code


def _conditions(args: argparse.Namespace) -> list[Condition]:
    if not args.fail_on:
        if args.junit is not None:
            raise UsageError("--junit writes the rulings of --fail-on; add a condition")
        return []
    from taupy.study import conditions

    return [conditions.parse(text) for text in args.fail_on]


def _judged(
    compared: Compared, parsed: Sequence[Condition], args: argparse.Namespace
) -> tuple[View, int]:
    """The rulings on the conditions, and the exit code."""
    from taupy.study import gate, gate_view

    judgement = gate.judge(compared, parsed)
    conclusion = gate.concluded(
        compared, judgement, allowed(args), args.undecided, options.named(args)
    )
    write_junit(args.junit, judgement, conclusion)
    # Beside CSV or Parquet, people read the rulings.
    machines = terminal.is_for_programs(args.form) and not terminal.holds_rows_only(args.form)
    view = gate_view.conclusion_view(
        parsed, judgement, conclusion, machines, 1 - compared.options.alpha
    )
    return view, conclusion.code
