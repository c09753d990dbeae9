"""Runs that are under way, for commands that show trials."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from taupy.commands.messages import say
from taupy.errors import TaupyError
from taupy.pprof.view import Cell
from taupy.profiledb.database import ProfileDB
from taupy.units import several

if TYPE_CHECKING:
    from taupy.live import LiveRun
    from taupy.model.profile import Profile

RUNNING = "running"
"""Stands for the run that began last among those that are under way."""


def here(database: str) -> list[LiveRun]:
    """The live runs that a database will get."""
    from taupy.instrument.runfolder import has_run_folders

    if not has_run_folders():
        return []
    from taupy.live import live_runs

    return live_runs(Path(database))


def show(args: argparse.Namespace, runs: list[LiveRun], command: Callable[..., int]) -> int:
    """Have a command show the newest of these runs as if it were the latest trial."""
    from taupy.record.so_far import so_far

    run, *others = runs
    now = so_far(str(run.path), run.settings)
    if now is None:
        raise TaupyError(f"{run.name} (process {run.settings.root_pid}) has measured nothing yet")
    if others:
        say(f"showing {run.name}, the newest; {several(len(others), 'more run')} under way")
    with stored(now.profile) as database:
        return command(argparse.Namespace(**{**vars(args), "db": database, "selector": "latest"}))


@contextmanager
def stored(profile: Profile) -> Iterator[str]:
    """A database with nothing but a profile, for a while: its path."""
    import tempfile

    from taupy.profiledb.writer import add_profile

    with tempfile.TemporaryDirectory(prefix="taupy-") as folder:
        database = str(Path(folder) / "running.db")
        with ProfileDB.open(database, create=True, readonly=False) as db:
            add_profile(db, profile)
        yield database


def row(run: LiveRun) -> tuple[Cell, ...]:
    """As `taupy trials` lists it; it has no number yet."""
    settings = run.settings
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(settings.launched_at))
    return (
        None,
        settings.uuid,
        settings.application,
        settings.experiment,
        settings.trial or "",
        started.replace("T", " "),
        f"{started}+00:00",
        max(0, int((time.time() - settings.launched_at) * 1e9)),
        "",
        None,
        RUNNING,
        "taupy run",
        "",
    )
