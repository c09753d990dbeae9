"""A run from its launch to its trial: prepare, deliver, recover.

Delivering is the same work whoever does it: the storer right after the program, the
next command after a kill, or `taupy import` from a rescue file. It may be repeated at
any point: nodes that are stored already are not stored twice.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from taupy.collectors import cupti_errors, host
from taupy.collectors.cupti_counters import SUFFIX as COUNT_SUFFIX
from taupy.collectors.cupti_counters import CountPart, add_count_part, read_count_part
from taupy.collectors.cupti_part import SNAPSHOT_SUFFIX, TRACE_SUFFIX, GpuPart, read_gpu_part
from taupy.collectors.cupti_part import SUFFIX as GPU_SUFFIX
from taupy.errors import DatabaseError, FormatError, TaupyError
from taupy.instrument.beginning import never_began
from taupy.instrument.children import unmeasured
from taupy.instrument.parts import Part, peek_process, read_part
from taupy.instrument.record import HEALTH, HostPlaces, assign_nodes, profile_of
from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    derived_uuid,
    is_alive,
    make_run_folder,
    process_start,
    read_settings,
    state_folders,
    write_settings,
)
from taupy.model.profile import Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.metrics_merge import RunsDiffer, merge_metrics
from taupy.profiledb.writer import add_profile, complete_trial, unclashing_name

RESCUE_SUFFIX = ".taupy-run"
_PART_SUFFIXES = (".part", ".pypart")
_KEPT_SUFFIXES = (*_PART_SUFFIXES, GPU_SUFFIX, TRACE_SUFFIX, COUNT_SUFFIX)
_KEPT_NAMES = ("run", "nodes", "nvml", "sampling", "sampled")
_RESCUE_MEMBER_LIMIT = 16 << 30


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a run.

    Attributes:
        trial_id: the trial it is now, None if it is none (yet).
        rescue: the file it was kept in instead.
        running: processes of the run that still go on; their parts follow later.
        problem: why there is no trial, in one line.
        profile: what was stored.
        joined: how its counters joined the trial of another run, in words; then `trial_id`
            is that one's.
    """

    trial_id: int | None = None
    rescue: Path | None = None
    running: int = 0
    problem: str | None = None
    profile: Profile | None = None
    name: str = ""
    joined: str = ""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process delivers a run at a time; a folder that is gone is no error."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise FormatError(f"the run in {folder} was delivered meanwhile") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _part_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _PART_SUFFIXES)


def _is_running(path: Path, settings: RunSettings) -> bool:
    """Does the process of this part go on? Only this host's processes can be asked."""
    pid, start, closed, _ = peek_process(path)
    if closed or settings.boot_id != boot_id() or pid == os.getppid() == settings.root_pid:
        return False
    return is_alive(pid, start)


def _pids_of_files(folder: Path, read: list[Path]) -> set[int]:
    """Processes whose parts were not read, since they go on or are helpers, or that have told
    why they are not measured."""
    files = [path for path in _part_files(folder) if path not in read]
    files += folder.glob("*.problem")
    return {int(pid) for path in files if (pid := path.name.split("-")[0].split(".")[0]).isdigit()}


def _goes_on(pid: int, settings: RunSettings) -> bool:
    return settings.boot_id == boot_id() and process_start(pid) != 0


def _clock_now(settings: RunSettings) -> tuple[int, int] | None:
    if settings.boot_id != boot_id():
        return None
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine.read_clock()


def deliver(
    folder: Path, database: str | None = None, *, rescue: bool = True, unclash: bool = False
) -> Delivery:
    """Store what a run folder holds, and remove what is stored.

    Args:
        folder: the run folder.
        database: instead of the one that the run names.
        rescue: keep the run beside the database if that cannot take it.
        unclash: give it the next free name if another trial of its experiment has its own.
    """
    settings = read_settings(folder)
    if settings is None:
        return Delivery(problem=f"{folder} holds no run that this version of taupy can read")
    with _locked(folder):
        return _deliver(folder, settings, Path(database or settings.database), rescue, unclash)


