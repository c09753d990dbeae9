"""Combine the parts of a run into one Profile.

Routines get their display names (files relative to the program, the installed
packages or the standard library), equal routines of different code objects become one
timer, exclusive times and subroutines are computed, and the options of the
launch (compensation, folding of library code) are applied.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from functools import cache

from taupy.dataclass import dataclass, replace
from taupy.instrument.rank_variables import NOTE
from taupy.instrument.runfolder import RunSettings
from taupy.model import job
from taupy.model.names import CELL, LIBRARY, in_packages, is_library, one_name
from taupy.model.profile import (
    ROOT_TIMER,
    TIME,
    LayerFacts,
    Metric,
    Profile,
    Steps,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.model.sampled import CPU_TIME, RESIDENT
from taupy.model.streams import HostPath, merged_events
from taupy.network import layers
from taupy.network.phases import group_of
from taupy.record import endings, host_health, small_tree
from taupy.record.host_health import HEALTH
from taupy.record.part_data import Part, PartThread, Routine
from taupy.record.small_tree import COMPENSATED
from taupy.units import count as counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.record.wide_tree import RoutineTimers


class FileNames:
    """Display names of source files: relative to a known folder if that is unique."""

    def __init__(self, settings: RunSettings) -> None:
        self.cwd = settings.cwd
        self.program = _program_folders(settings)
        self.libraries = settings.library_folders
        self._absolute: dict[str, str] = {}
        self._library: dict[str, bool] = {}
        self._shown: dict[str, str] = {}
        self._owner: dict[str, str] = {}

    def absolute(self, file: str) -> str:
        """The path of `file`, in one spelling. Code that was compiled elsewhere (by Cython) has a
        relative path that may be nowhere; then it stays relative."""
        if not file or file.startswith("<"):
            return file
        if file not in self._absolute:
            folders = ("",) if os.path.isabs(file) else (self.cwd, *self.libraries)
            paths = (os.path.join(folder, file) for folder in folders)
            path = next(filter(os.path.exists, paths), file)
            self._absolute[file] = _without_detours(path) if os.path.isabs(path) else path
        return self._absolute[file]

    def shown(self, file: str) -> str:
        """The display name of `file`; no two files share one, and no file has two."""
        if file in self._shown:
            return self._shown[file]
        path = self.absolute(file)
        short = in_packages(path) or one_name(path)
        if short == path and os.path.isabs(path):
            for folder in (*self.libraries, *self.program):
                if folder and path.startswith(folder.rstrip("/") + "/"):
                    short = path[len(folder.rstrip("/")) + 1 :]
                    break
        owner = self._owner.setdefault(short, path)
        if owner != path and not _is_same(owner, path) and not short.startswith(CELL):
            short = path
            self._owner.setdefault(short, path)
        self._shown[file] = short
        return short

    def is_library(self, file: str) -> bool:
        if file not in self._library:
            path = self.absolute(file)
            self._library[file] = (
                file.startswith("<frozen")
                or in_packages(path) is not None
                or any(path.startswith(folder.rstrip("/") + "/") for folder in self.libraries)
            )
        return self._library[file]


def _program_folders(settings: RunSettings) -> list[str]:
    """The folder of the program's script as named by the user, and where Python looks for the
    modules beside it: without symbolic links, those of the script included. Longest first."""
    given = settings.program_folder
    target = settings.arguments[:1]
    real = [os.path.realpath(given)] if given else []
    if target and not target[0].startswith("-"):
        script = os.path.realpath(os.path.join(settings.cwd, target[0]))
        real.append(script if os.path.isdir(script) else os.path.dirname(script))
    folders = sorted({given, *real}, key=len, reverse=True)
    # Names of files have been through the same (`text_of` in names.c).
    return [folder.encode("utf-8", "backslashreplace").decode() for folder in folders]


def _without_detours(path: str) -> str:
    """The path without `.` and `..`; what precedes a `..` may be a symbolic link."""
    head, up, tail = path.rpartition("/../")
    return os.path.normpath(os.path.realpath(head + up) + "/" + tail if up else path)


def _is_same(first: str, other: str) -> bool:
    """Whether two paths lead to one file."""
    return os.path.realpath(first) == os.path.realpath(other)


@cache
def _groups(joined: str) -> tuple[str, ...]:
    return tuple(part for part in joined.split("|") if part) or ("PYTHON",)


class Timers:
    """All timers of the profile, each once."""

    def __init__(self, names: FileNames) -> None:
        self.names = names
        self.timers: list[Timer] = []
        self.library: list[bool] = []
        self._at: dict[tuple[str, str | None, int | None, tuple[str, ...]], int] = {}
        self.root = self._add(Timer(ROOT_TIMER, groups=("TAUPY",)), False)

    def _add(self, timer: Timer, library: bool) -> int:
        identity = (timer.name, timer.file, timer.line, timer.groups)
        if identity not in self._at:
            self._at[identity] = len(self.timers)
            self.timers.append(timer)
            self.library.append(library)
        return self._at[identity]

    def is_own(self, timer: int) -> bool:
        """Whether it is a routine of the program."""
        path = self.timers[timer].path
        return not self.library[timer] and path is not None and not is_library(path)

    def of(self, routine: Routine) -> int:
        """Position of the timer of a routine."""
        groups = _groups(routine.group)
        if routine.throttled:
            groups = (*groups, "THROTTLED")
        if phase := group_of(routine.name, routine.file, groups):
            groups = (*groups, phase)
        if layers.GROUP in groups:
            name = layers.qualified_name(routine.name)
            return self._add(Timer(routine.name, groups=groups, short=name), False)
        if not routine.file:
            return self._add(Timer(routine.name, groups=groups), routine.kind == "c")
        path, library = self.names.absolute(routine.file), self.names.is_library(routine.file)
        if library and not is_library(path):
            groups = (*groups, LIBRARY)
        return self._add(
            Timer(
                routine.name,
                self.names.shown(routine.file),
                routine.line,
                groups,
                path,
            ),
            library,
        )


@dataclass(frozen=True, slots=True)
class HostPlaces:
    """Maps addresses of call paths in one process to rows of its node's threads."""

    part: Part
    threads: list[ThreadProfile]
    row_of: list[Sequence[int]]

    def find(self, address: int) -> HostPath | None:
        """As `FindPath`."""
        place = self.part.places.find(address) if self.part.places is not None else None
        if place is None:
            return None
        thread, row = place
        return HostPath(self.threads[thread], int(self.row_of[thread][row]))


