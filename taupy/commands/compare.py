"""Hold trials against each other: what got slower, what is new, what is gone.

    taupy compare 3 4                        routines of trial 4 against those of trial 3
    taupy compare mnist/base mnist/new       repeated runs: medians, intervals, verdicts
    taupy compare gpu=M40 gpu=P100 --by kernel --metric warps_per_inst
    taupy compare --baseline tag:main latest --fail-on "time > +5%" --markdown

Every TRIAL is one side, and the first (or the baseline) is what the others are held
against. A TRIAL that names several trials, such as tag:main or mnist/base, stands for
repeated runs of one thing; given alone, its trials are compared with each other.

Exit codes: 0 compared, all conditions pass; 3 a condition of --fail-on fails; 4 undecided (the
runs do not tell, or the trials are not comparable); 1 and 2 errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from taupy.analysis import gate as conditions
from taupy.analysis import match
from taupy.analysis.comparable import KINDS, Difference
from taupy.analysis.match import Table
from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB
from taupy.report import comparison, comparison_views, gate, gate_view, sides, verdicts
from taupy.report.comparison import BYS, STATISTICS, Question, Statistic
from taupy.report.comparison_views import Shown
from taupy.report.sides import Side
from taupy.report.trial_values import VALUES, Value
from taupy.report.verdicts import Rule

PEOPLE_ROWS = 25
"""So many rows people see, unless --limit or --all says otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trials",
        nargs="*",
        metavar="TRIAL",
        help="latest, an id, app/experiment/trial, tag:NAME, gpu=MODEL, meta.NAME=VALUE, or "
        "several of these joined by commas; two TRIALs or more",
    )
    parser.add_argument(
        "--baseline", metavar="TRIAL", help="what the others are held against, such as tag:main"
    )
    options.add_database_argument(parser)
    _add_question(parser)
    _add_matching(parser)
    _add_statistics(parser)
    _add_gate(parser)
    _add_output(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is compared")
    group.add_argument(
        "--by", choices=BYS, default="routine", metavar="WHAT",
        help=", ".join(BYS) + " (default: routine, and GPU work in a table of its own)",
    )  # fmt: skip
    group.add_argument("--metric", default="time", metavar="NAME", help="default: time")
    group.add_argument(
        "--value", choices=(*VALUES, *STATISTICS), default=None, metavar="WHICH",
        help=", ".join(VALUES) + " (default: exclusive); of user events "
        + ", ".join(STATISTICS) + " (default: mean)",
    )  # fmt: skip
    group.add_argument(
        "--over", choices=("total", "mean", "max"), default="total", help="threads of a trial"
    )
    group.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="only routines in this group"
    )
    group.add_argument(
        "--filter", action="append", default=[], metavar="PATTERN",
        help="only routines with this in their name; whole names with * and ?; /REGEX/",
    )  # fmt: skip


def _add_matching(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which names are the same")
    group.add_argument(
        "--match", choices=match.LEVELS, default="auto",
        help="kernels: by their full names, shortened as far as it takes to find a partner "
        "(auto), or all cut alike; exact: full names only, of routines with their lines, too",
    )  # fmt: skip
    group.add_argument(
        "--match-table", metavar="FILE",
        help='a TOML file with lines such as "gemm" = ["*gemm*", "/sgemm_/"] (default: '
        "[tool.taupy.match] of pyproject.toml)",
    )  # fmt: skip


def _add_statistics(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("repeated runs")
    group.add_argument(
        "--alpha", type=probability, default=verdicts.ALPHA, metavar="P",
        help="the chance of any false alarm in a table (default: 0.05)",
    )  # fmt: skip
    group.add_argument(
        "--min-effect", type=_part, default=verdicts.MIN_EFFECT, metavar="PERCENT",
        help="a smaller change is no change (default: 5%%)",
    )  # fmt: skip
    group.add_argument(
        "--min-share", type=_part, default=verdicts.MIN_SHARE, metavar="PERCENT",
        help="rows below this part of the whole are not tested (default: 1%%)",
    )  # fmt: skip
    group.add_argument(
        "--correction", choices=("maxt", "holm", "bh", "none"), default="maxt",
        help="for many rows (default: maxt, Westfall and Young's)",
    )  # fmt: skip


def _add_gate(parser: argparse.ArgumentParser) -> None:
    add_gate_arguments(parser.add_argument_group("a gate for CI"))


def add_gate_arguments(group: argparse._ArgumentGroup, required: bool = False) -> None:
    """`--fail-on`, `--undecided` and `--allow`."""
    group.add_argument(
        "--fail-on", required=required, action="append", default=[], metavar="CONDITION",
        help="'time > +5%%', 'time of forward > +2 ms', 'calls of load > +0'; exit code 3 if "
        "it fails, 4 if it is undecided; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--undecided", choices=("pass", "fail"), default=None,
        help="what a gate that cannot be decided counts as (default: exit code 4)",
    )  # fmt: skip
    group.add_argument(
        "--allow", action="append", default=[], metavar="WHAT", type=_kinds,
        help="what may differ between the sides: " + ", ".join(KINDS) + ", or all",
    )  # fmt: skip


def allowed(args: argparse.Namespace) -> set[str]:
    """What `--allow` allows to differ."""
    return {kind for kinds in args.allow for kind in kinds}


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--sort", choices=("impact", "difference", "ratio", "value", "name"), default="impact",
        help="default: impact, the change of the whole by this row, up or down",
    )  # fmt: skip
    group.add_argument("--reverse", "-r", action="store_true", help="the other way round")
    group.add_argument(
        "--limit", "-n", type=options.count, metavar="N",
        help=f"rows a table (default: {PEOPLE_ROWS} for people, all in CSV and JSON)",
    )  # fmt: skip
    group.add_argument("--all", action="store_true", help="all rows")
    forms = group.add_mutually_exclusive_group()
    for form in ("csv", "json", "markdown"):
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form)
    group.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def _part(text: str) -> float:
    return options.percent(text) / 100


