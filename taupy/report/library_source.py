"""The text of library files with the time of their routines, for a page that is asked for it.

A trial keeps no text of libraries, so it is read from this machine. No path in a database from
elsewhere may make a page show another file of yours: a file is read only if the trial is of this
machine, if it is a library's wherever links lead, and if it was written before the trial began.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from taupy.answers.own_code import OwnCode, OwnRoutine
from taupy.answers.places import short
from taupy.model.masking import Masking
from taupy.model.names import is_library
from taupy.model.question import VALUES, Condition, Question
from taupy.model.rows import TimerRow, TrialRow
from taupy.model.source_text import LARGEST
from taupy.pprof.fold import is_library_code
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.source_texts import Source
from taupy.profiledb.sources import timer_paths
from taupy.profiledb.values import values
from taupy.report.evidence import unchanged_sources

MOST_FILES = 20
"""Files of libraries, the dearest first; their text is at most `LARGEST` bytes."""

LEAST_SHARE = 0.0001
"""Routines with less than this share of the run are left out."""

_NOTE = "of a library, read from this machine; its routines' own time, C functions included"


def library_code(db: ProfileDB, trial: TrialRow, own: Collection[str]) -> OwnCode:
    """Files of libraries and their routines, the dearest first.

    Args:
        own: the program's own files, as displayed.
    """
    paths = _real_paths(timer_paths(db, trial.id))
    metadata = query.metadata_by_node(db, trial.id).get(None, {})
    text_of = unchanged_sources(trial, {name: str(metadata[name]) for name in metadata}, paths)
    by_path: dict[str, list[OwnRoutine]] = {}
    timers: dict[str, TimerRow] = {}
    for timer, routine in _routines(db, trial, paths):
        if timer.file not in own and routine.path is not None:
            by_path.setdefault(routine.path, []).append(routine)
            timers.setdefault(routine.path, timer)
    dearest = sorted(by_path, key=lambda path: -sum(routine.ns for routine in by_path[path]))
    masking, room = Masking(""), LARGEST
    files: list[Source] = []
    for path in dearest:
        text = text_of(timers[path]) if len(files) < MOST_FILES else None
        if text is not None and len(text) <= room:
            room -= len(text)
            lines = masking.source(text)[0].split("\n")
            files.append(Source(path, timers[path].file or path, lines, "disk", _NOTE))
    kept = {file.path for file in files}
    routines = [routine for path in dearest if path in kept for routine in by_path[path]]
    return OwnCode(routines, files, ())


def _real_paths(paths: Mapping[str, str | None]) -> dict[str, str | None]:
    """The paths of library files, links resolved."""
    real = {}
    for timer, path in paths.items():
        if path is not None and os.path.isabs(path) and is_library(path):
            resolved = os.path.realpath(path)
            if resolved.endswith(".py") and is_library(resolved):
                real[timer] = resolved
    return dict(real)


def _routines(
    db: ProfileDB, trial: TrialRow, paths: Mapping[str, str | None]
) -> list[tuple[TimerRow, OwnRoutine]]:
    host = Condition("kind", ("host",))
    table = values(db, Question((trial.id,), by=("timer",), where=(host,), values=VALUES))
    columns: list[Any] = [
        table.row_labels("timer"),
        table.column("exclusive", "time"),
        table.column("inclusive", "time"),
        table.column("calls"),
    ]
    least = LEAST_SHARE * trial.duration_ns
    return [
        (timer, _routine(timer, paths[timer.timer], (own, whole, calls), trial))
        for timer, own, whole, calls in zip(*columns, strict=True)
        if timer.timer in paths
        and is_library_code(timer, paths[timer.timer])
        and "IMPORT" not in timer.groups.split("|")
        and (own or 0) >= least
    ]


def _routine(
    timer: TimerRow, path: str | None, sums: tuple[float, float, float], trial: TrialRow
) -> OwnRoutine:
    own, whole, calls = sums
    return OwnRoutine(
        "",
        short(timer),
        timer.file,
        path,
        timer.line,
        {"lib": own},
        own,
        whole,
        own / max(1, trial.duration_ns),
        None if calls is None else int(calls),
        (),
    )
