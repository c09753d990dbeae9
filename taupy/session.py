"""Runs that have not been stored: found, recovered, imported.

Delivering (`delivery.py`) is the same work for the storer right after the program, the next command
after a kill, and `taupy import` of a rescue file. It is imported only if there is something to
deliver, because every reading command looks for leftovers first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taupy import live
from taupy.errors import FormatError, TaupyError
from taupy.instrument.runfolder import (
    IMPORT,
    NAMESPACES,
    RunSettings,
    is_import,
    make_run_folder,
    read_settings,
    run_folders,
    settings_of,
    state_folders,
    write_settings,
)
from taupy.state import values, watch_files
from taupy.state.folder import Folder, Untrusted, open_any, open_run
from taupy.state.shape import fits

if TYPE_CHECKING:
    from taupy.delivery import Delivery

_ABANDONED_S = 86_400
_DAMAGE = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError, RecursionError)
"""Exceptions that the numbers of a damaged or crafted run may still cause when they are summed."""


def is_kept_run(path: Path) -> bool:
    """Whether it is a rescue file or a run folder."""
    if not path.is_dir():
        from taupy.state import rescue

        return path.suffix == rescue.SUFFIX or rescue.is_rescue(path)
    try:
        with open_any(os.fspath(path)) as folder:
            return (folder / "run").read_record().startswith(values.MAGIC)
    except Untrusted as problem:
        raise FormatError(f"{problem}: it is not read") from None
    except OSError:
        return False


def import_rescue(path: Path, database: str, places: Mapping[str, Any]) -> Delivery:
    """Store a rescue file, or a run folder, as a trial.

    Args:
        places: `application`, `experiment`, `trial`, if they should differ from the run's.

    Raises:
        FormatError: the file is not a rescue file, or is damaged.
        TaupyError: it cannot be written to the database.
    """
    from taupy import delivery
    from taupy.state import rescue

    if path.is_dir() and (run := live.at(path)) is not None:
        raise TaupyError(
            f"{path} is live: its program (process {run.settings.root_pid}) is still running; "
            "`taupy pprof running` and `taupy top` show it so far"
        )
    if path.is_dir() and str(path.absolute().parent) in state_folders(database):
        with open_run(os.path.abspath(path)) as folder:
            delivered = _import_folder(folder, database, places, None)
    else:
        folder, _ = make_run_folder(IMPORT)
        with folder:
            try:
                rescue.unpack(path, folder, delivery.is_kept)
                delivered = _import_folder(folder, database, places, _rescued_facts(folder))
            except (Untrusted, values.Damaged, *_DAMAGE) as problem:
                raise FormatError(f"{path} is damaged ({problem})") from None
            except OSError as problem:
                raise FormatError(f"{path} could not be unpacked ({problem})") from None
            finally:
                folder.remove()
    if delivered.profile is None or delivered.trial_id is None:
        raise TaupyError(delivered.problem or f"{path} contains nothing that can be stored")
    return delivered


def _rescued_facts(folder: Folder) -> dict[str, str]:
    """Facts of the machine on which the run was measured. Nothing is looked up here: folders (and
    their git) named in a foreign file are those of another machine."""
    from taupy import delivery

    try:
        facts = values.loads((folder / delivery.FACTS).read_record())
    except FileNotFoundError:
        return {"Hostname": read_settings(folder).host}
    if not fits(facts, dict[str, str]):
        raise values.Damaged("its metadata are invalid")
    return facts  # type: ignore[no-any-return]


def _import_folder(
    folder: Folder, database: str, places: Mapping[str, Any], facts: Mapping[str, str] | None
) -> Delivery:
    from taupy import delivery

    if places:
        write_settings(folder, settings_of({**read_settings(folder).record(), **places}))
    return delivery.deliver(folder, database, rescue=False, unclash=True, facts=facts)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Runs of this user whose program is gone and that have not been stored yet.

    Attributes:
        runs: run folders with their settings.
        refused: files that are not trusted or cannot be read, one line each.
    """

    runs: list[tuple[Path, RunSettings]]
    refused: list[str]


def leftovers(database: str | None = None) -> Leftovers:
    """Find leftovers without changing anything.

    Args:
        database: only those for this database, or store.
    """
    folders, refused = run_folders(database)
    runs = []
    for path in folders:
        if is_import(path):
            continue  # the file that it comes from is still there
        try:
            with open_run(os.fspath(path)) as folder:
                settings = read_settings(folder)
                if live.is_live(folder, settings):
                    continue
        except FileNotFoundError:
            continue  # it is being made, or being removed
        except (OSError, values.Damaged) as problem:
            refused.append(f"the run in {path} is left alone: {problem}")
            continue
        if database is not None and not live.is_for(settings, database):
            continue
        if settings.host != os.uname().nodename:
            if _is_quiet(path):
                refused.append(
                    f"a run of host {settings.host} lies in {path}; if its program has ended, "
                    f"store it: taupy import {path}"
                )
            continue
        runs.append((path, settings))
    return Leftovers(runs, refused)


def _is_quiet(path: Path) -> bool:
    """Whether nothing was written into a run folder for a while. A program that waits, in a
    container that has no watch, is quiet as well."""
    with suppress(OSError):
        return time.time() - max(file.stat().st_mtime for file in path.iterdir()) > live.SILENT_S
    return False


def recover(database: str) -> list[Delivery]:
    """Store all leftovers of a database, or of a store; waits for runs that other processes are
    storing. A run that cannot be stored, or is not trusted, is returned with a `problem`."""
    _remove_abandoned(database)
    left = leftovers(database)
    if not left.runs and not left.refused:
        return []
    from taupy.delivery import Delivery, deliver
    from taupy.record.collected import has_news

    deliveries = [Delivery(problem=text) for text in left.refused]
    for path, settings in left.runs:
        try:
            with open_run(os.fspath(path)) as folder:
                if not has_news(folder, settings):
                    continue
                delivery = deliver(folder, rescue=False)
        except FileNotFoundError:
            continue  # stored meanwhile
        except (TaupyError, OSError, ImportError, *_DAMAGE) as problem:
            delivery = Delivery(problem=f"the run in {path} could not be stored: {problem}")
        if delivery.trial_id is not None or delivery.problem:
            deliveries.append(delivery)
    return deliveries


def _remove_abandoned(database: str) -> None:
    """Remove incomplete run folders whose creation or import was killed. They must be a day old,
    since the process that creates one may be on another host, where it cannot be seen."""
    for path in run_folders(database)[0]:
        with suppress(OSError), open_run(os.fspath(path)) as folder:
            age = time.time() - os.fstat(folder.descriptor).st_mtime
            if age > _ABANDONED_S and (is_import(path) or _is_unmade(folder)):
                folder.remove()


def _is_unmade(folder: Folder) -> bool:
    """Whether the folder has only files that precede the run's settings, such as the watch's."""
    of_the_watch = {
        watch_files.HEARTBEAT,
        watch_files.FOUND,
        *watch_files.LOOKS,
        *watch_files.OF_LINES,
    }
    return set(folder.names()) <= {"lock", "room", "run.new", NAMESPACES, *of_the_watch}