def profile_of(
    settings: RunSettings,
    parts: dict[int, Part],
    *,
    finished: bool,
    places: dict[int, HostPlaces] | None = None,
) -> Profile:
    """One profile from the parts of a run, one node each.

    Args:
        settings: of the run.
        parts: node -> part.
        finished: whether all processes of the run have ended.
        places: receives, for each node, the places of its call paths in the profile.
    """
    timers = Timers(FileNames(settings))
    facts: list[LayerFacts] = []
    places_of: dict[int, HostPlaces] = {} if places is None else places
    for node, part in sorted(parts.items()):
        timer_of = [timers.of(routine) for routine in part.routines]
        if part.layers:
            from taupy.record import part_layers

            facts += part_layers.placed(part.layers, node, timer_of)
        places_of[node] = _threads(settings, node, part, timers, timer_of)
    threads = [thread for node in parts for thread in places_of[node].threads]
    for node, part in sorted(parts.items()):
        if part.collectives is not None:  # the threads of other processes are numbered by now
            from taupy.record import collectives

            place = places_of[node]
            threads += collectives.thread_of(place.threads, timers.timers, part, place.find)
    threads.sort(key=lambda measured: measured.thread)
    # Several if the program replaced itself (os.exec*): its images in order.
    in_order = sorted(parts.values(), key=lambda part: part.start_ns)
    roots = [part for part in in_order if part.pid == settings.root_pid]
    # A job takes as long as its first rank, whatever its launcher does before and after.
    lead = next((part.pid for _, part in sorted(parts.items()) if part.rank is not None), None)
    timed = [part for part in in_order if part.pid == lead] or roots
    first = timed[0] if timed else in_order[0]
    last = timed[-1] if timed else max(in_order, key=lambda part: part.end_ns)
    metadata = {**settings.metadata}
    for part in timed:
        metadata.update(
            {name: text for name, text in part.metadata.items() if not name.startswith("taupy.")}
        )
    metadata.update(host_health.of_parts(parts, roots))
    metadata.update(host_health.of_settings(settings, timers.timers, threads))
    return Profile(
        uuid=settings.trial_uuid,
        application=settings.application,
        experiment=settings.experiment,
        name=settings.trial,
        started_at=first.started_at,
        duration_ns=max(0, last.end_ns - first.start_ns),
        timers=timers.timers,
        threads=threads,
        metrics=_metrics(settings, parts),
        exit_code=_exit_code(last) if roots else None,
        state="complete" if finished and host_health.is_whole(settings, parts) else "incomplete",
        metadata=metadata,
        node_metadata={node: _facts(settings, part) for node, part in sorted(parts.items())},
        layers=facts,
    )


