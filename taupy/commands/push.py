"""Copy trials into a team's store.

    taupy push --to postgresql://me@host/profiles            all trials of ./taupy.db
    taupy push latest --to postgresql://me@host/profiles
    taupy push tag:base gpu=H200 --db runs.db --to postgresql://me@host/profiles

A trial that is already in the store is not copied again; one that has grown since (more ranks,
metrics or tags) is completed there. An interrupted push leaves every trial whole or absent.
"""

from __future__ import annotations

import argparse

from taupy import units
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.profiledb.merged import rest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.store.push import Pushed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trial", nargs="*", metavar="TRIAL", help="trials as for `taupy trials` (default: all)"
    )
    options.add_database_argument(parser)
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        help="postgresql://USER@HOST/DATABASE (default: $TAUPY_DB, or `db` in pyproject.toml)",
    )
    options.add_with_source_argument(parser)


def run(args: argparse.Namespace) -> int:
    from taupy.store.push import Pushed, push

    file, store = options.file_and_store(args)
    address = options.store_address(args.to or store)
    pushed = Pushed()
    try:
        with bar.shown("pushing") as progress:
            for so_far in push(file, address, args.trial, progress, with_source=args.with_source):
                pushed = so_far
    except BaseException:
        if pushed != Pushed():
            say(*report(pushed))
        raise
    say(*report(pushed))
    return 0


def report(pushed: Pushed) -> list[str]:
    """What was copied: one line, and one for each new name."""
    parts = [
        f"{units.several(len(trials), 'trial')} {what}{_numbers(trials)}"
        for trials, what in (
            (pushed.added, "added"),
            (pushed.replaced, "completed"),
            (pushed.present, "already there"),
        )
        if trials
    ]
    parts += rest(pushed.ceilings, pushed.derived, pushed.kernels)
    size = f", {units.size(pushed.bytes)} of files" if pushed.bytes else ""
    return [
        (", ".join(parts) or "nothing new") + size,
        *(
            f"note: renamed because the name was taken: {old} is {new}"
            for old, new in pushed.renamed
        ),
    ]


def _numbers(trials: list[tuple[int, int]]) -> str:
    """The numbers of the trials here and in the store, unless they are many."""
    if len(trials) > 8:
        return ""
    return " (" + ", ".join(f"{number} is {in_store}" for number, in_store in trials) + ")"
