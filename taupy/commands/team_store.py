"""Create and check a team's store: a catalogue in PostgreSQL, and Parquet files beside it.

    taupy store create --db postgresql://me@host/profiles --files /shared/profiles
    taupy store check --db postgresql://me@host/profiles
    taupy store check --db postgresql://me@host/profiles --read --mend

`taupy push` copies trials into a store, `taupy pull` copies them out.
"""

from __future__ import annotations

import argparse

from taupy import units
from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.pprof import terminal

_MOST_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("create", "check"), help="see above")
    parser.add_argument(
        "--db",
        metavar="ADDRESS",
        help="postgresql://USER@HOST/DATABASE (default: $TAUPY_DB, or `db` in pyproject.toml)",
    )
    parser.add_argument(
        "--files",
        metavar="FOLDER",
        help="create: the folder for the files, visible to all machines, or a URL (fsspec)",
    )
    parser.add_argument(
        "--read", action="store_true", help="check: read all files and compare their hashes"
    )
    parser.add_argument(
        "--mend", action="store_true", help="check: delete files that belong to no trial"
    )


def run(args: argparse.Namespace) -> int:
    address = options.store_address(args.db)
    if args.action == "create":
        return _create(address, args)
    if args.files:
        raise UsageError("--files is for `taupy store create`; a store knows where its files are")
    return _check(address, args)


def _create(address: str, args: argparse.Namespace) -> int:
    from taupy.profiledb.store.create import create

    if not args.files:
        raise UsageError("name a folder for the files that all machines see: --files FOLDER")
    if args.read or args.mend:
        raise UsageError("--read and --mend are for `taupy store check`")
    create(address, args.files)
    say(f"the store is ready; fill it with: taupy push --to {address}")
    return 0


def _check(address: str, args: argparse.Namespace) -> int:
    from taupy.profiledb.store.catalogue import Store
    from taupy.profiledb.store.check import check

    with terminal.busy("checking"), Store.open(address) as store:
        checked = check(store, read=args.read, mend=args.mend)
    trials, files = units.several(checked.trials, "trial"), units.several(checked.files, "file")
    say(f"{trials}, {files}, {units.size(checked.bytes)}")
    for uuid, names in checked.lost.items():
        say(
            f"trial {uuid}: {_listed(names)} missing or damaged; delete what is left of it, and "
            "push the trial again from where it was measured"
        )
    if checked.orphans:
        what = "deleted" if args.mend else "--mend deletes them"
        orphans = units.several(len(checked.orphans), "file")
        say(f"{orphans} that no trial has, left by pushes that were ended: {what}")
    return 1 if checked.lost or (checked.orphans and not args.mend) else 0


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
