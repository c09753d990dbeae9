"""Finds the runs that are under way. `record/so_far.py` reads what they have measured."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    is_alive,
    read_settings,
    run_folders,
)
from taupy.state.folder import open_run
from taupy.state.values import Damaged


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run whose program still runs here."""

    path: Path
    settings: RunSettings

    @property
    def name(self) -> str:
        settings = self.settings
        return f"{settings.application}/{settings.experiment}/{settings.trial or 'running'}"


def is_live(settings: RunSettings) -> bool:
    """Whether the run's program is still running, on this machine."""
    is_here = settings.host == os.uname().nodename and settings.boot_id == boot_id()
    return is_here and is_alive(settings.root_pid, settings.root_start)


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
        return LiveRun(path, settings) if is_live(settings) else None
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
