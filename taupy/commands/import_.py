"""Import profiles of other tools into the database, each as a trial.

    taupy import tau-profiles/           a folder of TAU's profile.N.C.T
    taupy import report.sqlite trace.json.gz stacks.collapsed
    taupy import trace.json --capture FILE   the operators of a CUDA graph, from its capture's trace
    taupy import FILE --format pstats    if the format cannot be recognised
    taupy import taupy.db-UUID.taupy-run a run that was saved beside its database

The format is recognised by content. Each file becomes one trial, in one transaction; the files
that TAU writes per thread in one folder become a single trial.
"""

from __future__ import annotations

import argparse
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from taupy import units
from taupy.analysis import gpu_idle
from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.commands.storer import report
from taupy.errors import FormatError, UsageError
from taupy.formats import registry, times
from taupy.formats.registry import Format
from taupy.instrument.runfolder import new_uuid, state_folders
from taupy.model.gpu_time import stored
from taupy.model.masking import Masking
from taupy.model.profile import Profile
from taupy.model.progress import Progress

_SMALL_BYTES = 16 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="+", metavar="FILE", help="a file, or a TAU profile folder")
    parser.add_argument(
        "--format", metavar="NAME", help="one of: " + ", ".join(f.name for f in registry.readers())
    )
    parser.add_argument(
        "--trace",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep single launches and calls with their times, if the file has them (default), "
        "or only sums",
    )
    parser.add_argument(
        "--capture",
        metavar="FILE",
        help="for a trace that launches a CUDA graph: the trace of its capture, which has the "
        "graph's operators",
    )
    where = parser.add_argument_group("where to store the trial")
    where.add_argument(
        "--application", "--app", metavar="NAME", help="application (default: from the file)"
    )
    where.add_argument("--experiment", metavar="NAME", help='experiment (default: "default")')
    where.add_argument("--name", "--trial", metavar="NAME", help="trial (default: the next number)")
    where.add_argument(
        "--merge-into",
        metavar="TRIAL",
        help="add the file's metrics to that trial of the same program, kernel by kernel for "
        "Nsight Compute's files, call path by call path for others",
    )
    options.add_keep_secrets_argument(where)
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    database, store = options.file_and_store(args)
    chosen = registry.reader(args.format) if args.format else None
    sources = _sources([Path(name) for name in args.file], chosen)
    if args.capture is not None and (
        args.merge_into is not None or len(sources) > 1 or len(sources[0][1]) > 1
    ):
        raise UsageError("--capture is for a single trace, which becomes a trial")
    if args.merge_into is not None:
        from taupy.commands import import_metrics

        database, uuid = options.trial_to_grow(args, args.merge_into)
        trials = [import_metrics.run(sources, uuid, database)]
        _push(database, store, trials)
        return 0
    if args.name is not None and len(sources) > 1:
        raise UsageError(f"--name needs a single trial, but {len(sources)} are imported")
    for format, paths in sources:
        if format is None:
            trials = [_import_rescue(paths[0], args, database)]
        else:
            trials = _import(format, paths, args, database)
        _push(database, store, trials)
    return 0


def _push(database: str, store: str, trials: Sequence[int]) -> None:
    if store:
        from taupy.commands.pushing import pushed

        with bar.shown("pushing"):
            line = pushed(database, store, trials)
        say(line)


def _sources(
    paths: Sequence[Path], chosen: Format | None
) -> list[tuple[Format | None, list[Path]]]:
    """The files of each trial with their format; None for a saved run of taupy's own."""
    sources: list[tuple[Format | None, list[Path]]] = []
    for path in paths:
        first = registry.first_bytes(path)
        if chosen is None and _is_kept_run(path, first):
            sources.append((None, [path]))
            continue
        format = chosen or registry.recognised(path)
        others = _others_of(format, path, sources)
        if others is None:
            sources.append((format, [path]))
        else:
            others.append(path)
    return sources


def _others_of(
    format: Format, path: Path, sources: Sequence[tuple[Format | None, list[Path]]]
) -> list[Path] | None:
    """The earlier files that form one trial with a file; None if there are none."""
    if format.read_together is None or path.is_dir():
        return None
    folder = path.absolute().parent
    # Files of threads and ranks are adjacent; sections of a launch come in any order.
    for other, paths in sources[-1:] if format.belong_together is None else sources:
        if other is not format or paths[0].is_dir() or paths[0].absolute().parent != folder:
            continue
        if format.belong_together is None or format.belong_together(paths[0], path):
            return paths
    return None


def _is_kept_run(path: Path, first: bytes) -> bool:
    if not (first.startswith(b"PK") or (path / "run").is_file()):
        return False
    from taupy.session import is_kept_run

    return is_kept_run(path)


def _import_rescue(path: Path, args: argparse.Namespace, database: str) -> int:
    from taupy.session import import_rescue

    chosen = {
        "application": args.application,
        "experiment": args.experiment,
        "trial": args.name,
    }
    places = {name: text for name, text in chosen.items() if text is not None}
    with bar.shown(f"storing {path.name}"):
        delivery = import_rescue(path, database, places)
    say(*report(delivery))
    assert delivery.trial_id is not None
    return delivery.trial_id


