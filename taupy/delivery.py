"""Deliver a run that has ended: build its profile, and store it or save it in a file.

`session.py` finds undelivered runs. Delivery can be repeated at any point: nodes that are stored
already are not stored again.

The prompt waits for it, so what few runs have (GPU parts, looks at lines, snapshots) is imported
where such a file is found. `tests/integration/test_light_storing.py` guards it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from taupy.collectors import host
from taupy.dataclass import dataclass, replace
from taupy.errors import DatabaseError
from taupy.instrument.runfolder import (
    RunSettings,
    masking_of,
    read_settings,
    write_settings,
)
from taupy.model.processes import process_start, stat_fields
from taupy.model.profile import Profile, SourceFile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.files import PATIENCE_S, waiting_at_most
from taupy.profiledb.writer import (
    add_profile,
    complete_trial,
    is_of_another_process,
    unclashing_name,
)
from taupy.record import part_files, process_rows
from taupy.record.beginning import never_began
from taupy.record.children import Notes, take_notes, unmeasured
from taupy.record.collected import Collected, clock_now, collect, goes_on
from taupy.record.descendants import others
from taupy.record.endings import add_endings, watch_facts
from taupy.record.forks import lost_forks, take_forks
from taupy.record.host_health import HEALTH, add_losses
from taupy.record.host_profile import HostPlaces, assign_nodes, profile_of
from taupy.record.part_data import Part
from taupy.record.part_files import (
    FOLDED,
    GPU_COPY_SUFFIX,
    GPU_COUNT_SUFFIX,
    GPU_SUFFIX,
    GPU_TRACE_SUFFIX,
    NCCL_SUFFIX,
    PART_SUFFIXES,
    SNAPSHOT_SUFFIX,
)
from taupy.record.source_files import read_sources
from taupy.state import heartbeat, sqlite, values, watch_files
from taupy.state.folder import ELSEWHERE, SUBINTERPRETERS, File, Folder, Untrusted
from taupy.state.pauses import pauses
from taupy.state.shape import fits
from taupy.units import several, verb

_KEPT_SUFFIXES = (
    *PART_SUFFIXES, SNAPSHOT_SUFFIX, GPU_SUFFIX, GPU_TRACE_SUFFIX, GPU_COUNT_SUFFIX,
    GPU_COPY_SUFFIX, ".problem", ELSEWHERE, SUBINTERPRETERS, NCCL_SUFFIX,
    *watch_files.LINE_SUFFIXES,
)  # fmt: skip
FACTS = "facts"
_KEPT_NAMES = (
    "run",
    "nodes",
    "nvml",
    "sampling",
    "sampled",
    watch_files.HEARTBEAT,
    *watch_files.LOOKS,
    *watch_files.OF_LINES,
    FACTS,
)
_LOCKED_S = 0.7
"""How long a storer waits for a lock (for readers when it commits: a second), twice, if nobody
works under it."""
_TRIES = 100
_CLOCK_OFF_NS = 10_000_000
_LOOKS, _BETWEEN_LOOKS_S = 10, 0.01
_OF_THE_STORER = ("storer_argv", "spill_prefix", "trust_folder")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of a delivery.

    Attributes:
        trial_id: the trial, None if there is none (yet).
        rescue: the file in which the run was saved instead.
        running: number of processes that are still running; their parts follow later.
        problem: why there is no trial, in one line.
        profile: the stored profile.
        joined: a description of how its counters were added to the trial of another run, whose id
            is then `trial_id`.
        job: the rank of a job, such as `rank 0 of 4`.
        database: the database with the trial.
        push_to: the store to which the trial is pushed, "" for none.
        lacks_gpu: `--gpu` was given, and nothing was recorded on a GPU.
        waits: the database is locked, or may not grow as far as it has to; the run stays in its
            folder, `rescue`, for the watch.

    With a trial but no profile, the trial waited for processes that have left no further data.
    """

    trial_id: int | None = None
    rescue: str | None = None
    running: int = 0
    problem: str | None = None
    profile: Profile | None = None
    name: str = ""
    joined: str = ""
    job: str = ""
    database: str = ""
    push_to: str = ""
    lacks_gpu: bool = False
    waits: bool = False


class _Gone(Exception):
    """Another process has delivered the run in the meantime."""


