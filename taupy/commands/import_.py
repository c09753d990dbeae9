"""Store a run that was kept beside its database because that could not take it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from taupy.commands import options
from taupy.commands.store import report
from taupy.errors import FormatError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", help="a *.taupy-run file")
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    from taupy.session import import_rescue

    database = options.database_path(args)
    for name in args.file:
        path = Path(name)
        if not path.is_file():
            raise FormatError(f"there is no file {path} to import")
        print(f"taupy: {report(import_rescue(path, database))}", file=sys.stderr)
    return 0