def _import(
    format: Format, paths: list[Path], args: argparse.Namespace, database: str
) -> list[int]:
    from taupy.profiledb import query
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.writer import add_profile, unclashing_name

    stored: dict[int, _Stored] = {}
    with bar.shown() as progress:
        profiles = _profiles(format, paths, args, progress)
        # Small files are read before the database is created or locked.
        first = list(islice(profiles, None if _size(paths) <= _SMALL_BYTES else 2))
        if not first:
            raise FormatError(f"{paths[0]}: contains no profile")
        with ProfileDB.open(database, create=True, readonly=False) as db:
            with db.transaction(), _refusing(paths[0], format):
                for profile in chain(first, profiles):
                    wanted = profile.name
                    profile.name = unclashing_name(db, profile)
                    trial = stored.setdefault(add_profile(db, profile), _Stored())
                    if wanted != profile.name:
                        trial.wanted = wanted
                    trial.threads += len(profile.threads)
                    trial.callpaths += sum(len(thread.tree) for thread in profile.threads)
            for id, trial in stored.items():
                row = db.trial(id)
                trial.name = f"{row.application}/{row.experiment}/{row.name}"
                for fact in query.trial_metadata(db, id):
                    if fact.name == registry.IMPORT_NOTES:
                        trial.notes += fact.value.splitlines()
    for id, trial in stored.items():
        say(f"trial {id} ({trial.name}): {trial.what(format)}")
        for note in trial.notes:
            say(f"note: {note}")
    return list(stored)


@dataclass(slots=True)
class _Stored:
    """An imported trial, for the line that reports it."""

    name: str = ""
    wanted: str | None = None
    threads: int = 0
    callpaths: int = 0
    notes: list[str] = field(default_factory=list)

    def what(self, format: Format) -> str:
        text = f"{units.count(self.callpaths)} call paths, {units.count(self.threads)} thread"
        text += "s" if self.threads != 1 else ""
        text += f", from {format.title}"
        if self.wanted is not None:
            text += f" (another trial is named '{self.wanted}')"
        return text


def _with_capture(
    format: Format, path: Path, capture: Path, progress: Progress
) -> Iterator[Profile]:
    if format.name != "chrome":
        raise UsageError(f"--capture is for a trace of torch.profiler, and {path} is none")
    from taupy.formats.chrome import trace
    from taupy.formats.chrome.capture import captured

    with _refusing(capture, format):
        graph = captured(capture, progress)
    return trace.read(path, progress, graph)


def _profiles(
    format: Format, paths: list[Path], args: argparse.Namespace, progress: Progress
) -> Iterator[Profile]:
    """The profiles of these files, with names and sources from the command line."""
    if len(paths) > 1 and format.read_together is not None:
        profiles = format.read_together(paths, progress)
    else:
        assert format.read is not None
        profiles = (
            format.read(paths[0], progress)
            if args.capture is None
            else _with_capture(format, paths[0], Path(args.capture), progress)
        )
    real: dict[str, str] = {}
    secrets = options.secrets(args)
    masking = Masking(
        next(state_folders()), secrets.get("secrets", ()), keeps="keep_secrets" in secrets
    )
    for profile in _refused_in_one_line(profiles, paths[0], format):
        if args.application is not None:
            profile.application = args.application
        if args.experiment is not None:
            profile.experiment = args.experiment
        if args.name is not None:
            profile.name = args.name
        if not stored(profile.node_metadata):
            gpu_idle.note(profile)
        if not args.trace:
            for measured in profile.threads:
                measured.activities = []
        masking.mask(profile)
        profile.uuid = real.setdefault(profile.uuid, new_uuid())
        source = paths[0] if len(paths) == 1 else paths[0].absolute().parent
        profile.source = f"import {format.name}: {os.path.abspath(source)}"
        yield profile


def _refused_in_one_line(
    profiles: Iterator[Profile], path: Path, format: Format
) -> Iterator[Profile]:
    while True:
        with _refusing(path, format):
            profile = next(profiles, None)
            if profile is None:
                return
            for measured in profile.threads:
                tree = measured.tree
                for column in (tree.calls, tree.subroutines, *tree.exclusive.values()):
                    array(column.typecode, [sum(column)])  # OverflowError if the sum does not fit
            times.check(profile)
        yield profile


@contextmanager
def _refusing(path: Path, format: Format) -> Iterator[None]:
    """Turn unforeseen exceptions of readers into one line about the file."""
    try:
        yield
    except OverflowError:
        raise FormatError(f"{path}: its numbers, or their sums, need more than 64 bits") from None
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as problem:
        raise FormatError(
            f"{path}: cannot be read as {format.title} ({type(problem).__name__}: {problem})"
        ) from problem
    except MemoryError:
        raise FormatError(f"{path}: too large for this machine's memory") from None
    except OSError as problem:
        raise FormatError(f"{path}: {problem.strerror or problem}") from None


def _size(paths: Sequence[Path]) -> int:
    """Bytes of the files, and of those in folders."""
    total = 0
    for path in paths:
        files = path.rglob("*") if path.is_dir() else [path]
        total += sum(file.stat().st_size for file in files if file.is_file())
    return total
