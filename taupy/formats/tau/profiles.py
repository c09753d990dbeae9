"""TAU's profiles: files `profile.N.C.T` or `dump.N.C.T`, one per thread, in a folder per metric.

All variants of the header are read, including ParaProf's files; summaries (`profile.Mean`) are
omitted, since they can be computed. TAU's pprof and ParaProf open the files written here. `tree.py`
explains how rows become a tree, `names.py` how names are translated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import text as tau_text
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.export import write
from taupy.formats.tau.flat import HOLDS
from taupy.formats.tau.rows import Rows
from taupy.formats.tau.text import PLACE, Event, Header
from taupy.formats.tau.thread import Place
from taupy.formats.tau.tree import TauTimers
from taupy.model.profile import Metric, Profile
from taupy.model.progress import Progress
from taupy.units import listing

MULTI = "MULTI__"
_MOST_NAMED = 5


def recognises(path: Path, first_bytes: bytes) -> bool:
    if not path.is_dir():
        return tau_text.FIRST_LINE.match(first_bytes) is not None
    return any(_files(folder) for folder in _folders(path))


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    """Read a folder or a single file: one profile for each node, all of the same trial."""
    if not source.is_dir():
        yield from read_together([source], progress)
        return
    files = [file for folder in _folders(source) for file in _files(folder)]
    if not files:
        raise refusal(
            source, "", f"contains no profile.N.C.T or dump.N.C.T, nor do folders {MULTI}*"
        )
    yield from _profiles(source, files, progress, _left_out(source))


def read_together(files: Sequence[Path], progress: Progress) -> Iterator[Profile]:
    """Several files of one trial."""
    regular = [file for file in files if PLACE.fullmatch(file.name)]
    summaries = [file.name for file in files if not PLACE.fullmatch(file.name)]
    if not regular and len(files) == 1:
        regular, summaries = list(files), []  # a single file may have any name
    if not regular:
        raise refusal(
            files[0], "", "a summary written by ParaProf; import the files of the threads"
        )
    yield from _profiles(regular[0], regular, progress, summaries)


def _profiles(
    source: Path, files: Sequence[Path], progress: Progress, left_out: list[str]
) -> Iterator[Profile]:
    metrics, by_place, metadata = _surveyed(files)
    common, nodes = tau_thread.separated(metadata)
    progress.begin(source.name, sum(file.stat().st_size for file in files), "B")
    if left_out:
        names = listing(sorted(left_out), _MOST_NAMED)
        common = {**common, IMPORT_NOTES: f"omitted, not a thread's profile: {names}"}
    for node, places in groupby(sorted(by_place), key=lambda place: place[0]):
        timers = TauTimers()
        threads = []
        for place in places:
            measured = by_place[place]
            order = [metric for metric in metrics if metric in measured]
            rows = Rows([metrics[metric] for metric in order])
            events: list[Event] = []
            for number, metric in enumerate(order):
                own_events = tau_text.read(
                    measured[metric], progress, rows, number, one_of_many=True
                )
                events = events or own_events
            threads.append(tau_thread.thread_profile(place, rows, events, metadata[place], timers))
        yield tau_thread.profile(
            source, metrics.values(), timers, threads, common, {node: nodes[node]}
        )


def _surveyed(
    files: Sequence[Path],
) -> tuple[dict[str, Metric], dict[Place, dict[str, Path]], dict[Place, dict[str, str]]]:
    """The metrics by TAU's names, each thread's files by metric, and each thread's metadata."""
    metrics: dict[str, Metric] = {}
    by_place: dict[Place, dict[str, Path]] = {}
    metadata: dict[Place, dict[str, str]] = {}
    for file in files:
        match = PLACE.fullmatch(file.name)
        place = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
        header = tau_text.read_header(file)
        if header.metric not in metrics:
            metrics[header.metric] = _metric(header)
        header.metadata.pop(tau_thread.METRIC, None)
        measured = by_place.setdefault(place, {})
        if header.metric in measured:
            raise refusal(file, "line 1", f"{measured[header.metric]} has {header.metric} already")
        measured[header.metric] = file
        metadata.setdefault(place, header.metadata)
    return metrics, by_place, metadata


def _metric(header: Header) -> Metric:
    """The metric, with the name and unit written by taupy's own export, if any."""
    ours = header.metadata.get(tau_thread.METRIC, "")
    if ours.endswith("]") and " [" in ours:
        return Metric(*ours[:-1].rsplit(" [", 1))
    return tau_names.metric(header.metric)


def _folders(folder: Path) -> list[Path]:
    """The folder itself, or those of its metrics."""
    try:
        multi = sorted(
            Path(entry.path)
            for entry in os.scandir(folder)
            if entry.name.startswith(MULTI) and entry.is_dir()
        )
    except OSError:
        return []
    return [folder for folder in multi if _files(folder)] or [folder]


def _files(folder: Path) -> list[Path]:
    """Profiles of threads; if there are none, the program's dumps (`dump.N.C.T`): forked children,
    for instance, write no profile when they end."""
    try:
        files = sorted(
            Path(entry.path)
            for entry in os.scandir(folder)
            if PLACE.fullmatch(entry.name) and entry.is_file()
        )
    except OSError:
        return []
    return [file for file in files if file.name.startswith("profile.")] or files


def _left_out(source: Path) -> list[str]:
    folders = _folders(source)
    read = {file.name for folder in folders for file in _files(folder)}
    return sorted(
        {
            entry.name
            for folder in folders
            for entry in os.scandir(folder)
            if entry.name.startswith(("profile.", "dump.")) and entry.name not in read
        }
    )


FORMAT = Format(
    name="tau",
    title="TAU profiles",
    suffixes=(),
    recognises=recognises,
    read=read,
    write=write,
    holds=HOLDS,
    folder=True,
    read_together=read_together,
)