def _deliver(
    folder: Path, settings: RunSettings, database: Path, rescue: bool, unclash: bool
) -> Delivery:
    parts: list[Part] = []
    done: list[Path] = []
    running = 0
    clock_now = _clock_now(settings)
    for path in _part_files(folder):
        try:
            if path.stat().st_size:
                if peek_process(path)[3]:
                    continue
                if _is_running(path, settings):
                    running += 1
                    continue
            part = read_part(path, clock_now)
        except FormatError as problem:
            settings.notes.append(str(problem))
            path.rename(path.with_suffix(".damaged"))
            continue
        done.append(path)
        if part is not None:
            parts.append(part)
    for path in sorted(folder.glob("*.problem")):
        settings.notes.append(f"not measured in one process: {path.read_text('utf-8', 'replace')}")
    nodes_file = folder / "nodes"
    if not running and not nodes_file.exists() and never_began(settings, parts):
        parts = []
    if not parts and nodes_file.exists():
        # All that was measured is stored; whoever was still running then left nothing more.
        if not running:
            with ProfileDB.open(database, create=False, readonly=False) as db:
                complete_trial(db, settings.uuid)
            _remove(folder)
        return Delivery(running=running)
    if not parts:
        if not running:
            _remove(folder)
        reason = "; ".join(settings.notes) or "the program ended before its first routine"
        return Delivery(problem=f"nothing was measured: {reason}", running=running)
    known: dict[str, int] = marshal.loads(nodes_file.read_bytes()) if nodes_file.exists() else {}
    nodes = assign_nodes(settings, parts, known)
    new = nodes_file.with_suffix(".new")
    new.write_bytes(marshal.dumps(known))
    new.replace(nodes_file)
    places: dict[int, HostPlaces] = {}
    missed = {part.metadata.pop("taupy.gpu.missed", "") for part in parts}
    lost = unmeasured(parts, _pids_of_files(folder, done), lambda pid: _goes_on(pid, settings))
    profile = profile_of(settings, nodes, finished=not running, places=places)
    if lost:
        profile.metadata[f"{HEALTH}children_unmeasured"] = lost
    if profile.exit_code is None:
        profile.exit_code = settings.ending
    done += _add_gpus(profile, places, folder, settings, missed)
    done += _add_gpu_counts(profile, places, folder, settings)
    if profile.devices:
        try:
            _describe_gpus(profile, folder)
        except Exception as problem:  # facts are welcome, the profile is indispensable
            profile.metadata[f"{HEALTH}gpu_facts"] = (
                f"facts of the GPUs are missing ({type(problem).__name__}: {problem})"
            )
    if (folder / "sampling").exists():
        done += _add_timelines(profile, folder, settings)
    if running:
        profile.metadata["taupy.health.running"] = (
            f"{running} child processes were still running when this was stored; "
            "the next taupy command adds what they measured"
        )
    _describe(profile, settings)
    try:
        with ProfileDB.open(database, create=True, readonly=False) as db:
            if unclash:
                profile.name = unclashing_name(db, profile)
            trial_id, joined = _joined(db, profile, settings, running)
            if not joined:
                trial_id = add_profile(db, profile)
            name = _trial_name(db, trial_id)
            _store_snapshots(db, folder, settings, name, clock_now)
    except (DatabaseError, OSError) as problem:
        reason = str(problem)
        kept = _rescue(folder, settings, database) if rescue and not running else folder
        return Delivery(rescue=kept, running=running, problem=reason, profile=profile)
    for path in done:
        path.unlink(missing_ok=True)
    if not running:
        _remove(folder)
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


