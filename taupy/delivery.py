"""What becomes of a run that has ended: its profile is built and stored, or kept in a file.

`session.py` knows what is left over. Delivering may be repeated at any point: nodes that are stored
already are not stored twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taupy.collectors import host
from taupy.errors import DatabaseError
from taupy.instrument.runfolder import RunSettings, boot_id, derived_uuid, read_settings
from taupy.model.profile import Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.metrics_merge import RunsDiffer, merge_metrics
from taupy.profiledb.writer import add_profile, complete_trial, unclashing_name
from taupy.record import part_files
from taupy.record.beginning import never_began
from taupy.record.children import take_notes, unmeasured
from taupy.record.collected import collect, goes_on
from taupy.record.gpu_counts import SUFFIX as COUNT_SUFFIX
from taupy.record.gpu_part import SNAPSHOT_SUFFIX, TRACE_SUFFIX
from taupy.record.gpu_part import SUFFIX as GPU_SUFFIX
from taupy.record.gpus import (
    add_gpu_copy,
    add_gpu_counts,
    add_gpus,
    add_losses,
    add_timelines,
    describe_gpus,
)
from taupy.record.host_part import read_part
from taupy.record.host_profile import HEALTH, HostPlaces, assign_nodes, profile_of
from taupy.record.part_files import FOLDED, PART_SUFFIXES
from taupy.state import rescue, values
from taupy.state.folder import File, Folder, Untrusted
from taupy.state.shape import fits

_SNAPSHOT_SUFFIXES = (".snapshot", ".pysnapshot")
_KEPT_SUFFIXES = (
    *PART_SUFFIXES, *_SNAPSHOT_SUFFIXES, GPU_SUFFIX, TRACE_SUFFIX, COUNT_SUFFIX, SNAPSHOT_SUFFIX,
    ".problem",
)  # fmt: skip
FACTS = "facts"
_KEPT_NAMES = ("run", "nodes", "nvml", "sampling", "sampled", FACTS)
_OF_THE_STORER = ("storer_argv", "storer_env", "spill_prefix")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a run.

    Attributes:
        trial_id: the trial it is now, None if it is none (yet).
        rescue: the file it was kept in instead.
        running: processes of the run that still go on; their parts follow later.
        problem: why there is no trial, in one line.
        profile: what was stored.
        joined: how its counters joined the trial of another run, as text; then `trial_id`
            is that one's.
    """

    trial_id: int | None = None
    rescue: Path | None = None
    running: int = 0
    problem: str | None = None
    profile: Profile | None = None
    name: str = ""
    joined: str = ""


class _Gone(Exception):
    """Somebody else has delivered the run meanwhile."""


@contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    """Only one process delivers a run at a time.

    Raises:
        _Gone: when our turn came there was nothing left.
    """
    try:
        descriptor = (folder / "lock").lock_descriptor()
    except FileNotFoundError:
        raise _Gone from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.is_gone() or not (folder / "run").exists():
            folder.remove()  # of the lock that we have just made
            raise _Gone
        yield
    finally:
        os.close(descriptor)


def deliver(
    folder: Folder,
    database: str | None = None,
    *,
    rescue: bool = True,
    unclash: bool = False,
    facts: Mapping[str, str] | None = None,
) -> Delivery:
    """Store what a run folder holds, and remove what is stored.

    Args:
        folder: the run folder.
        database: instead of the one that the run names.
        rescue: keep the run beside the database if that cannot take it.
        unclash: give it the next free name if another trial of its experiment has its own.
        facts: of the machine and the program; None: this machine's, as they are now.
    """
    try:
        with _locked(folder):
            settings = read_settings(folder)
            target = Path(database or settings.database)
            return _deliver(folder, settings, target, rescue, unclash, facts)
    except _Gone:
        return Delivery()
    except FileNotFoundError as problem:
        return Delivery(problem=f"{folder} holds no run ({problem.strerror})")
    except (Untrusted, values.Damaged) as problem:
        return Delivery(problem=f"the run in {folder} is left alone: {problem}")


def _clock_now(settings: RunSettings) -> tuple[int, int] | None:
    if settings.boot_id != boot_id():
        return None
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine.read_clock()


def _parts_of(spilled: Mapping[str, File]) -> dict[str, File]:
    return {name: file for name, file in spilled.items() if name.endswith(PART_SUFFIXES)}


