"""Compare trials: what became slower, what is new, what is gone.

    taupy compare 3 4                        the routines of trial 4 with those of trial 3
    taupy compare mnist/base mnist/new       repeated runs: medians, intervals, verdicts
    taupy compare gpu=M40 gpu=P100 --by kernel --metric warps_per_inst
    taupy compare --baseline tag:main latest --fail-on "time > +5%" --markdown
    taupy compare old.cubin new.cubin --fail-on "spills > 0" --fail-on "registers > +8"
    taupy compare lib.so@sm_80 lib.so@sm_90  machine code of kernels, here of two chips

Every TRIAL is one side; the others are compared with the first, or with the baseline. A TRIAL
that matches several trials, such as tag:main or mnist/base, is a set of repeated runs; if it
is the only one, its trials are compared with each other.

Exit codes: 0 compared, all conditions pass; 3 a --fail-on condition fails; 4 undecided (too few
runs, or the trials are not comparable); 1 and 2 errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from taupy.analysis.comparable import Difference
from taupy.commands import bar, options
from taupy.commands.compare_arguments import (
    PEOPLE_ROWS,
    allowed,
    match_table,
    means_code,
    write_junit,
)
from taupy.commands.compare_arguments import add_arguments as add_arguments
from taupy.commands.messages import say
from taupy.comparison import comparison, comparison_views, cpu_share, sides, verdicts
from taupy.comparison.comparison import ComparisonOptions, Statistic
from taupy.comparison.comparison_views import Shown
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import Value
from taupy.comparison.verdicts import Rule
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB

if TYPE_CHECKING:  # imported only if there are conditions
    from taupy.analysis.gate import Condition


def run(args: argparse.Namespace) -> int:
    parsed = _conditions(args)
    if means_code(args):
        from taupy.commands import compare_code

        return compare_code.run(args, parsed, match_table(args.match_table))
    question = _question(args)
    rule = Rule(args.alpha, args.min_effect, args.min_share, args.correction)
    with options.opened(args) as db, bar.shown("comparing"):
        compared = sides.sides(db, args.trials, args.baseline)
        if args.by == "metadata":
            if parsed:
                raise UsageError("--fail-on needs values, and --by metadata compares none")
            if args.group or args.filter or args.metric != "time":
                raise UsageError("--by metadata takes no --group, --filter or --metric")
            facts = sides.facts_of(db, compared)
            views = [comparison_views.metadata_view(compared, facts, args.all)]
            code = 0
        else:
            views, code = _compare(db, compared, question, rule, parsed, args)
    terminal.show_all(views, args.form, color=options.colored(args))
    return code


def _conditions(args: argparse.Namespace) -> list[Condition]:
    if not args.fail_on:
        if args.junit is not None:
            raise UsageError("--junit writes the rulings of --fail-on; add a condition")
        return []
    from taupy.analysis import gate as conditions

    return [conditions.parse(text) for text in args.fail_on]


def _question(args: argparse.Namespace) -> ComparisonOptions:
    value: Value | Statistic = args.value or ("mean" if args.by == "event" else "exclusive")
    return ComparisonOptions(
        by=args.by,
        metric=args.metric,
        value=value,
        over=args.over,
        level=args.match,
        table=match_table(args.match_table),
        groups=tuple(args.group),
        names=tuple(args.filter),
    )


def _compare(
    db: ProfileDB,
    compared: Sequence[Side],
    question: ComparisonOptions,
    rule: Rule,
    parsed: Sequence[Condition],
    args: argparse.Namespace,
) -> tuple[list[View], int]:
    facts = sides.facts_of(db, compared)
    apart, inside = sides.obstacles(compared, facts)
    answers = comparison.answers(db, compared, question)
    machines = args.form not in terminal.FOR_PEOPLE
    limit = None if args.all else args.limit
    if limit is None and not args.all and not machines:
        limit = PEOPLE_ROWS
    layout = Shown(args.sort, args.reverse, limit, 1 - rule.alpha)
    tables = []
    for answer in answers:
        judged = [verdicts.verdicts(answer, at, rule) for at in range(1, len(compared))]
        tables.append(comparison_views.rows_view(answer, compared, judged, layout))
    notes = _notes(compared, inside, rule)
    if any(answer.metric.unit == "ns" for answer in answers):
        notes += sides.order_notes(compared)
        notes += cpu_share.share_note(compared, cpu_share.cpu_shares(db, compared))
    names_apart = comparison.warnings(compared, answers)
    views = [comparison_views.sides_view(compared, answers)]
    if apart:
        views.append(comparison_views.obstacles_view(compared, apart))
    code = 0
    if parsed:
        from taupy.comparison import gate, gate_view

        judgement = gate.judge(db, compared, parsed, question, rule)
        conclusion = gate.concluded(
            compared, judgement, (apart, inside), allowed(args), args.undecided
        )
        code = conclusion.code
        write_junit(args.junit, judgement, conclusion)
        view = gate_view.conclusion_view(
            parsed, judgement, conclusion, args.form == "json", 1 - rule.alpha
        )
        views.insert(0, view)
    if terminal.holds_rows_only(args.form):
        # One table; the others are summarized in notes.
        for text in [*names_apart, *(difference.text for difference in apart), *notes]:
            say(text)
        if parsed:
            terminal.show(views[0], stream=sys.stderr, color=False)
        return tables, code
    views[0] = replace(views[0], warnings=names_apart or views[0].warnings)
    views += tables
    views[-1] = View(views[-1].title, views[-1].columns, views[-1].rows,
                     [*views[-1].notes, *notes])  # fmt: skip
    return views, code


def _notes(
    compared: Sequence[Side], inside: Sequence[tuple[str, Difference]], rule: Rule
) -> list[str]:
    notes = [
        f"the trials of side {letter} differ: {difference.text}" for letter, difference in inside
    ]
    if twice := sides.both_sided(compared):
        notes.append(f"on more than one side: trial {', '.join(map(str, twice))}")
    few = verdicts.too_few([len(side.trials) for side in compared], rule.alpha)
    return [*notes, few] if few else notes