def _add_gpus(
    profile: Profile,
    places: dict[int, HostPlaces],
    folder: Path,
    settings: RunSettings,
    missed: set[str],
) -> list[Path]:
    """What the processes did on GPUs joins their nodes; returns the files it was taken from."""
    found: list[GpuPart] = []
    done: list[Path] = []
    for path in sorted(folder.glob("*" + GPU_SUFFIX)):
        try:
            part = read_gpu_part(path)
        except (FormatError, OSError) as problem:
            profile.metadata[f"{HEALTH}gpu_part"] = str(problem)
            continue
        node = None if part is None else _node_of(part, places)
        if part is None or node is None:
            continue  # of a process that still runs
        from taupy.collectors.cupti_profile import add_gpu_part

        found.append(part)
        place = places[node]
        try:
            said = add_gpu_part(profile, node, part, place.find, place.part.ns_per_tick)
        except (FormatError, OSError, ValueError) as problem:
            said = {"gpu_part": f"GPU work could not be read ({problem}): {path}"}
        suffix = f".node{node}" if len(places) > 1 else ""
        profile.metadata.update({f"{HEALTH}{name}{suffix}": text for name, text in said.items()})
        done += [path, path.with_suffix(TRACE_SUFFIX)]
    asked = settings.gpu
    if asked == "yes" and all(place.part.pid != settings.root_pid for place in places.values()):
        asked = "auto"  # these are late children: the run itself has been stored
    if asked != "no" and (text := cupti_errors.verdict(asked, found, missed)):
        profile.metadata[f"{HEALTH}gpu"] = text
    if text := cupti_errors.shared(profile.timers, found):
        profile.metadata[f"{HEALTH}gpu_shared"] = text
    return done


def _add_gpu_counts(
    profile: Profile, places: dict[int, HostPlaces], folder: Path, settings: RunSettings
) -> list[Path]:
    """What the processes counted of their kernels joins their nodes; returns the files."""
    done: list[Path] = []
    names = settings.engine_options.get("gpu_counter_names", [])
    for path in sorted(folder.glob("*" + COUNT_SUFFIX)):
        try:
            part = read_count_part(path)
        except (FormatError, OSError) as problem:
            profile.metadata[f"{HEALTH}gpu_counters"] = str(problem)
            continue
        node = _node_of(part, places)
        if node is None:
            continue  # of a process that still runs
        said = add_count_part(profile, node, part, names, places[node].find)
        suffix = f".node{node}" if len(places) > 1 else ""
        profile.metadata.update({f"{HEALTH}{name}{suffix}": text for name, text in said.items()})
        done.append(path)
    if names and not done:
        profile.metadata[f"{HEALTH}gpu_counters"] = (
            "no kernel was counted: the program never initialised CUDA, or another tool was loaded "
            "into its driver (CUDA_INJECTION64_PATH)"
        )
    return done


def _complete_devices(profile: Profile) -> None:
    from taupy.collectors import device

    profile.devices = device.completed(profile.devices)
    for node, facts in device.metadata(profile.devices).items():
        profile.node_metadata.setdefault(node, {}).update(facts)


def _describe_gpus(profile: Profile, folder: Path) -> None:
    """Facts of the GPUs that were used, and how they fared, as the sampler saw it."""
    from taupy.collectors import nvml

    _complete_devices(profile)
    ordinals = {one.uuid: one.ordinal for one in profile.devices if one.uuid}
    events = nvml.user_events(folder, ordinals)
    for measured in profile.threads[:1]:
        measured.user_events += events


def _add_timelines(profile: Profile, folder: Path, settings: RunSettings) -> list[Path]:
    """What was sampled of the GPUs that the program used, as user events and over time;
    returns the files it was taken from."""
    from taupy.collectors import sampler

    used = {one.uuid: one.ordinal for one in profile.devices if one.uuid}
    # Of several ranks one samples for all. Nobody knows what was used where GPU work is not
    # recorded, or the program was killed before its first records came.
    every = settings.world_size > 1 or settings.gpu == "no"
    every = every or (not used and profile.state == "incomplete")
    done = [folder / sampler.SETTINGS, folder / sampler.KEPT]
    try:
        found = sampler.timelines(folder, None if every else used)
    except TaupyError as problem:
        profile.metadata[f"{HEALTH}sampling"] = str(problem)
        return done
    if found is None:
        return done
    said = [f"GPU {one.ordinal}: {text}" for one in found for text in one.said]
    said += [f"GPU {one.ordinal}: nothing was sampled" for one in found if not one.events]
    if not found:
        said = ["the program used none of the GPUs that were sampled: no timeline is kept"]
    if said:
        profile.metadata[f"{HEALTH}sampling"] = "; ".join(said)
    for one in found:
        chip, interval, unit = one.facts
        points = f", {one.samples_a_point} samples a point" if one.samples_a_point > 1 else ""
        profile.metadata[f"taupy.sampling.gpu{one.ordinal}"] = (
            f"{chip}, every {interval} {unit}{points}"
        )
        for measured in profile.threads[:1]:
            measured.user_events += one.events
            measured.samples += one.samples
    return done


