"""Create, check and clean up a team's store: a catalogue in PostgreSQL, and Parquet files.

    taupy store create --db postgresql://me@host/profiles --files /shared/profiles
    taupy store check --db postgresql://me@host/profiles
    taupy store check --db postgresql://me@host/profiles --read --mend
    taupy store compact                    which small files would become larger ones
    taupy store compact --yes
    taupy store retain --days 180 --keep tag:base           which trials would be deleted
    taupy store retain --days 180 --keep tag:base --yes

`taupy push` copies trials into a store, `taupy pull` copies them out.
"""

from __future__ import annotations

import argparse
import shlex

from taupy import units
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import UsageError

_MOST_NAMED = 5
_OPTIONS = {
    "create": ("files",),
    "check": ("read", "mend"),
    "compact": ("yes",),
    "retain": ("yes", "days", "keep"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=[*_OPTIONS], help="see above")
    options.add_trust_files_argument(parser)
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
    parser.add_argument(
        "--days", type=float, metavar="N", help="retain: delete trials that are older"
    )
    parser.add_argument(
        "--keep", action="append", metavar="TRIAL", help="retain: but these (as for `taupy trials`)"
    )
    parser.add_argument(
        "--yes", action="store_true", help="compact, retain: do it, instead of saying what"
    )


def run(args: argparse.Namespace) -> int:
    address = options.store_address(args.db)
    for action, names in _OPTIONS.items():
        for name in names:
            if getattr(args, name) and name not in _OPTIONS[args.action]:
                raise UsageError(f"--{name} is for `taupy store {action}`")
    actions = {"create": _create, "check": _check, "compact": _compact, "retain": _retain}
    return actions[args.action](address, args)


def _create(address: str, args: argparse.Namespace) -> int:
    from taupy.store.create import create

    if not args.files:
        raise UsageError("name a folder for the files that all machines see: --files FOLDER")
    with bar.shown("creating the store"):
        prefix = create(address, args.files)
    say(f"the store is ready; fill it with: taupy push --to {shlex.quote(address)}")
    if prefix:
        say(f"its roles: {prefix}_reader, {prefix}_writer, {prefix}_owner; GRANT them to users")
    else:
        say("note: this user may not make roles (CREATEROLE), so others see what it lets them see")
    return 0


def _check(address: str, args: argparse.Namespace) -> int:
    from taupy.store.catalogue import Store
    from taupy.store.check import check

    with bar.shown("checking"), Store.open(address) as store:
        checked = check(store, read=args.read, mend=args.mend)
    trials, files = units.several(checked.trials, "trial"), units.several(checked.files, "file")
    say(f"{trials}, {files}, {units.size(checked.bytes)}")
    for uuid, names in checked.lost.items():
        say(
            f"trial {uuid}: {units.listing(names, _MOST_NAMED)} missing or damaged; delete the "
            "rest of it, and push the trial again from where it was measured"
        )
    if checked.orphans:
        what = "deleted" if args.mend else "--mend deletes them"
        orphans = units.several(len(checked.orphans), "file")
        say(f"{orphans} of no trial, left by interrupted pushes: {what}")
    return 1 if checked.lost or (checked.orphans and not args.mend) else 0


def _compact(address: str, args: argparse.Namespace) -> int:
    from taupy.store.catalogue import Store
    from taupy.store.compact import compact, planned

    doing = "joining files" if args.yes else "reading the store"
    with bar.shown(doing), Store.open(address) as store:
        plans = list(compact(store)) if args.yes else planned(store)
    what = "became" if args.yes else "would become"
    if not plans:
        say("there are no small files to join")
        return 0
    files, size = sum(plan.files for plan in plans), sum(plan.bytes for plan in plans)
    hint = "" if args.yes else "; --yes joins them"
    say(f"{files} files of {units.size(size)} {what} {len(plans)}{hint}")
    return 0


def _retain(address: str, args: argparse.Namespace) -> int:
    from taupy.store.catalogue import Store
    from taupy.store.retain import delete, expired

    if args.days is None:
        raise UsageError("say how long trials are kept: --days N")
    with bar.shown("reading the store"):
        trials = expired(address, args.days, args.keep or ())
    for trial in [] if args.yes else trials:
        say(f"{trial.id} {trial.application}/{trial.experiment}/{trial.name}, {trial.started_at}")
    if args.yes and trials:
        with bar.shown("deleting trials"), Store.open(address) as store:
            deleted = delete(store, [trial.id for trial in trials])
        say(f"{units.several(deleted, 'trial')} deleted")
    else:
        hint = "; --yes deletes them" if trials else ""
        say(f"{units.several(len(trials), 'trial')} older than {args.days:g} days{hint}")
    return 0
