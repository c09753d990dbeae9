"""Runs that are under way, for commands that show trials."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import TaupyError
from taupy.pprof.view import Cell
from taupy.profiledb import selector
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.opening import opened
from taupy.units import several

if TYPE_CHECKING:
    from taupy.live import LiveRun
    from taupy.model.profile import Profile
    from taupy.model.rows import TrialRow

RUNNING = "running"
"""The selector of the newest run that is under way."""


def here(database: str) -> list[LiveRun]:
    """The live runs that will be stored in a database."""
    from taupy.instrument.runfolder import has_run_folders

    if not has_run_folders(database):
        return []
    from taupy.live import live_runs

    return live_runs(database)


def add_trial_argument(
    parser: argparse.ArgumentParser, text: str = "default: latest; `running`: of a run so far"
) -> None:
    """Add the argument TRIAL, which `selected_trial` uses."""
    parser.add_argument("selector", nargs="?", default=selector.LATEST, metavar="TRIAL", help=text)


@contextmanager
def selected_trial(args: argparse.Namespace) -> Iterator[tuple[ProfileDB, TrialRow]]:
    """The selected trial and its database; a live run is stored in a temporary one.

    Raises:
        NoSuchTrial: no trial matches.
        TaupyError: the run has measured nothing yet.
    """
    database = options.database_or_store(args)
    if args.selector == RUNNING and (runs := here(database)):
        with stored(_newest(runs)) as path, ProfileDB.open(path) as db:
            yield db, selector.trial(db, selector.LATEST)
    else:
        with opened(database) as db:
            yield db, selector.trial(db, args.selector)


def _newest(runs: list[LiveRun]) -> Profile:
    """What the first of these runs, the newest, has measured so far."""
    from taupy.record.so_far import so_far

    run, *others = runs
    now = so_far(str(run.path), run.settings)
    if now is None:
        raise TaupyError(f"{run.name} (process {run.settings.root_pid}) has measured nothing yet")
    if others:
        say(f"showing {run.name}, the newest; {several(len(others), 'more run')} under way")
    return now.profile


@contextmanager
def stored(profile: Profile) -> Iterator[str]:
    """The path of a temporary database that holds only this profile."""
    import tempfile

    from taupy.profiledb.writer import add_profile

    with tempfile.TemporaryDirectory(prefix="taupy-") as folder:
        database = str(Path(folder) / "running.db")
        with ProfileDB.open(database, create=True, readonly=False) as db:
            add_profile(db, profile)
        yield database


def row(run: LiveRun) -> tuple[Cell, ...]:
    """The row of a live run in the list of `taupy trials`; it has no id yet."""
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