def _threads(
    settings: RunSettings, node: int, part: Part, timers: Timers, timer_of: list[int]
) -> HostPlaces:
    """The threads of a process, and the places of its call paths in them."""
    places = HostPlaces(part, [], [])
    is_plain = small_tree.is_plain(timer_of, timers.timers, settings)
    routines: RoutineTimers | None = None
    has_inputs = any(routine.inputs is not None for routine in part.routines)
    for number, thread in enumerate(part.threads):
        row_of: Sequence[int]
        if is_plain and isinstance(thread.routine, array):
            tree = small_tree.tree(thread, timer_of, timers.root)
            row_of = range(len(thread.routine))
        else:
            if routines is None:
                from taupy.record import wide_tree  # imports NumPy: the prompt would wait

                routines = wide_tree.RoutineTimers.of(timer_of, timers)
            tree, row_of = wide_tree.tree(thread, routines, timers, settings)
        events = [_user_event(sampled, row_of) for sampled in thread.samples]
        if thread.suspensions:
            from taupy.record.suspensions import suspension_events

            waits = suspension_events(thread, lambda routine: timers.is_own(timer_of[routine]))
            events += [_user_event(waited, row_of) for waited in waits]
        if thread.growth and thread.several is None:
            from taupy.record.growth import growth_events

            events += [_user_event(noted, row_of) for noted in growth_events(thread)]
        where = _where(settings, part, node, number, thread)
        if thread.several is not None:
            events.append(thread.several.cpu.event(CPU_TIME, "ns"))
        elif thread.cpu_ns:
            events.append(UserEvent.once(CPU_TIME, "ns", float(thread.cpu_ns)))
        measured = ThreadProfile(where, tree, events, steps=_steps(thread, settings))
        if has_inputs:
            from taupy.record.operator_inputs import inputs_of

            measured.inputs = inputs_of(part, thread, row_of)
        if thread.spans is not None and routines is not None:
            measured.activities = wide_tree.activities(thread, thread.spans, routines, tree, row_of)
        places.threads.append(measured)
        places.row_of.append(row_of)
    _resident_once(places.threads)
    return places


def _steps(thread: PartThread, settings: RunSettings) -> list[Steps]:
    """The steps of a thread with the metrics that were read at their boundaries."""
    counters = settings.engine_options.get("counter_metrics", ())
    reliable = [name for name, _ in counters] if thread.refused is None else []
    return [series.named(reliable) for series in thread.steps]


def _resident_once(threads: Sequence[ThreadProfile]) -> None:
    """Move a process's resident memory to its first thread, whichever thread sampled it."""
    resident: list[UserEvent] = []
    for measured in threads:
        resident += [event for event in measured.user_events if event.name == RESIDENT]
        measured.user_events = [event for event in measured.user_events if event.name != RESIDENT]
    if resident:
        threads[0].user_events[:0] = merged_events(resident)


def _facts(settings: RunSettings, part: Part) -> dict[str, str]:
    """The metadata of a process's node."""
    which = {"Processes": str(len(part.added)), "Exit Code": str(part.exit_status)}
    return {
        **(which if part.added else {"Process ID": str(part.pid)}),
        "Parent Process ID": str(part.parent_pid),
        "Engine": part.engine,
        **_place(settings, part),
        **{
            name: text
            for name, text in part.metadata.items()
            if not name.startswith(HEALTH) and name != NOTE
        },
        **({} if part.complete else endings.open_routines(part)),
    }


def _metrics(settings: RunSettings, parts: dict[int, Part]) -> list[Metric]:
    """The metrics of the profile, time first."""
    threads = [thread for part in parts.values() for thread in part.threads]
    metrics = [TIME]
    if any(thread.counters and thread.refused is None for thread in threads):
        counters = settings.engine_options.get("counter_metrics", ())
        metrics += [Metric(name, unit) for name, unit in counters]
    read_at_calls = dict.fromkeys(metric for thread in threads for metric in thread.metrics)
    metrics += [Metric(metric.name, metric.unit) for metric in read_at_calls]
    if settings.compensate and settings.overhead:
        metrics.append(COMPENSATED)
    return metrics