@contextmanager
def _locked(folder: Folder) -> Iterator[None]:
    """Lock the run, so that one process at a time delivers it.

    Raises:
        _Gone: another process has delivered the run meanwhile.
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
    is_told: bool = True,
    unclash: bool = False,
    facts: Mapping[str, str] | None = None,
) -> Delivery:
    """Store the contents of a run folder, and remove what is stored.

    Args:
        folder: the run folder.
        database: the database, if not the one in the run's settings.
        rescue: save the run beside the database if it cannot be written to it.
        is_told: a person reads the message. Otherwise a run of which nothing was measured
            stays, so that the next command says so.
        unclash: use the next free name if another trial of the experiment has the same name.
        facts: about the machine and the program; None: collect those of this machine now.
    """
    try:
        with _locked(folder):
            run = _Run.opened(folder, database, facts)
            trusts = facts is None and bool(run.settings.engine_options.get("trust_folder"))
            with sqlite.trusting_folders(trusts):
                delivery = (
                    _deliver(run, rescue, unclash) if run.parts else _without_parts(run, is_told)
                )
            return replace(
                delivery,
                database=run.database,
                push_to=run.settings.engine_options.get("push_to") or "",
                lacks_gpu=run.lacks_gpu,
            )
    except _Gone:
        return Delivery()
    except FileNotFoundError as problem:
        return Delivery(problem=f"{folder} contains no run ({problem.strerror})")
    except MemoryError:
        return Delivery(
            problem=f"there is not enough memory to store the run in {folder}: it stays there, "
            "and the watch or the next taupy command will try again (see `ulimit -a`)"
        )
    except (Untrusted, values.Damaged) as problem:
        return Delivery(problem=f"the run in {folder} is left alone: {problem}")


@dataclass(slots=True)
class _Run:
    """A run that is being delivered.

    Attributes:
        facts: about the machine and the program; None until they have been collected.
        parts: the parts to store.
        was_stored: whether some of its parts are already stored.
        spilled: its files outside the run folder.
        lacks_gpu: see `Delivery`.
    """

    folder: Folder
    settings: RunSettings
    database: str
    facts: Mapping[str, str] | None
    clock_now: tuple[int, int] | None
    spilled: dict[str, File]
    collected: Collected
    was_stored: bool
    parts: list[Part]
    lacks_gpu: bool = False

    @classmethod
    def opened(cls, folder: Folder, database: str | None, facts: Mapping[str, str] | None) -> _Run:
        settings = read_settings(folder)
        now = clock_now(settings)
        spilled = part_files.spilled(settings, *_KEPT_SUFFIXES) if facts is None else {}
        collected = collect(folder, settings, now, spilled)
        settings.notes += collected.problems
        was_stored = (folder / "nodes").exists()
        if collected.parts and not was_stored and settings.root_pid not in collected.all_pids():
            collected.lost.append(
                "the program's own process left no profile: what it measured is lost"
            )
        alone = not collected.running and not was_stored
        parts = [] if alone and never_began(settings, collected.parts) else collected.parts
        return cls(
            folder,
            settings,
            database=database or settings.database,
            facts=facts,
            clock_now=now,
            spilled=spilled,
            collected=collected,
            was_stored=was_stored,
            parts=parts,
        )

    @property
    def running(self) -> int:
        return self.collected.running

    def remove(self, done: list[File]) -> None:
        """Remove what is stored, and everything else once no process is running any more; a child
        may have begun while the others' parts were being stored.

        Files outside the run folder are removed first, while they can still be found.
        """
        for file in done:
            file.unlink(missing_ok=True)
        if not self.running and not part_files.names(self.folder) - self.collected.names:
            self.folder.remove()


def _without_parts(run: _Run, is_told: bool) -> Delivery:
    if run.was_stored and os.path.exists(run.database):
        # All that was measured is stored; whoever was still running then left nothing more.
        if run.running:
            return Delivery(running=run.running)
        with ProfileDB.open(run.database, create=False, readonly=False) as db:
            trial = complete_trial(db, run.settings.trial_uuid, "\n".join(run.collected.lost))
        run.remove([])
        return Delivery(trial)
    run.lacks_gpu = run.settings.gpu == "yes" and not run.running
    if is_told and not run.running:
        run.remove(run.collected.files)
    why = [*run.settings.notes, *run.collected.lost]
    reason = "; ".join(
        why or ["the program ended before its first routine, or could write no file"]
    )
    return Delivery(problem=f"nothing was measured: {reason}", running=run.running)


def _deliver(run: _Run, rescue: bool, unclash: bool) -> Delivery:
    node_of = _stored_nodes(run.folder)
    run.collected.pids |= set(map(part_files.pid_of, node_of))
    nodes = assign_nodes(run.settings, run.parts, node_of)
    try:
        (run.folder / "nodes").write_bytes(values.dumps(node_of))
    except OSError as problem:
        if run.running:  # theirs could get the same numbers
            waits = (
                f"it will be stored when its child processes have ended: {run.running} ({problem})"
            )
            return Delivery(problem=waits, running=run.running)
    profile, facts, done = _profile(run, nodes)
    try:
        trial_id, name, joined = _stored_in_time(run, profile, facts, unclash)
    except (DatabaseError, OSError) as problem:
        # The watch need not have the program's limits; its own stay what they are.
        can_wait = isinstance(problem, (sqlite.Busy, sqlite.Limited) if rescue else sqlite.Busy)
        if can_wait and not run.running and _has_watch(run.folder):
            return Delivery(None, run.folder.path, 0, str(problem), profile, waits=True)
        kept = _rescue(run, facts) if rescue and not run.running else None
        rescued = kept or run.folder.path
        return Delivery(None, rescued, run.running, str(problem), profile)
    run.remove(done)
    place = run.settings
    job = f"rank {place.rank} of {place.world_size}" if place.world_size > 1 else ""
    return Delivery(
        trial_id, running=run.running, profile=profile, name=name, joined=joined, job=job
    )


def _profile(run: _Run, nodes: dict[int, Part]) -> tuple[Profile, Mapping[str, str], list[File]]:
    """The profile of all nodes' parts, the facts in it, and the files from which it was built."""
    places: dict[int, HostPlaces] = {}
    missed = {part.metadata.pop("taupy.gpu.missed", "") for part in run.parts}
    lost = _lost(run)
    add_endings(run.folder, run.settings, run.parts)
    profile = profile_of(run.settings, nodes, finished=not run.running, places=places)
    profile.metadata.update(lost)
    add_losses(profile, run.collected.lost)
    if part_files.has_content(run.folder / watch_files.MEMORY):
        from taupy.record.looks import add_series

        add_series(run.folder, profile, nodes)
    has_lines = any(
        map(part_files.has_content, run.folder.files(watch_files.LINE_SUFFIXES[0]))
    ) or any(thread.lines for part in nodes.values() for thread in part.threads)
    if has_lines:
        from taupy.record.lines import add_lines

        add_lines(run.folder, profile, places, run.settings)
    looks = run.collected.looks
    profile.metadata |= (looks.unread if looks else {}) | process_rows.note(run.parts)
    if profile.exit_code is None:
        profile.exit_code = run.settings.ending
    done = list(run.collected.files)
    if run.folder.files(NCCL_SUFFIX):
        from taupy.record.nccl_part import add_nccl

        done += add_nccl(profile, places, run.folder)
    done += _add_gpus(run, profile, places, missed)
    if run.running:
        profile.metadata["taupy.health.running"] = (
            f"{several(run.running, 'child process')} {verb(run.running, 'were')} still running "
            "when this was stored; the next taupy command adds what was measured there"
        )
    facts = run.facts
    if facts is None:
        facts = {**_facts(run.settings), **watch_facts(run.folder, run.collected.parts), **lost}
    _describe(profile, run, facts)
    if run.facts is None:  # paths of another machine are not looked up here
        masking = masking_of(run.folder, run.settings)
        profile.sources = read_sources(profile, run.settings, masking)
        if any("IMPORT" in timer.groups for timer in profile.timers):
            from taupy.record.compiled_modules import add_compiled

            add_compiled(profile, run.settings)
        if has_lines:
            from taupy.record.lines import add_texts

            add_texts(profile, masking)
    return profile, facts, done


