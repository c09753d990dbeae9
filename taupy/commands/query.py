"""Query the database in SQL, with one read-only statement.

    taupy query "SELECT trial_id, application, duration_ns / 1e9 AS s FROM trials"
    taupy query "SELECT * FROM pprof WHERE trial_id = :t LIMIT 20" --param t=3

Views for queries: trials, pprof, function_summary, callpaths, user_events, trial_metadata.
docs/database.md describes them and the tables. They are the same for a store.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import islice

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.pprof import terminal
from taupy.pprof.view import Column, View
from taupy.profiledb.sql import run_sql

_MOST_ROWS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sql", metavar="SQL", help="one statement; `-` reads it from standard input"
    )
    options.add_list_argument(
        parser,
        "--param",
        "NAME=VALUE",
        "value of :NAME; numeric text is passed as a number",
    )
    options.add_limit_argument(parser, f"show N rows (default: {_MOST_ROWS})", _MOST_ROWS)
    options.add_database_argument(parser)
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    statement = sys.stdin.read() if args.sql == "-" else args.sql
    with options.opened(args) as db, bar.shown("running the query"):
        names, answer = run_sql(db, statement, parameters(args.param))
        rows = list(islice(answer, args.limit + 1))
    notes = []
    if len(rows) > args.limit:
        rows.pop()
        notes.append(f"only the first {args.limit} rows; --limit N shows more")
        if terminal.is_for_programs(args.form):
            say(notes[0])
    columns = [Column(name, "any") for name in names]
    terminal.show(View("", columns, rows, notes), form=args.form)
    return 0


def parameters(texts: Sequence[str]) -> dict[str, object]:
    """The values of parameters given as NAME=VALUE; numeric text becomes a number.

    Raises:
        UsageError: there is no `=`, or no name before it.
    """
    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.lstrip(":"):
            raise UsageError(f"--param takes NAME=VALUE, not '{text}'")
        values[name.lstrip(":")] = _value(value)
    return values


def _value(text: str) -> object:
    try:
        number = int(text)
        return number if -(2**63) <= number < 2**63 else text
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
