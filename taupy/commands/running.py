"""Runs that are under way, for commands that show trials."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import FormatError, TaupyError
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
"""The selector of the newest run that is under way; `running@LABEL` is a snapshot that it took."""


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
def selected_trial(
    args: argparse.Namespace, text: str | None = None
) -> Iterator[tuple[ProfileDB, TrialRow]]:
    """The selected trial and its database; what a live run measured so far, or a snapshot that it
    took, is stored in a temporary one.

    Args:
        text: the selector; None: the command's only one.

    Raises:
        NoSuchTrial: no trial matches.
        TaupyError: the run has measured nothing yet.
    """
    text = args.selector if text is None else text
    database = options.database_or_store(args)
    profile = _so_far(text, database) if may_name(text) else None
    if profile is not None:
        with stored(profile) as path, ProfileDB.open(path) as db:
            yield db, selector.trial(db, selector.LATEST)
    else:
        with options.opened(args) as db:
            yield db, selector.trial(db, text)


def may_name(text: str) -> bool:
    """Whether the selector may be that of a run that is under way, or of a snapshot of it."""
    return text == RUNNING or "@" in text


def _so_far(text: str, database: str) -> Profile | None:
    """What a run that is under way has measured so far, or the last snapshot of this name."""
    runs = here(database)
    if text == RUNNING:
        return _newest(runs) if runs else None
    for run in runs:
        with bar.shown("reading snapshots"):
            taken = snapshots_of(run)
        for name, snapshot in product(_names(run, database), reversed(taken)):
            if text == f"{name}{snapshot.name}":
                snapshot.name = text
                return snapshot
    return None


def _names(run: LiveRun, database: str) -> list[str]:
    """The names of a run whose trial is not stored yet. Without a name of its own, it will be
    called by its number."""
    from taupy.profiledb.writer import next_number

    place = run.settings.application, run.settings.experiment
    names: set[str] = set()
    if os.path.exists(database):
        with opened(database) as db:
            names = {
                trial.name
                for trial in db.trials()
                if (trial.application, trial.experiment) == place
            }
    name = run.settings.trial or next_number(names)
    return [RUNNING] if name in names else [RUNNING, name]


def snapshots_of(run: LiveRun) -> list[Profile]:
    """The snapshots that a live run has taken so far, each named `@LABEL`."""
    from taupy.record import snapshots
    from taupy.record.collected import clock_now
    from taupy.state.folder import open_run

    settings = run.settings
    snapshots_read: list[Profile] = []
    with suppress(FormatError, OSError), open_run(str(run.path)) as folder:
        for _, profile in snapshots.read(folder, settings, "", clock_now(settings)):
            snapshots_read.append(profile)
    return snapshots_read


def _newest(runs: list[LiveRun]) -> Profile:
    """What the first of these runs, the newest, has measured so far."""
    from taupy.record.so_far import so_far

    run, *others = runs
    with bar.shown("reading what has been measured so far"):
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
        with (
            bar.shown("storing what has been measured so far"),
            ProfileDB.open(database, create=True, readonly=False) as db,
        ):
            add_profile(db, profile)
        yield database


def rows(runs: list[LiveRun]) -> list[tuple[Cell, ...]]:
    """The rows of live runs in the list of `taupy trials`, each after the snapshots that it took;
    they have no ids yet."""
    listed = []
    for run in runs:
        name, uuid = run.settings.trial or "", run.settings.uuid
        lasted = max(0, int((time.time() - run.settings.launched_at) * 1e9))
        listed += [
            _row(run, f"{name or RUNNING}{snapshot.name}", snapshot.uuid, snapshot.duration_ns)
            for snapshot in reversed(snapshots_of(run))
        ]
        listed.append(_row(run, name, uuid, lasted))
    return listed


def _row(run: LiveRun, name: str, uuid: str, lasted_ns: int) -> tuple[Cell, ...]:
    settings = run.settings
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(settings.launched_at))
    return (
        None,
        uuid,
        settings.application,
        settings.experiment,
        name,
        started.replace("T", " "),
        f"{started}+00:00",
        lasted_ns,
        "",
        None,
        RUNNING,
        "taupy run",
        "",
    )