def _remove(folder: Folder, done: list[File]) -> None:
    """Remove a run that is stored: what lies elsewhere first, as long as it can be found."""
    for file in done:
        file.unlink(missing_ok=True)
    folder.remove()


def _known_nodes(folder: Folder) -> dict[str, int]:
    """The nodes of parts that are stored: name of the part -> node."""
    try:
        known = values.loads((folder / "nodes").read_record())
    except FileNotFoundError:
        return {}
    if not fits(known, dict[str, int]):
        raise values.Damaged("the numbers of its nodes are not as they should be")
    return known  # type: ignore[no-any-return]


def _deliver(
    folder: Folder,
    settings: RunSettings,
    database: Path,
    rescue: bool,
    unclash: bool,
    facts: Mapping[str, str] | None,
) -> Delivery:
    clock_now = _clock_now(settings)
    spilled = part_files.spilled(settings, *_KEPT_SUFFIXES) if facts is None else {}
    collected = collect(folder, settings, clock_now, _parts_of(spilled))
    parts, running = collected.parts, collected.running
    settings.notes += collected.problems
    nodes_file = folder / "nodes"
    was_stored = nodes_file.exists()
    if not running and not was_stored and never_began(settings, parts):
        parts = []
    if not parts and was_stored and database.exists():
        # All that was measured is stored; whoever was still running then left nothing more.
        if not running:
            with ProfileDB.open(database, create=False, readonly=False) as db:
                complete_trial(db, settings.uuid, "\n".join(collected.lost))
            _remove(folder, [])
        return Delivery(running=running)
    if not parts:
        if not running:
            _remove(folder, collected.files)
        why = [*settings.notes, *collected.lost] or ["the program ended before its first routine"]
        return Delivery(problem=f"nothing was measured: {'; '.join(why)}", running=running)
    known = _known_nodes(folder)
    nodes = assign_nodes(settings, parts, known)
    try:
        nodes_file.write_bytes(values.dumps(known))
    except OSError as problem:
        if running:  # theirs could get the same numbers
            waits = f"it is stored when its {running} child processes have ended ({problem})"
            return Delivery(problem=waits, running=running)
    places: dict[int, HostPlaces] = {}
    missed = {part.metadata.pop("taupy.gpu.missed", "") for part in parts}
    notes = take_notes(parts)
    if facts is None:
        health = unmeasured(notes, collected.pids, lambda pid: goes_on(pid, settings))
        lost = {f"{HEALTH}{name}": text for name, text in health.items()}
    else:  # what a run of another machine says of files there is not looked up here
        lost = {name: text for name, text in facts.items() if name.startswith(HEALTH)}
    profile = profile_of(settings, nodes, finished=not running, places=places)
    profile.metadata.update(lost)
    add_losses(profile, collected.lost)
    if profile.exit_code is None:
        profile.exit_code = settings.ending
    done = collected.files
    done += add_gpus(profile, places, folder, settings, missed, spilled)
    done += add_gpu_counts(profile, places, folder, settings)
    if profile.devices:
        try:
            describe_gpus(profile, folder)
        except Exception as problem:  # facts are welcome, the profile is indispensable
            profile.metadata[f"{HEALTH}gpu_facts"] = (
                f"facts of the GPUs are missing ({type(problem).__name__}: {problem})"
            )
    if (folder / "sampling").exists():
        done += add_timelines(profile, folder, settings)
    if running:
        profile.metadata["taupy.health.running"] = (
            f"{running} child processes were still running when this was stored; "
            "the next taupy command adds what they measured"
        )
    if facts is None:
        facts = {**_facts(settings), **lost}
    _describe(profile, settings, facts)
    try:
        with ProfileDB.open(database, create=True, readonly=False) as db:
            if unclash:
                profile.name = unclashing_name(db, profile)
            trial_id, joined = _joined(db, profile, settings, running)
            if not joined:
                trial_id = add_profile(db, profile)
            name = _trial_name(db, trial_id)
            _store_snapshots(db, folder, settings, name, clock_now, facts)
    except (DatabaseError, OSError) as problem:
        kept = None
        if rescue and not running:
            kept = _rescue(folder, settings, database, facts, spilled)
        rescued = kept or Path(folder.path)
        return Delivery(rescue=rescued, running=running, problem=str(problem), profile=profile)
    if running:
        for file in done:
            file.unlink(missing_ok=True)
    else:
        _remove(folder, done)
    return Delivery(trial_id, running=running, profile=profile, name=name, joined=joined)