def _where(settings: RunSettings, part: Part, node: int, number: int, thread: PartThread) -> Thread:
    """The thread, or row of threads, as which the trial has it."""
    if (row := thread.several) is None:
        name = _thread_name(settings, part, number, thread.name)
        return Thread(node, 0, number, "host", name, thread.native_id)
    began = "" if row.routine is None else f" of {part.routines[row.routine].name}"
    if part.added and number:
        began += f", {thread.name or 'thread'}"
    name = row_name("processes" if part.added else "threads", row.apart, row.threads) + began
    return Thread(node, 0, number, "host", name, 0, row.threads, row.least_ns, row.most_ns)


def row_name(what: str, apart: int, several: int) -> str:
    """Of several threads or processes that were added up, after those that stay as they are."""
    return f"{what} {counted(apart + 1)} to {counted(apart + several)}"


def _thread_name(settings: RunSettings, part: Part, number: int, name: str) -> str:
    """The name of a thread, with the rank if there are several: a rank's main thread is `rank 1`;
    names of threads in processes started by a rank end with it."""
    if part.rank is not None and number == 0 and name == "MainThread":
        return f"rank {part.rank[0]}"
    if settings.world_size == 1 or number > 0:
        return name
    if part.pid != settings.root_pid:
        return f"{name} of rank {settings.rank}"
    return f"rank {settings.rank}" if name == "MainThread" else name


def _place(settings: RunSettings, part: Part) -> dict[str, str]:
    """A process's rank and attempt in its job, and the facts that identify the process."""
    place = part.rank
    if settings.attempt:
        place = settings.rank, settings.world_size, settings.attempt
    if place is None:
        return {}
    is_own = part.rank is not None or part.pid == settings.root_pid
    code = _exit_code(part) if is_own else None
    rank, size, attempt = map(str, place)
    return {
        job.RANK: rank,
        job.RANKS: size,
        job.ATTEMPT: attempt,
        job.HOST: settings.host,
        job.STARTED: str(round(part.started_at * 1_000_000)),
        job.ENDED: str(round(part.started_at * 1e6 + max(0, part.end_ns - part.start_ns) / 1e3)),
        **({} if code is None else {job.EXIT: str(code)}),
    }


def _exit_code(part: Part) -> int | None:
    return endings.exit_code(part.ending) if part.exit_status is None else part.exit_status


def _user_event(event: UserEvent, row_of: Sequence[int]) -> UserEvent:
    return event if event.row is None else replace(event, row=int(row_of[event.row]) or None)


def _find_ranks(settings: RunSettings, parts: Sequence[Part]) -> None:
    """Note in the parts of a launcher's run which process is which rank of its job: the first of
    those that have its variables. What a rank starts has them as well."""
    first: dict[tuple[int, int], int] = {}
    noted = {part.name: part.metadata.pop(NOTE, "") for part in parts}
    if any(noted[part.name] for part in parts if part.pid == settings.root_pid):
        return  # a rank itself, of one: the processes that it starts are its own
    for part in sorted(parts, key=lambda part: part.start_ns):
        words = noted[part.name].split()
        if settings.launches and len(words) == 3 and all(map(str.isdigit, words)):
            rank, size, attempt = map(int, words)
            if first.setdefault((rank, attempt), part.pid) == part.pid:
                part.rank = rank, size, attempt


def assign_nodes(
    settings: RunSettings, parts: Iterable[Part], node_of: dict[str, int]
) -> dict[int, Part]:
    """A node number for every part: the rank for the launched process, then its children
    in order of their start; `node_of` (part name -> node) holds earlier assignments and is
    extended. The program's own `set_node` takes precedence if the number is free. Of a launcher,
    the ranks that it started come first, and it is a process behind them."""
    parts = [*parts]
    _find_ranks(settings, parts)
    ordered = sorted(
        parts,
        key=lambda part: (part.rank is None, part.pid != settings.root_pid, part.start_ns),
    )
    taken = set(node_of.values())
    nodes: dict[int, Part] = {}
    for part in ordered:
        node = node_of.get(part.name)
        if node is None:
            node = part.node if part.node is not None and part.node not in taken else None
        if node is None:
            node = job.node_of(settings.rank, settings.attempt)
            if part.rank is not None:
                node = job.node_of(part.rank[0], part.rank[2])
            while node in taken:
                node += settings.world_size
        node_of[part.name] = node
        node_of.update(dict.fromkeys((process.name for process in part.added), node))
        taken.add(node)
        nodes[node] = part
    return nodes