def _node_of(part: GpuPart | CountPart, places: dict[int, HostPlaces]) -> int | None:
    """The node of the process that made a GPU part. A process that replaces itself
    (os.exec*) keeps its number, and has one part for each of its images."""
    same = [node for node, place in places.items() if place.part.pid == part.pid]
    exact = [node for node in same if places[node].part.start_ticks == part.start_ticks]
    return exact[0] if exact else same[0] if len(same) == 1 else None


def _store_snapshots(
    db: ProfileDB,
    folder: Path,
    settings: RunSettings,
    trial: str,
    clock_now: tuple[int, int] | None,
) -> None:
    """Each snapshot that the program took is a trial of its own, `TRIAL@LABEL`."""
    for path in sorted(folder.glob("*snapshot")):
        part = read_part(path, clock_now)
        if part is None:
            continue
        label = part.metadata.get("taupy.snapshot", path.stem)
        places: dict[int, HostPlaces] = {}
        profile = profile_of(settings, {settings.rank: part}, finished=True, places=places)
        copy = path.with_suffix(SNAPSHOT_SUFFIX)
        if copy.exists():
            _add_gpu_copy(profile, copy, settings.rank, places[settings.rank])
        profile.uuid = derived_uuid(f"{settings.uuid}/{path.name}")
        profile.name = f"{trial.rsplit('/', 1)[-1]}@{label}"
        profile.metadata["taupy.snapshot"] = label
        _describe(profile, settings)
        add_profile(db, profile)
        path.unlink()
        copy.unlink(missing_ok=True)


def _add_gpu_copy(profile: Profile, path: Path, node: int, place: HostPlaces) -> None:
    """What had completed on the GPUs when a snapshot was taken."""
    from taupy.collectors.cupti_profile import add_gpu_part

    try:
        part = read_gpu_part(path)
        said = {}
        if part is not None:
            said = add_gpu_part(profile, node, part, place.find, place.part.ns_per_tick)
            _complete_devices(profile)
    except (FormatError, OSError, ValueError) as problem:
        said = {"gpu_part": f"GPU work could not be read: {problem}"}
    said.pop("gpu_taken", None)  # what is under way has no record yet
    profile.metadata.update({f"{HEALTH}{name}": text for name, text in said.items()})


def _trial_name(db: ProfileDB, trial_id: int) -> str:
    for row in db.trials():
        if row.id == trial_id:
            return f"{row.application}/{row.experiment}/{row.name}"
    return ""


def _describe(profile: Profile, settings: RunSettings) -> None:
    """The facts of machine, program and measurement that a trial carries."""
    facts = dict(host.host_metadata())
    facts.update(
        host.program_metadata(
            [*settings.interpreter, *settings.arguments], settings.cwd, settings.program_folder
        )
    )
    for name, cost in settings.overhead.items():
        facts[f"taupy.overhead.{name}"] = f"{cost:.1f}"
    engines = sorted({data["Engine"] for data in profile.node_metadata.values()})
    facts["taupy.engine"] = ", ".join(engines)
    for name in ("c_calls", "depth", "include", "exclude", "throttle", "max_callpaths"):
        value = settings.engine_options.get(name)
        if value:
            facts[f"taupy.option.{name}"] = str(value)
    profile.metadata = {**facts, **profile.metadata}


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _rescue(folder: Path, settings: RunSettings, database: Path) -> Path:
    """Pack the run into one file beside the database, or leave it where it lies."""
    name = f"{database.name}-{settings.uuid}{RESCUE_SUFFIX}"
    for place in (database.parent, Path(settings.cwd), folder.parent):
        target = place / name
        try:
            with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for path in sorted(folder.iterdir()):
                    if path.name in _KEPT_NAMES or path.suffix in _KEPT_SUFFIXES:
                        archive.write(path, path.name)
        except OSError:
            try:
                if target.is_file() and target.stat().st_size < 1 << 40:
                    target.unlink()
            except OSError:
                pass
            continue
        _remove(folder)
        return target
    return folder


