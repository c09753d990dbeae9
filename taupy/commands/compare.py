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

from taupy.analysis import gate as conditions
from taupy.analysis import match
from taupy.analysis.comparable import KINDS, Difference
from taupy.analysis.match import Table
from taupy.commands import compare_code, options
from taupy.commands.messages import say
from taupy.comparison import comparison, comparison_views, gate, gate_view, sides, verdicts
from taupy.comparison.comparison import BYS, STATISTICS, Question, Statistic
from taupy.comparison.comparison_views import Shown
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import VALUES, Value
from taupy.comparison.verdicts import Rule
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.pprof.view import View
from taupy.profiledb.database import ProfileDB

PEOPLE_ROWS = 25
"""Default number of rows in tables for people."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trials",
        nargs="*",
        metavar="TRIAL",
        help="latest, an id, app/experiment/trial, tag:NAME, gpu=MODEL, meta.NAME=VALUE, or "
        "several of these joined by commas; two or more TRIALs",
    )
    parser.add_argument(
        "--baseline", metavar="TRIAL", help="compare the others with this, such as tag:main"
    )
    options.add_database_argument(parser)
    _add_question(parser)
    _add_matching(parser)
    _add_statistics(parser)
    _add_gate(parser)
    _add_output(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to compare")
    group.add_argument(
        "--by", choices=BYS, default="routine", metavar="DIMENSION",
        help=", ".join(BYS) + " (default: routine, with GPU work in a separate table)",
    )  # fmt: skip
    group.add_argument("--metric", default="time", metavar="NAME", help="default: time")
    group.add_argument(
        "--value", choices=(*VALUES, *STATISTICS), default=None, metavar="WHICH",
        help=", ".join(VALUES) + " (default: exclusive); for user events "
        + ", ".join(STATISTICS) + " (default: mean)",
    )  # fmt: skip
    group.add_argument(
        "--over",
        choices=("total", "mean", "max"),
        default="total",
        help="how to combine a trial's threads",
    )
    group.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="only routines in this group"
    )
    group.add_argument(
        "--filter", action="append", default=[], metavar="PATTERN",
        help="only routines whose name contains TEXT, matches a pattern with * and ?, or /REGEX/",
    )  # fmt: skip


def _add_matching(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how to match names")
    group.add_argument(
        "--match", choices=match.LEVELS, default="auto",
        help="kernels: by full names, shortened only until a match is found (auto), or all "
        "shortened alike; exact: full names only, with line numbers for routines",
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
        help="ignore smaller changes (default: 5%%)",
    )  # fmt: skip
    group.add_argument(
        "--min-share", type=_part, default=verdicts.MIN_SHARE, metavar="PERCENT",
        help="do not test rows below this share of the whole (default: 1%%)",
    )  # fmt: skip
    group.add_argument(
        "--correction", choices=("maxt", "holm", "bh", "none"), default="maxt",
        help="correction for multiple comparisons (default: maxt, Westfall and Young's)",
    )  # fmt: skip


def _add_gate(parser: argparse.ArgumentParser) -> None:
    add_gate_arguments(parser.add_argument_group("a gate for CI"))


def add_gate_arguments(group: argparse._ArgumentGroup, required: bool = False) -> None:
    """Add `--fail-on`, `--undecided` and `--allow`."""
    group.add_argument(
        "--fail-on", required=required, action="append", default=[], metavar="CONDITION",
        help="'time > +5%%', 'time of forward > +2 ms', 'calls of load > +0'; exit code 3 if "
        "it fails, 4 if it is undecided; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--undecided", choices=("pass", "fail"), default=None,
        help="how to treat an undecided gate (default: exit code 4)",
    )  # fmt: skip
    group.add_argument(
        "--allow", action="append", default=[], metavar="WHAT", type=_kinds,
        help="allowed differences between the sides: " + ", ".join(KINDS) + ", or all",
    )  # fmt: skip


def allowed(args: argparse.Namespace) -> set[str]:
    """The differences that `--allow` permits."""
    return {kind for kinds in args.allow for kind in kinds}


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--sort", choices=("impact", "difference", "ratio", "value", "name"), default="impact",
        help="sort key (default: impact, the row's effect on the whole, up or down)",
    )  # fmt: skip
    group.add_argument("--reverse", "-r", action="store_true", help="reverse the order")
    options.add_limit_argument(
        group, f"rows per table (default: {PEOPLE_ROWS} for people, all in CSV and JSON)"
    )
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability between 0 and 1")
    return value


def _kinds(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in (*KINDS, "all"):
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(KINDS)}, all")
    return names


def run(args: argparse.Namespace) -> int:
    parsed = [conditions.parse(text) for text in args.fail_on]
    if compare_code.means_code(args):
        return compare_code.run(args, parsed, match_table(args.match_table))
    question = _question(args)
    rule = Rule(args.alpha, args.min_effect, args.min_share, args.correction)
    with ProfileDB.open(options.database_path(args)) as db, terminal.busy("comparing ..."):
        compared = sides.sides(db, args.trials, args.baseline)
        if args.by == "metadata":
            if parsed:
                raise UsageError("--fail-on needs values, and --by metadata compares none")
            facts = sides.facts_of(db, compared)
            views = [comparison_views.metadata_view(compared, facts, args.all)]
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
    """The user's table of name patterns, from this file or else from the project.

    Raises:
        UsageError: the file cannot be read or is not such a table.
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
        raise UsageError(f"{source} is not a table of names and patterns")
    return Table(table, source)


def _compare(
    db: ProfileDB,
    compared: Sequence[Side],
    question: Question,
    rule: Rule,
    parsed: Sequence[conditions.Condition],
    args: argparse.Namespace,
) -> tuple[list[View], int]:
    facts = sides.facts_of(db, compared)
    apart, inside = sides.obstacles(compared, facts)
    answers = comparison.answers(db, compared, question)
    machines = args.form in ("csv", "json")
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
        # One table; the others are summarized in notes.
        for text in [*(difference.text for difference in apart), *notes]:
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
        f"the trials of side {letter} differ: {difference.text}" for letter, difference in inside
    ]
    if twice := sides.both_sided(compared):
        notes.append(f"on more than one side: trial {', '.join(map(str, twice))}")
    few = verdicts.too_few([len(side.trials) for side in compared], rule.alpha)
    return [*notes, few] if few else notes
