"""Finds the runs that are under way. `record/so_far.py` reads what they have measured."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    is_alive,
    is_held,
    is_of_these_namespaces,
    read_settings,
    run_folders,
)
from taupy.state import heartbeat, watch_files
from taupy.state.folder import Folder, open_run
from taupy.state.values import Damaged

SILENT_S = 60
"""After so long without a heartbeat, a program that cannot be seen from here has ended."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose program still runs here."""

    path: Path
    settings: RunSettings

    @property
    def name(self) -> str:
        settings = self.settings
        return f"{settings.application}/{settings.experiment}/{settings.trial or 'running'}"


def is_live(folder: Folder, settings: RunSettings) -> bool:
    """Whether the run's program is still running, on this machine: by its process id and start, if
    they mean the same here, else by what it holds and what its watch says."""
    if settings.host != os.uname().nodename:
        return False
    is_booted_here = settings.boot_id == boot_id()
    if is_booted_here and settings.root_start and is_of_these_namespaces(folder):
        return is_alive(settings.root_pid, settings.root_start)
    if any(map(is_held, folder.files(".part"))):
        return True
    beats = _beats(folder)
    return beats if beats is not None else is_booted_here and _is_new(folder)


def _beats(folder: Folder) -> bool | None:
    """Whether the run's watch is at work; None if there is none, or it cannot be read."""
    try:
        kept = heartbeat.read(folder)
        written_at = os.stat(watch_files.HEARTBEAT, dir_fd=folder.descriptor).st_mtime
    except (Damaged, OSError):
        return None
    return None if kept is None else not kept[0].is_over and time.time() - written_at < SILENT_S


def _is_new(folder: Folder) -> bool:
    """Whether it has changed so recently that its program may be about to begin."""
    return time.time() - os.fstat(folder.descriptor).st_mtime < SILENT_S


def is_for(settings: RunSettings, database: str) -> bool:
    """Whether a run is meant for this database, or will be pushed to this store."""
    if settings.engine_options.get("push_to") == database:
        return True
    try:
        return os.path.realpath(settings.database) == os.path.realpath(database)
    except ValueError:  # a zero byte in it
        return False


def at(path: Path) -> LiveRun | None:
    """The live run in a folder, None if there is none."""
    with suppress(OSError, Damaged), open_run(os.path.abspath(path)) as folder:
        settings = read_settings(folder)
        return LiveRun(path, settings) if is_live(folder, settings) else None
    return None


def live_runs(database: str | None = None) -> list[LiveRun]:
    """The runs of this user that are under way, the newest first.

    Args:
        database: only those meant for this database, or store.
    """
    runs = [run for path in run_folders(database)[0] if (run := at(path)) is not None]
    if database is not None:
        runs = [run for run in runs if is_for(run.settings, database)]
    return sorted(runs, key=lambda run: run.settings.launched_at, reverse=True)