def is_kept_run(path: Path) -> bool:
    """Is it a run that is kept in a file, or a run folder?"""
    if path.is_dir():
        return read_settings(path) is not None
    if path.suffix == RESCUE_SUFFIX:
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return "run" in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def import_rescue(path: Path, database: str, places: Mapping[str, Any]) -> Delivery:
    """Store a rescue file, or a run folder, as the trial that it should have become.

    Args:
        places: `application`, `experiment`, `trial` where they are to be others than the run's.

    Raises:
        FormatError: the file is no rescue file, or damaged.
        TaupyError: the database refuses it.
    """
    if path.is_dir() and path.absolute().parent in state_folders():
        delivery = _import_folder(path, database, places)
    else:
        folder = make_run_folder("import")
        try:
            _unpack(path, folder)
            delivery = _import_folder(folder, database, places)
        except (zipfile.BadZipFile, EOFError, OSError) as problem:
            raise FormatError(f"{path} is damaged ({problem})") from None
        finally:
            _remove(folder)
    if delivery.trial_id is None:
        raise TaupyError(delivery.problem or f"{path} holds nothing that can be stored")
    return delivery


def _import_folder(folder: Path, database: str, places: Mapping[str, Any]) -> Delivery:
    settings = read_settings(folder)
    if settings is not None and places:
        write_settings(folder, replace(settings, **places))
    return deliver(folder, database, rescue=False, unclash=True)


def _unpack(path: Path, folder: Path) -> None:
    """What belongs to a run, out of a rescue file or a copied run folder, into `folder`."""
    if path.is_dir():
        for file in sorted(path.iterdir()):
            if file.name in _KEPT_NAMES or file.suffix in _KEPT_SUFFIXES:
                shutil.copyfile(file, folder / file.name)
        return
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as problem:
        raise FormatError(f"{path} is no run that taupy has kept ({problem})") from None
    with archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if "run" not in archive.namelist() or total > _RESCUE_MEMBER_LIMIT:
            raise FormatError(f"{path} is no run that taupy has kept")
        for member in members:
            suffix = Path(member.filename).suffix
            if member.filename not in _KEPT_NAMES and suffix not in _KEPT_SUFFIXES:
                continue
            with (
                archive.open(member) as source,
                open(folder / Path(member.filename).name, "wb") as target,
            ):
                shutil.copyfileobj(source, target)


def leftovers(database: Path | None = None) -> list[tuple[Path, RunSettings]]:
    """Runs of this user whose program is gone and that nobody has stored yet.

    Args:
        database: only those meant for this database.
    """
    found = []
    for state in state_folders():
        try:
            folders = sorted(state.glob("run-*"))
        except OSError:
            continue
        for folder in folders:
            settings = read_settings(folder)
            if settings is None:
                continue
            if database is not None and os.path.realpath(settings.database) != os.path.realpath(
                database
            ):
                continue
            if settings.host != os.uname().nodename:
                continue
            if settings.boot_id == boot_id() and is_alive(settings.root_pid, settings.root_start):
                continue
            found.append((folder, settings))
    return found


def recover(database: Path) -> list[Delivery]:
    """Store all leftovers of a database; a run that others are storing is waited for."""
    deliveries = []
    for folder, _ in leftovers(database):
        try:
            if not _has_news(folder):
                continue
            delivery = deliver(folder, rescue=False)
        except (TaupyError, OSError):
            continue
        if delivery.trial_id is not None or delivery.problem:
            deliveries.append(delivery)
    return deliveries


def _has_news(folder: Path) -> bool:
    """Is there a part that can be stored now, or nothing left to wait for?"""
    settings = read_settings(folder)
    if settings is None:
        return False
    found = False
    for path in _part_files(folder):
        try:
            if path.stat().st_size and peek_process(path)[3]:
                continue
            found = True
            if not path.stat().st_size or not _is_running(path, settings):
                return True
        except (FormatError, OSError):
            return True
    return not found
