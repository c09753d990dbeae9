"""`taupy import FILE --merge-into TRIAL`: add a file's metrics to an existing trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from taupy.commands import bar
from taupy.commands.messages import say
from taupy.errors import UsageError
from taupy.formats.registry import Format
from taupy.model.launch_counts import LaunchCounts
from taupy.model.progress import Progress
from taupy.units import listing


def run(sources: Sequence[tuple[Format | None, list[Path]]], text: str, database: str) -> int:
    """Add the metrics of files to a trial; returns its number.

    Args:
        sources: files with their formats; None for a saved run of taupy's own.
        text: selects the trial.
        database: path of the database.

    Raises:
        RunsDiffer: a file comes from another program, or contains nothing new.
        UsageError: a saved run, which is a complete trial.
    """
    from taupy.profiledb import selector
    from taupy.profiledb.database import ProfileDB

    with ProfileDB.open(Path(database), create=False, readonly=False) as db:
        trial = selector.trial(db, text).id
        for format, paths in sources:
            if format is None:
                raise UsageError(f"{paths[0]} is a complete run: import it without --merge-into")
            for path in paths:
                for line in _merged(db, trial, format, path):
                    say(line)
    return trial


def _merged(db: object, trial: int, format: Format, path: Path) -> Iterator[str]:
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.launch_merge import merge_launches
    from taupy.profiledb.metrics_merge import merge_metrics

    assert isinstance(db, ProfileDB)
    with bar.shown() as progress:
        if format.name.startswith("ncu"):
            counts, units = _launches(format, path, progress)
            match = merge_launches(db, trial, counts, units)
            new = match.metrics
            yield f"trial {trial}: {match}; new: {listing(new, 8)}"
            yield from (f"note: {note}" for note in match.notes())
            return
        assert format.read is not None
        for profile in format.read(path, progress):
            yield f"trial {trial}: {merge_metrics(db, trial, profile)}"


def _launches(
    format: Format, path: Path, progress: Progress
) -> tuple[list[LaunchCounts], dict[str, str]]:
    from taupy.formats.nsight import ncu_csv, ncu_rep
    from taupy.formats.nsight.ncu_metrics import CountedLaunches

    reader = ncu_rep if format.name == ncu_rep.FORMAT.name else ncu_csv
    counted = CountedLaunches()
    return [counted.counts(launch) for launch in reader.launches(path, progress)], counted.units
