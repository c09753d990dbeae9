"""Write a trial to a file for other tools.

    taupy export TRIAL --format tau -o DIR    a folder of profile.N.C.T, for TAU's tools
    taupy export TRIAL -o flame.collapsed     the suffix determines the format
    taupy export TRIAL --format csv -o -      to standard output
    taupy export TRIAL -o flame.collapsed --min-share 0.1     fold call paths below 0.1 %

Whatever the format cannot hold is listed on stderr. A file name ending in .gz is compressed.
An existing file is replaced only with --force, and atomically: the new one is written beside it
and then renamed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from taupy import units
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.escaping import guarded
from taupy.formats import registry
from taupy.formats.folding import Folding, folded
from taupy.formats.registry import Format
from taupy.model.job import spans
from taupy.model.profile import Profile
from taupy.profiledb import selector

STANDARD_OUTPUT = "-"
_LARGE = 64 << 20  # bytes; above this, suggest folding
_FOLDING = ", ".join(writer.name for writer in registry.writers() if writer.folds)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trial", nargs="?", default=selector.LATEST, help="trial to export (default: latest)"
    )
    parser.add_argument(
        "--format", metavar="NAME", help="one of: " + ", ".join(f.name for f in registry.writers())
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="`-`: stdout")
    parser.add_argument(
        "--min-share",
        type=float,
        metavar="PERCENT",
        help="fold call paths with less than this share of the total in every metric into one "
        f"per caller ({_FOLDING})",
    )
    parser.add_argument(
        "--depth", type=int, metavar="N", help="also fold call paths deeper than N calls"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    from taupy.profiledb.reader import read_profile
    from taupy.ranks.host_times import offsets_ns

    format = _format(args)
    folding = _folding(args, format)
    target = None if args.output == STANDARD_OUTPUT else Path(args.output)
    if target is None and format.folder:
        raise UsageError(f"{format.title} is written as a folder; name one: -o FOLDER")
    if target is not None and target.exists():
        _check_replacing(target, format, force=args.force)
    with options.opened(args) as db, bar.shown("reading the trial"):
        trial = selector.trial(db, args.trial)
        profile = read_profile(db, trial.id)
        notes = []
        if "activities" in format.holds:
            notes += _aligned(profile, offsets_ns(db, trial.id))
    if folding is not None:
        profile, count = folded(profile, folding)
        notes.append(f"folded {count:,} call paths into their callers")
    with bar.shown() as progress, _written(target, format) as draft:
        notes += registry.exported(profile, format, draft, progress)
        if folding is None and format.folds and draft.stat().st_size > _LARGE:
            size = units.prefixed(draft.stat().st_size, "B")
            notes.append(f"{size}; --min-share 0.1 folds call paths below 0.1 % of the total")
        if draft.suffix.lower() == ".gz" and not format.folder:
            _pack(draft)
    name = f"{trial.application}/{trial.experiment}/{trial.name}"
    place = "standard output" if target is None else str(target)
    say(f"trial {trial.id} ({name}) written to {place}, {format.title}")
    if target is not None and _is_named_otherwise(target, format):
        usual = ", ".join(format.suffixes)
        notes.append(f"{target.name} is {format.title}, whatever its name; these end in {usual}")
    for line in notes:
        say(f"note: {line}")
    return 0


def _is_named_otherwise(target: Path, format: Format) -> bool:
    """Whether the name ends as those of other formats do, and not as this one's."""
    name = target.name.lower().removesuffix(".gz")
    endings = {Path(suffix).suffix or suffix
               for writer in registry.writers() for suffix in writer.suffixes}  # fmt: skip
    own = {suffix.removesuffix(".gz") for suffix in format.suffixes}
    return bool(own) and not name.endswith(tuple(own)) and Path(name).suffix in endings


