"""Combine the trials of several databases in one.

    taupy merge a.db b.db                  copy b's trials into a.db
    taupy merge a.db b.db --into c.db      copy both into c.db, which is created if missing
    taupy merge shard-*.db --into all.db --trial tag:base
    taupy merge old.db --into new.db --trial 12 --move
    taupy merge runs.db --into postgresql://me@host/profiles        as `taupy push`
    taupy merge postgresql://me@host/profiles --into all.db         as `taupy pull`

A trial that is present already is not copied again. Ceilings, derived metrics and the code of
kernels are copied, too.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.model import job
from taupy.profiledb.address import is_address
from taupy.profiledb.merged import Merged, MovedTrial, rest
from taupy.units import listing, several

_MOST_NAMED = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", metavar="FILE", help="databases")
    parser.add_argument(
        "--into", metavar="FILE", help="the database that receives them (default: the first FILE)"
    )
    options.add_list_argument(
        parser,
        "--trial",
        "TRIAL",
        "only trials that match (as for `taupy trials`); may be repeated",
    )
    parser.add_argument(
        "--move",
        action="store_true",
        help="delete merged trials from the source once they are stored",
    )
    options.add_with_source_argument(parser)
    options.add_trust_argument(parser)


def run(args: argparse.Namespace) -> int:
    from taupy.profiledb.merge import merge

    files = [os.fspath(name) for name in args.file]
    if args.into is None and len(files) < 2:
        raise UsageError(f"{files[0]} cannot be merged alone: name more files, or --into FILE")
    target = files.pop(0) if args.into is None else args.into
    if any(map(is_address, [target, *files])):
        for source in files:
            _copy(source, target, args)
        return 0
    for path in [target, *files]:
        options.recover_first(os.path.abspath(path))
    with bar.shown("merging") as progress:
        results = merge(
            target,
            files,
            args.trial,
            move=args.move,
            with_source=args.with_source or args.move,
            progress=progress,
        )
    for result in results:
        for line in report(result, moved=args.move):
            say(f"{result.source}: {line}")
    _say_what_is_missing(target, results)
    return 0


def _copy(source: str, target: str, args: argparse.Namespace) -> None:
    """Copy trials into a store or out of it, or from one file of several into another."""
    from taupy.commands import push
    from taupy.profiledb.merge import merge
    from taupy.store.pull import pull
    from taupy.store.push import Pushed
    from taupy.store.push import push as pushing

    if args.move:
        raise UsageError("--move is for files; `taupy trials delete` deletes trials of a store")
    for path in (source, target):
        options.recover_first(path if is_address(path) else os.path.abspath(path))
    if is_address(target) and is_address(source):
        raise UsageError("from one store into another, merge by way of a file")
    with bar.shown("copying") as progress:
        if is_address(target):
            pushed = Pushed()
            for so_far in pushing(
                source, target, args.trial, progress, with_source=args.with_source
            ):
                pushed = so_far
            lines = push.report(pushed)
        else:
            results = (
                pull(source, target, args.trial or ["*"], progress)
                if is_address(source)
                else merge(
                    target, [source], args.trial, with_source=args.with_source, progress=progress
                )
            )
            lines = [line for result in results for line in report(result)]
    for line in lines:
        say(f"{source}: {line}")


def _say_what_is_missing(target: str, results: Sequence[Merged]) -> None:
    """Report the ranks of jobs that have not been merged yet."""
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.query import node_facts

    touched = {
        n for result in results for n in (*result.joined, *(new.new_id for new in result.added))
    }
    with ProfileDB.open(target) as db:
        for trial in sorted(touched):
            for line in job.lines_of(job.missing(node_facts(db, trial))):
                say(f"note: trial {trial}: {line}")


def report(result: Merged, *, moved: bool = False) -> list[str]:
    """What a source added: one line, followed by one for each change or conflict."""
    parts = []
    if result.added:
        verb = "moved" if moved else "added"
        parts.append(f"{several(len(result.added), 'trial')} {verb} ({_numbers(result.added)})")
    if result.joined:
        parts.append(
            f"{several(len(result.joined), 'trial')} completed "
            f"({listing(result.joined, _MOST_NAMED)})"
        )
    if result.present:
        parts.append(f"{several(len(result.present), 'trial')} already there")
    parts += rest(result.ceilings, result.derived, result.kernels)
    lines = [", ".join(parts) or "nothing new"]
    renamed = [
        f"{trial.old_name} is {trial.new_name}"
        for trial in result.added
        if trial.new_name != trial.old_name
    ]
    if renamed:
        lines.append(f"note: renamed because the name was taken: {listing(renamed, _MOST_NAMED)}")
    lines += [
        f"note: trial {trial} has different calls in the two databases; it was left unchanged"
        for trial in result.differing
    ]
    lines += [
        f"note: node {node} of trial {trial} is another process here: it was left as it is"
        for trial, node in result.others[:_MOST_NAMED]
    ]
    lines += [
        f"note: the derived metric '{name}' is defined differently here; it was left unchanged"
        for name in result.kept
    ]
    return lines


def _numbers(added: list[MovedTrial]) -> str:
    return listing(
        [
            trial.new_id if trial.new_id == trial.old_id else f"{trial.old_id} is {trial.new_id}"
            for trial in added
        ],
        _MOST_NAMED,
    )