def _lost(run: _Run) -> dict[str, str]:
    """Notes on what was not measured in the run, as metadata."""
    collected = run.collected
    notes = take_notes(run.parts, masking_of(run.folder, run.settings))
    notes.arrivals.extend(collected.elsewhere)
    is_running = partial(goes_on, settings=run.settings)
    late = _add_lost_forks(run, notes, is_running)
    if run.facts is not None:  # what a run of another machine says of files there is not looked up
        return {name: text for name, text in run.facts.items() if name.startswith(HEALTH)}
    health = unmeasured(notes, collected.pids, is_running)
    lost = {f"{HEALTH}{name}": text for name, text in [*health.items(), *late.items()]}
    elsewhere = {arrival.pid for arrival in collected.elsewhere}
    return {**lost, **others(run.folder, notes, collected.pids, elsewhere)}


def _add_lost_forks(run: _Run, notes: Notes, is_running: Callable[[int], bool]) -> dict[str, str]:
    """Add notes about forked children whose data is lost, known from their parents' notes; returns
    what is to be said of those that may come later, by name of the health metadata."""
    helpers = [fork for helper in run.collected.helpers for fork in take_forks(helper)]
    forks = [*notes.forks, *helpers]
    lost, late = lost_forks(forks, run.parts, run.collected.pids, is_running)
    if lost:
        run.collected.lost.append(lost)
    return {"children_awaited": late} if late else {}


