"""The options of `taupy pprof`, and which of them can be combined."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence

from taupy.commands import answering, options, running
from taupy.errors import UsageError
from taupy.model.options import percentage
from taupy.pprof import flat
from taupy.pprof.figures import SORT_KEYS
from taupy.profiledb.dimensions import WITHIN

PEOPLE_ROWS = 25
"""Default number of rows per table on a terminal."""

TREE_MIN_PERCENT = 1.0
"""Default of --min-share in trees for people."""

STEP = "step"
"""The steps of a training, a dimension of kernels if there is a trace."""

_TABLES_ONLY = ("also", "summary", "summary_only")
_NO_ROUTINES = (*_TABLES_ONLY, "metric", "group", "where", "fold_libraries")

_CONDITION = re.compile(r"(\S.*?)\s*(<=|>=|=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    running.add_trial_argument(
        parser,
        "latest (the default), an id, a name, app/experiment/trial, tag:NAME, gpu=MODEL",
    )
    options.add_database_argument(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="measured or derived (`taupy derive` lists derived ones); default: time, or the "
        "trial's only metric",
    )
    options.add_list_argument(
        parser,
        "--also",
        "NAMES",
        "additional metrics: ipc,gld_per_inst",
    )
    _add_order(parser)
    _add_selection(parser)
    _add_views(parser)
    _add_output(parser)


def _add_order(parser: argparse.ArgumentParser) -> None:
    order = parser.add_argument_group("order")
    order.add_argument(
        "--sort",
        choices=SORT_KEYS,
        metavar="KEY",
        help="sort key, largest first: " + ", ".join(SORT_KEYS) + " (default: inclusive)",
    )
    for letter, key in (
        ("t", "inclusive"),
        ("m", "exclusive"),
        ("c", "calls"),
        ("b", "subroutines"),
        ("e", "exclusive-per-call"),
        ("i", "inclusive-per-call"),
        ("v", "stddev"),
    ):
        order.add_argument(
            f"-{letter}", dest="sort", action="store_const", const=key, help=f"--sort {key}"
        )
    order.add_argument("--reverse", "-r", action="store_true", help="smallest first")
    options.add_limit_argument(
        order, f"N rows per table, the rest as -others- (default on a terminal: {PEOPLE_ROWS})"
    )
    order.add_argument("--all", action="store_true", help="all rows, even on a terminal")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_argument_group("selection", "each option may be repeated")
    options.add_list_argument(chosen, "--thread", "N.C.T", "0.0.1, 0.*.*, 0 or all")
    options.add_list_argument(chosen, "--node", "N", "threads of this node", options.count)
    options.add_routines_arguments(chosen)
    options.add_list_argument(
        chosen,
        "--where",
        "CONDITION",
        "routines that meet a condition over the chosen threads: 'ipc < 1', 'time > 2e6'",
        _condition,
    )
    chosen.add_argument(
        "--fold-libraries",
        action="store_true",
        help="count what happens inside a library for the call that enters it",
    )


def _add_views(parser: argparse.ArgumentParser) -> None:
    views = parser.add_argument_group("views", "default: TAU's tables, thread by thread")
    views.add_argument(
        "--summary-only", "-s", action="store_true", help="only the sums over all threads"
    )
    options.add_list_argument(
        views,
        "--summary",
        "WHICH",
        ",".join(flat.STATISTICS) + " over threads (default: total,mean)",
        _statistics,
    )
    views.add_argument("--tree", action="store_true", help="every routine under its caller")
    views.add_argument(
        "--depth", type=options.count, metavar="N", help="levels of callees in a tree"
    )
    views.add_argument(
        "--min-share",
        "--min-percent",  # its old name
        type=answering.argument(percentage),
        metavar="PERCENT",
        help="hide call paths below this share of the whole in a tree (default: "
        f"{TREE_MIN_PERCENT:g}%%; none in CSV and JSON)",
    )
    views.add_argument("--callers", metavar="ROUTINE", help="callers of a routine")
    views.add_argument("--callees", metavar="ROUTINE", help="routines that it calls")
    views.add_argument(
        "--by", choices=(*WITHIN, STEP), metavar="DIMENSION",
        help="sums by " + ", ".join(WITHIN) + f"; with --kernels, of GPU work, or by {STEP}",
    )  # fmt: skip
    views.add_argument("--events", action="store_true", help="user events, call path by call path")
    views.add_argument("--kernels", action="store_true", help="GPU kernels, and who launched them")
    views.add_argument("--list", "-l", action="store_true", help="the names of all routines")


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    options.add_form_arguments(output, ("--csv", "-d"))
    output.add_argument("--plain", "-p", action="store_true", help="plain msec, not h:mm:ss.mmm")
    options.add_color_argument(output)
    # TAU's letters without a meaning here; each has its own message.
    output.add_argument("-a", action="store_true", help=argparse.SUPPRESS)
    output.add_argument("-f", metavar="PREFIX", help=argparse.SUPPRESS)
    output.add_argument("-x", action="store_true", help=argparse.SUPPRESS)


def _statistics(text: str) -> tuple[flat.Statistic, ...]:
    names = [name.strip() for name in text.split(",")]
    by_name: dict[str, flat.Statistic] = {name: name for name in flat.STATISTICS}
    for name in names:
        if name not in by_name:
            raise argparse.ArgumentTypeError(
                f"unknown summary {name!r} (known: {', '.join(by_name)})"
            )
    return tuple(by_name[name] for name in names)


def _condition(text: str) -> tuple[str, str, float]:
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a condition: write METRIC < NUMBER (or <=, >, >=, =)"
        )
    return match[1], match[2], float(match[3])


_WITHOUT: Mapping[str, Sequence[str]] = {
    "--tree": ("summary",),
    "--callers or --callees": (*_TABLES_ONLY, "group", "filter", "where"),
    "--by": _TABLES_ONLY,
    "--events": (*_NO_ROUTINES, "sort", "reverse"),
    "--kernels": _NO_ROUTINES,
    "--list": (*_TABLES_ONLY, "sort", "reverse"),
}
"""Options that would change nothing in a view."""


def check(args: argparse.Namespace) -> None:
    """Refuse options that cannot be combined, and set those that depend on others.

    Raises:
        UsageError: the message names them.
    """
    if args.f is not None:
        raise UsageError(
            "-f names profile files in TAU; here, choose a trial with TRIAL and a database with "
            "--db"
        )
    if args.x:
        raise UsageError("-x has no meaning here; `taupy pprof --help` lists the options")
    if args.all and args.limit is not None:
        raise UsageError("--all and --limit cannot be combined: use one of them")
    views = {
        "--tree": args.tree,
        "--callers or --callees": args.callers is not None or args.callees is not None,
        "--by": args.by is not None and not args.kernels,
        "--events": args.events,
        "--kernels": args.kernels,
        "--list": args.list,
    }
    chosen_views = [name for name, given in views.items() if given]
    if len(chosen_views) > 1:
        raise UsageError(f"{' and '.join(chosen_views)} are different views: choose one")
    if args.by == STEP and not args.kernels:
        raise UsageError("--by step is `taupy steps`, also for --metric NAME")
    for view in chosen_views:
        for option in _WITHOUT[view]:
            if getattr(args, option) not in (None, False, []):
                name = f"--{option.replace('_', '-')}"
                raise UsageError(f"{name} does not apply to {view}")
    if not args.tree and (args.depth is not None or args.min_share is not None):
        raise UsageError("--depth and --min-share apply to the call tree: add --tree")
    if chosen_views and args.sort == "stddev":
        raise UsageError(f"--sort stddev applies to TAU's tables, not to {chosen_views[0]}")
    args.sort = args.sort or "inclusive"