def _aligned(profile: Profile, offsets: Mapping[int, int]) -> list[str]:
    """Move times of hosts whose clocks differ to one clock, and say so."""
    from taupy.ranks.host_times import move_to_one_clock

    move_to_one_clock(profile, offsets)
    by_offset: dict[int, list[int]] = {}
    for node, offset in offsets.items():
        by_offset.setdefault(offset, []).append(node)
    return [
        f"the clock of node {spans(sorted(nodes))} is {units.duration(offset)} ahead: its times "
        "are shown earlier by that"
        for offset, nodes in sorted(by_offset.items())
    ]


def _folding(args: argparse.Namespace, format: Format) -> Folding | None:
    """The call paths to fold; None for none."""
    if args.min_share is None and args.depth is None:
        return None
    if not format.folds:
        raise UsageError(f"--min-share and --depth work with {_FOLDING}, not with {format.name}")
    share = 0.0 if args.min_share is None else args.min_share
    if not 0 <= share <= 100:
        raise UsageError("--min-share must be a percentage from 0 to 100")
    if args.depth is not None and args.depth < 1:
        raise UsageError("--depth must be at least 1")
    return Folding(share / 100, args.depth)


def _pack(draft: Path) -> None:
    """Compress the file with gzip, unless its format is compressed already."""
    with open(draft, "rb") as plain:
        if plain.read(2) == b"\x1f\x8b":
            return
        plain.seek(0)
        packed = draft.with_name(draft.name + ".packed")
        with open(packed, "wb") as out, gzip.GzipFile("", "wb", 6, out, mtime=0) as file:
            shutil.copyfileobj(plain, file, 1 << 20)
    os.replace(packed, draft)


def _check_replacing(target: Path, format: Format, *, force: bool) -> None:
    """Refuse to replace a folder that holds files taupy would not write there.

    Raises:
        UsageError: the target must not be replaced.
    """
    if not force:
        raise UsageError(f"{target} already exists; --force replaces it")
    if target.is_dir():
        if not format.folder:
            raise UsageError(f"{target} is a folder, and {format.title} is a file")
        for path in target.rglob("*"):
            if not path.name.startswith(("profile.", "MULTI__")):
                raise UsageError(f"{target} contains other files ({path.name}); not replaced")


def _format(args: argparse.Namespace) -> Format:
    if args.format:
        return registry.writer(args.format)
    if args.output == STANDARD_OUTPUT:
        names = ", ".join(writer.name for writer in registry.writers())
        raise UsageError(f"name the output format: --format {{{names}}}")
    return registry.writer_for(Path(args.output))


@contextlib.contextmanager
def _written(target: Path | None, format: Format) -> Iterator[Path]:
    """A place to write to; what was written there then replaces the target.

    Raises:
        TaupyError: the file cannot be written; the target is unchanged.
    """
    folder = None if target is None else target.absolute().parent
    place = "standard output" if target is None else str(target)
    try:
        with tempfile.TemporaryDirectory(prefix=".taupy-export-", dir=folder) as beside:
            draft = Path(beside, "export" if target is None else target.name)
            yield draft
            if target is None:
                _check_screen(draft, format)
                with open(draft, "rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.flush()
            else:
                _move(draft, target, Path(beside, "replaced"))
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise TaupyError(f"{place} cannot be written: {problem.strerror or problem}") from None


def _check_screen(draft: Path, format: Format) -> None:
    """Refuse to write binary data to a terminal, which would interpret it.

    Raises:
        UsageError: standard output is a terminal, and the file is not plain text.
    """
    if not sys.stdout.isatty():
        return
    text = draft.read_bytes().decode("utf-8", "surrogateescape")
    if guarded(text) != text:
        raise UsageError(f"{format.title} is binary; write it to a file: -o FILE")


def _move(draft: Path, target: Path, aside: Path) -> None:
    """Move the draft to the target; an existing folder is moved aside first."""
    if target.is_dir() and not target.is_symlink():
        os.rename(target, aside)
    elif draft.is_dir() and target.exists():
        target.unlink()
    os.replace(draft, target)