def _add_gpus(
    run: _Run, profile: Profile, places: dict[int, HostPlaces], missed: set[str]
) -> list[File]:
    """Add the work of GPUs; returns the files from which it was read."""
    folder, settings = run.folder, run.settings
    has_parts = folder.files(GPU_SUFFIX, GPU_COUNT_SUFFIX, "sampling") or any(
        name.endswith(GPU_SUFFIX) for name in run.spilled
    )
    is_expected = settings.gpu == "yes" or settings.engine_options.get("gpu_counter_names")
    if not (has_parts or is_expected or missed - {""}):
        return []
    from taupy.record.gpus import (
        add_gpu_counts,
        add_gpus,
        add_timelines,
        describe_gpus,
        lacks_gpu,
    )

    done = add_gpus(profile, places, folder, settings, missed, run.spilled, is_over=not run.running)
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
    run.lacks_gpu = not run.running and lacks_gpu(profile, settings)
    return done


def _stored_in_time(
    run: _Run, profile: Profile, facts: Mapping[str, str], unclash: bool
) -> tuple[int, str, str]:
    """As `_stored`. Waits a second or two for a lock, and longer only while its holder is at work:
    another storer. Anybody who may read the database can keep it locked for ever."""
    ends, idle = time.monotonic() + PATIENCE_S, 0
    for _ in range(_TRIES):
        try:
            with waiting_at_most(_LOCKED_S):
                return _stored(run, profile, facts, unclash)
        except sqlite.Busy:
            idle = 0 if _is_worth_waiting(run.database) else idle + 1
            if idle > 1 or time.monotonic() > ends:
                raise
    return _stored(run, profile, facts, unclash)


def _is_worth_waiting(database: str) -> bool:
    """Whether who holds a lock of the database is at work, or nobody does any more."""
    pid = sqlite.holder(database)
    if pid is None:
        return True
    for _ in pauses(_LOOKS * _BETWEEN_LOOKS_S, _BETWEEN_LOOKS_S):
        if not pid or not (fields := stat_fields(pid)):
            return False
        if fields[0] in "RD":
            return True
    return False


def _has_watch(folder: Folder) -> bool:
    """Whether a watch is there that will store the run later, or is about to begin: what waits for
    the end of a short program becomes it if the run is still there (`watch/start.py`)."""
    try:
        kept = heartbeat.read(folder)
    except (OSError, values.Damaged):
        return False
    if kept is None:
        return (folder / watch_files.HEARTBEAT).exists()
    return bool(process_start(kept[0].pid))


def _stored(
    run: _Run, profile: Profile, facts: Mapping[str, str], unclash: bool
) -> tuple[int, str, str]:
    """Store the profile; returns the trial's id and name, and how it joined another trial."""
    with ProfileDB.open(run.database, create=True, readonly=False) as db:
        if unclash:
            profile.name = unclashing_name(db, profile)
        _tell_runs_apart(db, run, profile)
        trial_id, joined = _joined(db, profile, run.settings, run.running)
        if not joined:
            trial_id = add_profile(db, profile)
        name = _trial_name(db, trial_id)
        _store_snapshots(db, run, name, facts, profile.sources)
    return trial_id, name, joined


def _tell_runs_apart(db: ProfileDB, run: _Run, profile: Profile) -> None:
    """Make separate trials of runs with the same name (torchrun's --rdzv-id, a scheduler's job).

    All ranks of a later run find their own rank stored already, so they choose the same next
    identity.
    """
    settings = run.settings
    if not settings.attempt or run.was_stored:
        return
    while is_of_another_process(db, profile):
        settings.again += 1
        profile.uuid = settings.trial_uuid
    if settings.again and run.running:
        write_settings(run.folder, settings)  # those who are still running follow


def _stored_nodes(folder: Folder) -> dict[str, int]:
    """The nodes of stored parts, by the part's name."""
    try:
        nodes = values.loads((folder / "nodes").read_record())
    except FileNotFoundError:
        return {}
    if not fits(nodes, dict[str, int]):
        raise values.Damaged("its node numbers are invalid")
    return nodes  # type: ignore[no-any-return]