def probability(text: str) -> float:
    """An option's value between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no probability between 0 and 1")
    return value


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in (*KINDS, "all"):
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(KINDS)}, all")
    return names


def run(args: argparse.Namespace) -> int:
    parsed = [conditions.parse(text) for text in args.fail_on]
    question = _question(args)
    rule = Rule(args.alpha, args.min_effect, args.min_share, args.correction)
    with ProfileDB.open(options.database_path(args)) as db, terminal.busy("comparing ..."):
        compared = sides.sides(db, args.trials, args.baseline)
        if args.by == "metadata":
            if parsed:
                raise UsageError("--fail-on is of values, and --by metadata compares none")
            known = sides.known(db, compared)
            views = [comparison_views.metadata_view(compared, known, args.all)]
            code = 0
        else:
            views, code = _compare(db, compared, question, rule, parsed, args)
    color = {"auto": None, "always": True, "never": False}[args.color]
    terminal.show_all(views, args.form or "text", color=color)
    return code


def _question(args: argparse.Namespace) -> Question:
    value: Value | Statistic = args.value or ("mean" if args.by == "event" else "exclusive")
    return Question(
        by=args.by,
        metric=args.metric,
        value=value,
        over=args.over,
        level=args.match,
        table=match_table(args.match_table),
        groups=tuple(args.group),
        names=tuple(args.filter),
    )


def match_table(file: str | None) -> Table | None:
    """The user's table of patterns: of this file, else of the project.

    Raises:
        UsageError: it cannot be read, or is no such table.
    """
    if file is None:
        table, source = options.project_settings().get("match"), "[tool.taupy.match]"
        if table is None:
            return None
    else:
        import tomllib

        source = file
        try:
            with open(file, "rb") as stream:
                table = tomllib.load(stream)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise UsageError(f"{source} cannot be read: {problem}") from None
        table = table.get("match", table)
    if not isinstance(table, dict):
        raise UsageError(f"{source} is no table of names and patterns")
    return Table(table, source)


def _compare(
    db: ProfileDB,
    compared: Sequence[Side],
    question: Question,
    rule: Rule,
    parsed: Sequence[conditions.Condition],
    args: argparse.Namespace,
) -> tuple[list[View], int]:
    facts = sides.known(db, compared)
    apart, inside = sides.obstacles(compared, facts)
    answers = comparison.answers(db, compared, question)
    machines = args.form in ("csv", "json")
    limit = None if args.all else args.limit
    if limit is None and not args.all and not machines:
        limit = PEOPLE_ROWS
    layout = Shown(args.sort, args.reverse, limit, 1 - rule.alpha)
    tables = []
    for answer in answers:
        found = [verdicts.verdicts(answer, at, rule) for at in range(1, len(compared))]
        tables.append(comparison_views.rows_view(answer, compared, found, layout))
    notes = _notes(compared, inside, rule)
    if any(answer.metric.unit == "ns" for answer in answers):
        notes += sides.circumstances(compared, facts)
    views = [comparison_views.sides_view(compared, answers)]
    if apart:
        views.append(comparison_views.obstacles_view(compared, apart))
    code = 0
    if parsed:
        judgement = gate.judge(db, compared, parsed, question, rule)
        conclusion = gate.concluded(
            compared, judgement, (apart, inside), allowed(args), args.undecided
        )
        code = conclusion.code
        views.insert(
            0,
            gate_view.conclusion_view(
                parsed, judgement, conclusion, args.form == "json", 1 - rule.alpha
            ),
        )
    if args.form == "csv":
        # One table; the rest is said beside it.
        for text in [*(one.text for one in apart), *notes]:
            say(text)
        if parsed:
            terminal.show(views[0], stream=sys.stderr, color=False)
        return tables, code
    views += tables
    views[-1] = View(views[-1].title, views[-1].columns, views[-1].rows,
                     [*views[-1].notes, *notes])  # fmt: skip
    return views, code


def _notes(
    compared: Sequence[Side], inside: Sequence[tuple[str, Difference]], rule: Rule
) -> list[str]:
    notes = [
        f"the trials of {letter} are not runs of one thing: {one.text}" for letter, one in inside
    ]
    if twice := sides.both_sided(compared):
        notes.append(f"on more than one side: trial {', '.join(map(str, twice))}")
    few = verdicts.too_few([len(side.trials) for side in compared], rule.alpha)
    return [*notes, few] if few else notes
