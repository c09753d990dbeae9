"""A run from its launch to its trial: prepare, deliver, recover.

Delivering is the same work whoever does it: the storer right after the program, the
next command after a kill, or `taupy import` from a rescue file. It may be repeated at
any point: nodes that are stored already are not stored twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taupy.collectors import host
from taupy.errors import DatabaseError, FormatError, TaupyError
from taupy.instrument.runfolder import (
    RunSettings,
    boot_id,
    derived_uuid,
    is_alive,
    make_run_folder,
    read_settings,
    run_folders,
    state_folders,
    write_settings,
)
from taupy.model.profile import Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.metrics_merge import RunsDiffer, merge_metrics
from taupy.profiledb.writer import LOST, add_profile, complete_trial, unclashing_name
from taupy.record import gpu_verdict, part_files
from taupy.record.beginning import never_began
from taupy.record.children import take_notes, unmeasured
from taupy.record.collected import collect, goes_on, has_news
from taupy.record.gpu_counts import SUFFIX as COUNT_SUFFIX
from taupy.record.gpu_counts import CountPart, add_count_part, read_count_part
from taupy.record.gpu_part import SNAPSHOT_SUFFIX, TRACE_SUFFIX, GpuPart, read_gpu_part
from taupy.record.gpu_part import SUFFIX as GPU_SUFFIX
from taupy.record.host_part import read_part
from taupy.record.host_profile import HEALTH, HostPlaces, assign_nodes, profile_of
from taupy.record.part_files import FOLDED, PART_SUFFIXES
from taupy.state import rescue, values
from taupy.state.folder import File, Folder, Untrusted, open_any, open_run
from taupy.state.shape import fits

_SNAPSHOT_SUFFIXES = (".snapshot", ".pysnapshot")
_KEPT_SUFFIXES = (
    *PART_SUFFIXES, *_SNAPSHOT_SUFFIXES, GPU_SUFFIX, TRACE_SUFFIX, COUNT_SUFFIX, SNAPSHOT_SUFFIX,
    ".problem",
)  # fmt: skip
_FACTS = "facts"
_KEPT_NAMES = ("run", "nodes", "nvml", "sampling", "sampled", _FACTS)
_GPU_LOSSES = ("gpu_part", "gpu_dropped", "gpu_refused", "gpu_calls", "gpu_trace", "gpu_walk")
_OF_THE_STORER = ("storer_argv", "storer_env", "spill_prefix")
_DAMAGE = (ArithmeticError, LookupError, TypeError, ValueError, MemoryError, RecursionError)
"""What a run that was damaged, or made by hand, can still do to those who add its numbers up."""


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


def _clock_now(settings: RunSettings) -> tuple[int, int] | None:
    if settings.boot_id != boot_id():
        return None
    try:
        from taupy._native import engine
    except ImportError:
        return None
    return engine.read_clock()


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


def _parts_of(spilled: Mapping[str, File]) -> dict[str, File]:
    return {name: file for name, file in spilled.items() if name.endswith(PART_SUFFIXES)}


def _remove(folder: Folder, done: list[File]) -> None:
    """Remove a run that is stored: what lies elsewhere first, as long as it can be found."""
    for file in done:
        file.unlink(missing_ok=True)
    folder.remove()


def _add_losses(profile: Profile, lost: list[str]) -> None:
    """Say what is lost: such a trial is incomplete."""
    if lost:
        said = [profile.metadata[LOST]] if LOST in profile.metadata else []
        profile.metadata[LOST] = "\n".join(dict.fromkeys([*said, *lost]))
        profile.state = "incomplete"


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
    _add_losses(profile, collected.lost)
    if profile.exit_code is None:
        profile.exit_code = settings.ending
    done = collected.files
    done += _add_gpus(profile, places, folder, settings, missed, spilled)
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


def _add_gpus(
    profile: Profile,
    places: dict[int, HostPlaces],
    folder: Folder,
    settings: RunSettings,
    missed: set[str],
    spilled: Mapping[str, File],
) -> list[File]:
    """What the processes did on GPUs joins their nodes; returns the files it was taken from."""
    found: list[GpuPart] = []
    done: list[File] = []
    lost: list[str] = []
    files = {file.name: file for file in folder.files(GPU_SUFFIX)}
    files |= {name: file for name, file in spilled.items() if name.endswith(GPU_SUFFIX)}
    for name, path in files.items():
        trace = (folder / name).with_suffix(TRACE_SUFFIX)
        try:
            part = read_gpu_part(path, trace)
        except (FormatError, OSError) as problem:
            lost.append(f"what was done on GPUs could not be read: {problem}")
            continue
        node = None if part is None else _node_of(part, places)
        if part is None or node is None:
            continue  # of a process that still runs
        from taupy.record.gpu_profile import add_gpu_part

        found.append(part)
        place = places[node]
        try:
            said = add_gpu_part(profile, node, part, place.find, place.part.ns_per_tick)
        except (FormatError, OSError, ValueError) as problem:
            said = {"gpu_part": f"GPU work could not be read ({problem}): {path}"}
        where = f" (node {node})" if len(places) > 1 else ""
        lost += [f"{said[key]}{where}" for key in _GPU_LOSSES if key in said]
        if part.lost_bytes:
            lost.append(f"{part.lost_bytes} bytes of what was done on GPUs had no room{where}")
        suffix = f".node{node}" if len(places) > 1 else ""
        profile.metadata.update(
            {f"{HEALTH}{key}{suffix}": text for key, text in said.items() if key not in _GPU_LOSSES}
        )
        done += [folder / name, path, trace]
    _add_losses(profile, lost)
    asked = settings.gpu
    if asked == "yes" and all(place.part.pid != settings.root_pid for place in places.values()):
        asked = "auto"  # these are late children: the run itself has been stored
    if asked != "no" and (text := gpu_verdict.verdict(asked, found, missed)):
        profile.metadata[f"{HEALTH}gpu"] = text
    if text := gpu_verdict.shared(profile.timers, found):
        profile.metadata[f"{HEALTH}gpu_shared"] = text
    return done


def _add_gpu_counts(
    profile: Profile, places: dict[int, HostPlaces], folder: Folder, settings: RunSettings
) -> list[File]:
    """What the processes counted of their kernels joins their nodes; returns the files."""
    done: list[File] = []
    names = settings.engine_options.get("gpu_counter_names", [])
    for path in folder.files(COUNT_SUFFIX):
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


def _describe_gpus(profile: Profile, folder: Folder) -> None:
    """Facts of the GPUs that were used, and how they fared, as the sampler saw it."""
    from taupy.collectors import nvml

    _complete_devices(profile)
    ordinals = {one.uuid: one.ordinal for one in profile.devices if one.uuid}
    events = nvml.user_events(folder, ordinals)
    for measured in profile.threads[:1]:
        measured.user_events += events


def _add_timelines(profile: Profile, folder: Folder, settings: RunSettings) -> list[File]:
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
            _add_gpu_copy(profile, copy, settings.rank, places[settings.rank])
        profile.uuid = derived_uuid(f"{settings.uuid}/{file.name}")
        profile.name = f"{trial.rsplit('/', 1)[-1]}@{label}"
        profile.metadata["taupy.snapshot"] = label
        _describe(profile, settings, facts)
        add_profile(db, profile)
        file.unlink()
        copy.unlink(missing_ok=True)


def _add_gpu_copy(profile: Profile, file: File, node: int, place: HostPlaces) -> None:
    """What had completed on the GPUs when a snapshot was taken."""
    from taupy.record.gpu_profile import add_gpu_part

    try:
        part = read_gpu_part(file)
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


# --- rescue files ------------------------------------------------------------


def _is_kept(name: str) -> bool:
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
    record = asdict(settings)
    record["engine_options"] = {
        option: value
        for option, value in settings.engine_options.items()
        if option not in _OF_THE_STORER
    }
    members: dict[str, File | bytes] = {
        file: folder / file for file in folder.names() if _is_kept(file)
    }
    members |= spilled
    members |= {"run": values.dumps(record), _FACTS: values.dumps(dict(facts))}
    for place in (database.parent, Path(settings.cwd), Path(folder.path).parent):
        target = place / name
        try:
            rescue.pack(target, members)
        except OSError:
            continue
        _remove(folder, list(spilled.values()))
        return target
    return None


def is_kept_run(path: Path) -> bool:
    """Is it a run that is kept in a file, or a run folder?"""
    if not path.is_dir():
        return path.suffix == rescue.SUFFIX or rescue.is_rescue(path)
    try:
        with open_any(os.fspath(path)) as folder:
            return (folder / "run").read_record().startswith(values.MAGIC)
    except Untrusted as problem:
        raise FormatError(f"{problem}: it is not read") from None
    except OSError:
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
        with open_run(os.path.abspath(path)) as folder:
            delivery = _import_folder(folder, database, places, None)
    else:
        folder, _ = make_run_folder("import")
        with folder:
            try:
                rescue.unpack(path, folder, _is_kept)
                delivery = _import_folder(folder, database, places, _rescued_facts(folder))
            except (Untrusted, values.Damaged, *_DAMAGE) as problem:
                raise FormatError(f"{path} is damaged ({problem})") from None
            except OSError as problem:
                raise FormatError(f"{path} could not be unpacked ({problem})") from None
            finally:
                folder.remove()
    if delivery.trial_id is None:
        raise TaupyError(delivery.problem or f"{path} holds nothing that can be stored")
    return delivery


def _rescued_facts(folder: Folder) -> dict[str, str]:
    """Facts of the machine that the run was measured on. Nothing is looked up: what a file
    of others says of folders (and their git) is none of this machine's."""
    try:
        facts = values.loads((folder / _FACTS).read_record())
    except FileNotFoundError:
        return {"Hostname": read_settings(folder).host}
    if not fits(facts, dict[str, str]):
        raise values.Damaged("its facts are not as they should be")
    return facts  # type: ignore[no-any-return]