def _joined(
    db: ProfileDB, profile: Profile, settings: RunSettings, running: int
) -> tuple[int, str]:
    """Add the counters to the trial for which the run was meant; returns its id and a description,
    which is "" if that is impossible: then the run becomes a separate trial, which says why."""
    if not settings.merge_into:
        return 0, ""
    from taupy.profiledb.metrics_merge import RunsDiffer, merge_metrics

    trial = next((row.id for row in db.trials() if row.uuid == settings.merge_into), 0)
    why = "the trial that they were meant for no longer exists"
    if running:
        why = "child processes were still running when the program ended"
    elif trial:
        try:
            return trial, str(merge_metrics(db, trial, profile))
        except RunsDiffer as problem:
            why = str(problem)
    profile.metadata["taupy.health.not_joined"] = f"its counters became a separate trial: {why}"
    return 0, ""


def _store_snapshots(
    db: ProfileDB,
    run: _Run,
    trial: str,
    facts: Mapping[str, str],
    sources: list[SourceFile],
) -> None:
    """Store each snapshot that the program took as a separate trial, `TRIAL@LABEL`."""
    if not run.folder.files(SNAPSHOT_SUFFIX):
        return
    from taupy.record import snapshots

    for file, profile in snapshots.read(
        run.folder, run.settings, trial.rsplit("/", 1)[-1], run.clock_now
    ):
        _describe(profile, run, facts)
        profile.sources = sources
        add_profile(db, profile)
        file.unlink()
        file.with_suffix(GPU_COPY_SUFFIX).unlink(missing_ok=True)


def _trial_name(db: ProfileDB, trial_id: int) -> str:
    for row in db.trials():
        if row.id == trial_id:
            return f"{row.application}/{row.experiment}/{row.name}"
    return ""


def _facts(settings: RunSettings) -> dict[str, str]:
    """Current facts of this machine, and facts of the program."""
    command = [*settings.interpreter, *settings.arguments]
    program = host.program_metadata(command, settings.cwd, settings.program_folder)
    return {**host.host_metadata(), **program, **_clock()}


def _clock() -> dict[str, str]:
    """That programs are given another clock than the machine's, as metadata: this process has the
    environment of the measured one."""
    try:
        from taupy._native import engine
    except ImportError:
        return {}
    before, (_, true_ns), after = time.monotonic_ns(), engine.read_clock(), time.monotonic_ns()
    if before - _CLOCK_OFF_NS <= true_ns <= after + _CLOCK_OFF_NS:
        return {}
    return {
        f"{HEALTH}clock": "programs read another clock than the machine's, from a library that is "
        "loaded into them (LD_PRELOAD, such as libfaketime): times here are the machine's, but not "
        "what the program itself measures"
    }


def _describe(profile: Profile, run: _Run, facts: Mapping[str, str]) -> None:
    """Add the trial's facts about machine, program and measurement; mask those of the program."""
    settings = run.settings
    masking_of(run.folder, settings).mask(profile)
    described = dict(facts)
    for name, cost in settings.overhead.items():
        described[f"taupy.overhead.{name}"] = f"{cost:.1f}"
    engines = sorted({data["Engine"] for data in profile.node_metadata.values()})
    described["taupy.engine"] = ", ".join(engines)
    for name in ("c_calls", "imports", "depth", "include", "exclude", "throttle", "max_callpaths"):
        value = settings.engine_options.get(name)
        if value:
            described[f"taupy.option.{name}"] = str(value)
    profile.metadata = {**described, **profile.metadata}


def is_kept(name: str) -> bool:
    return name in _KEPT_NAMES or name.endswith(_KEPT_SUFFIXES) or name.startswith(FOLDED)


def _rescue(run: _Run, facts: Mapping[str, str]) -> str | None:
    """Pack the run into one file beside the database; None if that failed and the run stays.

    What may contain secrets (the environment, command lines of child processes, which the facts
    name without), and data for this machine only are left out.
    """
    from taupy.record.part_masking import masked_copy
    from taupy.state import rescue

    settings = run.settings
    record = settings.record()
    record["engine_options"] = {
        option: value
        for option, value in settings.engine_options.items()
        if option not in _OF_THE_STORER
    }
    masking = masking_of(run.folder, settings)
    files = {name: run.folder / name for name in run.folder.names() if is_kept(name)} | run.spilled
    members: dict[str, rescue.Member] = {
        name: partial(masked_copy, name, file, masking) for name, file in files.items()
    }
    members |= {"run": values.dumps(record), FACTS: values.dumps(dict(facts))}
    name = f"{os.path.basename(run.database)}-{settings.uuid}{rescue.SUFFIX}"
    folders = (os.path.dirname(run.database), settings.cwd, os.path.dirname(run.folder.path))
    for path in (os.path.join(folder, name) for folder in folders):
        try:
            rescue.pack(path, members)
        except (OSError, MemoryError):
            continue
        run.remove(list(run.spilled.values()))
        return path
    return None