def _joined(
    db: ProfileDB, profile: Profile, settings: RunSettings, running: int
) -> tuple[int, str]:
    """Add the counters to the trial that the run was meant for: its number, and how; ""
    if that cannot be: then the run is a trial of its own, and says why."""
    if not settings.merge_into:
        return 0, ""
    trial = next((row.id for row in db.trials() if row.uuid == settings.merge_into), 0)
    why = "the trial that they were meant for is gone"
    if running:
        why = "child processes were still running when the program ended"
    elif trial:
        try:
            return trial, str(merge_metrics(db, trial, profile))
        except RunsDiffer as problem:
            why = str(problem)
    profile.metadata["taupy.health.not_joined"] = f"its counters are a trial of their own: {why}"
    return 0, ""


def _store_snapshots(
    db: ProfileDB,
    folder: Folder,
    settings: RunSettings,
    trial: str,
    clock_now: tuple[int, int] | None,
    facts: Mapping[str, str],
) -> None:
    """Each snapshot that the program took is a trial of its own, `TRIAL@LABEL`."""
    for file in folder.files(*_SNAPSHOT_SUFFIXES):
        part = read_part(file, clock_now)
        if part is None:
            continue
        take_notes([part])  # they are the whole trial's
        label = part.metadata.get("taupy.snapshot", file.stem)
        places: dict[int, HostPlaces] = {}
        profile = profile_of(settings, {settings.rank: part}, finished=True, places=places)
        copy = file.with_suffix(SNAPSHOT_SUFFIX)
        if copy.exists():
            add_gpu_copy(profile, copy, settings.rank, places[settings.rank])
        profile.uuid = derived_uuid(f"{settings.uuid}/{file.name}")
        profile.name = f"{trial.rsplit('/', 1)[-1]}@{label}"
        profile.metadata["taupy.snapshot"] = label
        _describe(profile, settings, facts)
        add_profile(db, profile)
        file.unlink()
        copy.unlink(missing_ok=True)


def _trial_name(db: ProfileDB, trial_id: int) -> str:
    for row in db.trials():
        if row.id == trial_id:
            return f"{row.application}/{row.experiment}/{row.name}"
    return ""


def _facts(settings: RunSettings) -> dict[str, str]:
    """Of this machine, as it is now, and of the program."""
    command = [*settings.interpreter, *settings.arguments]
    program = host.program_metadata(command, settings.cwd, settings.program_folder)
    return {**host.host_metadata(), **program}


def _describe(profile: Profile, settings: RunSettings, facts: Mapping[str, str]) -> None:
    """The facts of machine, program and measurement that a trial carries."""
    described = dict(facts)
    for name, cost in settings.overhead.items():
        described[f"taupy.overhead.{name}"] = f"{cost:.1f}"
    engines = sorted({data["Engine"] for data in profile.node_metadata.values()})
    described["taupy.engine"] = ", ".join(engines)
    for name in ("c_calls", "depth", "include", "exclude", "throttle", "max_callpaths"):
        value = settings.engine_options.get(name)
        if value:
            described[f"taupy.option.{name}"] = str(value)
    profile.metadata = {**described, **profile.metadata}


def is_kept(name: str) -> bool:
    return name in _KEPT_NAMES or name.endswith(_KEPT_SUFFIXES) or name.startswith(FOLDED)


def _rescue(
    folder: Folder,
    settings: RunSettings,
    database: Path,
    facts: Mapping[str, str],
    spilled: Mapping[str, File],
) -> Path | None:
    """Pack the run into one file beside the database; None: it stays where it is.

    The environment, which may hold secrets, and what only this machine understands stay out.
    """
    name = f"{database.name}-{settings.uuid}{rescue.SUFFIX}"
    record = settings.record()
    record["engine_options"] = {
        option: value
        for option, value in settings.engine_options.items()
        if option not in _OF_THE_STORER
    }
    members: dict[str, File | bytes] = {
        file: folder / file for file in folder.names() if is_kept(file)
    }
    members |= spilled
    members |= {"run": values.dumps(record), FACTS: values.dumps(dict(facts))}
    for place in (database.parent, Path(settings.cwd), Path(folder.path).parent):
        target = place / name
        try:
            rescue.pack(target, members)
        except OSError:
            continue
        _remove(folder, list(spilled.values()))
        return target
    return None