def _import_folder(
    folder: Folder, database: str, places: Mapping[str, Any], facts: Mapping[str, str] | None
) -> Delivery:
    if places:
        write_settings(folder, replace(read_settings(folder), **places))
    return deliver(folder, database, rescue=False, unclash=True, facts=facts)


# --- runs that nobody has stored ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Runs of this user whose program is gone and that nobody has stored yet.

    Attributes:
        runs: run folders with their settings.
        refused: what lies there and is not trusted, or not understood, a line each.
    """

    runs: list[tuple[Path, RunSettings]]
    refused: list[str]


def leftovers(database: Path | None = None) -> Leftovers:
    """Find them, and change nothing.

    Args:
        database: only those meant for this database.
    """
    folders, refused = run_folders()
    runs = []
    for path in folders:
        try:
            with open_run(os.fspath(path)) as folder:
                settings = read_settings(folder)
        except FileNotFoundError:
            continue  # it is being made, or being removed
        except (OSError, values.Damaged) as problem:
            refused.append(f"the run in {path} is left alone: {problem}")
            continue
        if database is not None and not _is_same(settings.database, database):
            continue
        if settings.host != os.uname().nodename:
            continue
        if settings.boot_id == boot_id() and is_alive(settings.root_pid, settings.root_start):
            continue
        runs.append((path, settings))
    return Leftovers(runs, refused)


def _is_same(one: str, other: Path) -> bool:
    try:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a zero byte in it
        return False


def recover(database: Path) -> list[Delivery]:
    """Store all leftovers of a database; a run that others are storing is waited for. What
    cannot be stored, or is not trusted, comes as a `problem`."""
    found = leftovers(database)
    deliveries = [Delivery(problem=text) for text in found.refused]
    for path, settings in found.runs:
        try:
            with open_run(os.fspath(path)) as folder:
                if not has_news(folder, settings):
                    continue
                delivery = deliver(folder, rescue=False)
        except FileNotFoundError:
            continue  # stored meanwhile
        except (TaupyError, OSError, *_DAMAGE) as problem:
            delivery = Delivery(problem=f"the run in {path} could not be stored: {problem}")
        if delivery.trial_id is not None or delivery.problem:
            deliveries.append(delivery)
    return deliveries
