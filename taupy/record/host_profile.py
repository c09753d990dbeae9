"""The parts of a run become one Profile.

Here routines get their names for people (files relative to the program, the installed
packages or the standard library), equal routines of different code objects become one
timer, exclusive times and subroutines are computed, and what was asked for at the
launch (compensation, folding of library code) is applied.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from taupy.instrument.runfolder import RunSettings
from taupy.model.profile import (
    ABSENT,
    ROOT_TIMER,
    TIME,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.record.part_data import Part, PartThread, Routine, Sampled
from taupy.units import duration

CPU_TIME = Metric("cpu_time", "ns")
COMPENSATED = Metric("time_compensated", "ns")
_UNCOUNTED_AT_MOST = 0.001  # of a process's CPU time, without a word
_RANGES = frozenset({"NVTX", "RECORD_FUNCTION"})  # phases that may go on where they did not begin
HEALTH = "taupy.health."
"""Metadata of these names say what is missing or degraded in a measurement."""


class FileNames:
    """How source files are shown: relative to a known folder where that stays unique."""

    def __init__(self, settings: RunSettings) -> None:
        self.cwd = settings.cwd
        self.program = settings.program_folder
        self.libraries = settings.library_folders
        self._shown: dict[str, str] = {}
        self._owner: dict[str, str] = {}

    def absolute(self, file: str) -> str:
        if not file or file.startswith("<") or os.path.isabs(file):
            return file
        return os.path.normpath(os.path.join(self.cwd, file))

    def shown(self, file: str) -> str:
        """`file` for people; two files never get one name."""
        if file in self._shown:
            return self._shown[file]
        short = path = self.absolute(file)
        if os.path.isabs(path):
            for folder in (*self.libraries, self.program):
                if folder and path.startswith(folder.rstrip("/") + "/"):
                    short = path[len(folder.rstrip("/")) + 1 :]
                    break
        if self._owner.setdefault(short, path) != path:
            short = path
            self._owner.setdefault(short, path)
        self._shown[file] = short
        return short

    def is_library(self, file: str) -> bool:
        if file.startswith("<frozen"):
            return True
        path = self.absolute(file)
        return any(path.startswith(folder.rstrip("/") + "/") for folder in self.libraries)


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

    def of(self, routine: Routine) -> int:
        """Position of the timer of a routine."""
        groups = tuple(part for part in routine.group.split("|") if part) or ("PYTHON",)
        if routine.throttled:
            groups = (*groups, "THROTTLED")
        if not routine.file:
            return self._add(Timer(routine.name, groups=groups), routine.kind == "c")
        return self._add(
            Timer(
                routine.name,
                self.names.shown(routine.file),
                routine.line,
                groups,
                self.names.absolute(routine.file),
            ),
            self.names.is_library(routine.file),
        )


@dataclass(frozen=True, slots=True)
class HostPlaces:
    """Where the call paths of one process went: from its memory into its node's threads."""

    part: Part
    threads: list[ThreadProfile]
    row_of: list[list[int]]

    def find(self, address: int) -> tuple[ThreadProfile, int] | None:
        """The thread and row of the call path that lay at an address of the process."""
        place = self.part.places.find(address) if self.part.places is not None else None
        if place is None:
            return None
        thread, row = place
        return self.threads[thread], self.row_of[thread][row]


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
        finished: nothing of the run is still going on.
        places: gets for every node where its call paths went.
    """
    timers = Timers(FileNames(settings))
    threads: list[ThreadProfile] = []
    metrics = [TIME]
    node_metadata: dict[int, dict[str, str]] = {}
    health: dict[str, str] = {}
    # More than one where the program replaced itself (os.exec*): images in their order.
    roots = sorted(
        (part for part in parts.values() if part.pid == settings.root_pid),
        key=lambda part: part.start_ns,
    )
    complete = finished
    cut_off: list[int] = []
    lost: list[str] = []
    for node, part in sorted(parts.items()):
        timer_of = [timers.of(routine) for routine in part.routines]
        here = HostPlaces(part, [], [])
        if places is not None:
            places[node] = here
        for number, thread in enumerate(part.threads):
            tree, row_of = _tree(thread, timer_of, timers, settings)
            events = [_user_event(sampled, row_of) for sampled in thread.samples]
            if thread.cpu_ns:
                cpu = float(thread.cpu_ns)
                events.append(UserEvent("Thread CPU Time", "ns", 1, cpu, cpu, cpu, cpu * cpu))
            where = Thread(node, 0, number, "host", thread.name, thread.native_id)
            threads.append(ThreadProfile(where, tree, events))
            here.threads.append(threads[-1])
            here.row_of.append(row_of)
        node_metadata[node] = {
            "Process ID": str(part.pid),
            "Parent Process ID": str(part.parent_pid),
            "Engine": part.engine,
            **{name: text for name, text in part.metadata.items() if not name.startswith(HEALTH)},
        }
        said = {n[len(HEALTH) :]: t for n, t in part.metadata.items() if n.startswith(HEALTH)}
        for name, text in {**part.health, **said}.items():
            health[HEALTH + name + (f".node{node}" if len(parts) > 1 else "")] = text
        metrics += [metric for metric in _counter_metrics(settings, part) if metric not in metrics]
        health.update(_counter_health(part, f".node{node}" if len(parts) > 1 else ""))
        if part.loss:
            lost.append(part.loss)
        if not part.complete:
            cut_off.append(node)
            complete = complete and part.pid != settings.root_pid
    if lost:
        complete = False
        health[f"{HEALTH}lost"] = "\n".join(lost)
    killed = [node for node in cut_off if parts[node].pid != settings.root_pid]
    if len(killed) < len(cut_off):
        health["taupy.health.cut_off"] = (
            "the program was killed, or ended where it could not be seen: what it had counted "
            "is here, open routines count up to the last moment that left a trace"
        )
    if killed:
        nodes = ", ".join(map(str, killed[:20])) + (", ..." if len(killed) > 20 else "")
        health["taupy.health.children_killed"] = (
            f"{len(killed)} of {len(parts)} processes (node {nodes}) were killed by others: what "
            "they had counted is here, open routines count up to the last moment that left a trace"
        )
    wanted = settings.engine_options.get("include")
    if wanted and len(timers.timers) <= 1:
        health["taupy.health.include"] = (
            f"no routine that ran is one of --include {', '.join(wanted)}: nothing was recorded; "
            "`taupy pprof --list` of a trial without it shows names and files"
        )
    throttled = sorted(t.full_name for t in timers.timers if "THROTTLED" in t.groups)
    if throttled:
        health["taupy.health.throttled"] = (
            f"{len(throttled)} routines were throttled: their counts and times are lower "
            f"bounds: {', '.join(throttled[:20])}" + (", ..." if len(throttled) > 20 else "")
        )
    if settings.engine_options.get("cpu_time"):
        metrics.append(CPU_TIME)
    if settings.compensate and settings.overhead:
        metrics.append(COMPENSATED)
    for note_number, note in enumerate(settings.notes):
        health[f"taupy.health.note{note_number or ''}"] = note
    first = roots[0] if roots else min(parts.values(), key=lambda part: part.start_ns)
    last = roots[-1] if roots else max(parts.values(), key=lambda part: part.end_ns)
    metadata = {**settings.metadata}
    for root in roots:
        metadata.update(
            {name: text for name, text in root.metadata.items() if not name.startswith("taupy.")}
        )
    metadata.update(health)
    return Profile(
        uuid=settings.uuid,
        application=settings.application,
        experiment=settings.experiment,
        name=settings.trial,
        started_at=first.started_at,
        duration_ns=max(0, last.end_ns - first.start_ns),
        timers=timers.timers,
        threads=threads,
        metrics=metrics,
        exit_code=last.exit_status if roots else None,
        state="complete" if complete else "incomplete",
        metadata=metadata,
        node_metadata=node_metadata,
    )


def _user_event(sampled: Sampled, row_of: list[int]) -> UserEvent:
    row = None if sampled.row is None else row_of[sampled.row]
    return UserEvent(
        sampled.name,
        sampled.unit,
        sampled.count,
        sampled.minimum,
        sampled.maximum,
        sampled.total / sampled.count if sampled.count else 0.0,
        sampled.sum_squares,
        row or None,
    )


def _tree(
    thread: PartThread, timer_of: list[int], timers: Timers, settings: RunSettings
) -> tuple[CallTree, list[int]]:
    """The thread's tree, and for every row of the part the tree's row it went into."""
    timer = [timers.root if r < 0 else timer_of[r] for r in thread.routine]
    parent = thread.parent
    calls, resumes, inclusive = thread.calls, thread.resumes, thread.inclusive
    further = _further(thread, settings)  # columns beside the time, by name
    counted = thread.counted
    row_of = list(range(len(timer)))
    ranges = {at for at in set(timer_of) if not _RANGES.isdisjoint(timers.timers[at].groups)}
    merged = len(set(timer_of)) < len(timer_of) or bool(ranges)
    fold = settings.fold_libraries
    if merged or fold:
        # Equal call paths of different code objects become one; library code called by
        # library code becomes its caller.
        width = len(timers.timers)
        known: dict[int, int] = {}
        kept_timer: list[int] = []
        kept_parent: list[int] = []
        kept_calls: list[int] = []
        kept_resumes: list[int] = []
        kept_inclusive: list[int] = []
        kept_further: dict[str, list[int]] = {name: [] for name in further}
        kept_counted: list[bool] = []

        def add(at: int, row: int) -> None:
            kept_calls[at] += calls[row]
            kept_resumes[at] += resumes[row]
            kept_inclusive[at] += inclusive[row]
            for name, column in further.items():
                kept_further[name][at] += column[row]

        has_rows_below = set(parent)
        went_on: dict[int, int] = {}  # rows in a range that went on: the range
        for row, (what, up) in enumerate(zip(timer, parent, strict=True)):
            under = -1 if up < 0 else row_of[up]
            if what in ranges and calls[row] == 0 and under >= 0:
                # It went on above, or began in a wrapper of the program's; not in a fork's child.
                if resumes[row] or row not in has_rows_below:
                    row_of[row] = under
                    went_on[row] = what
                    continue
            elif up in went_on and calls[row] == 0:
                # A generator goes on: in the range, if that had begun in it.
                outside = known.get((under + 1) * width + what, -1)
                again = known.get((outside + 1) * width + went_on[up], -1)
                if min(outside, again) >= 0 and kept_calls[again]:
                    add(outside, row)
                    add(again, row)
                    row_of[row] = again
                    continue
            if fold and under > 0 and timers.library[what] and timers.library[kept_timer[under]]:
                row_of[row] = under
                continue
            identity = (under + 1) * width + what
            at = known.get(identity)
            if at is None:
                at = known[identity] = len(kept_timer)
                kept_timer.append(what)
                kept_parent.append(under)
                kept_calls.append(calls[row])
                kept_resumes.append(resumes[row])
                kept_inclusive.append(inclusive[row])
                kept_counted.append(counted is None or counted[row])
                for name, column in further.items():
                    kept_further[name].append(column[row])
            else:
                add(at, row)
            row_of[row] = at
        timer, parent, calls, resumes = kept_timer, kept_parent, kept_calls, kept_resumes
        inclusive = kept_inclusive
        further, counted = kept_further, None if counted is None else kept_counted
    subroutines = [0] * len(timer)
    entries = [0] * len(timer)
    for row in range(1, len(timer)):
        up = parent[row]
        subroutines[up] += calls[row]
        entries[up] += calls[row] + resumes[row]
    tree = CallTree(
        array("q", timer), array("q", parent), array("q", calls), array("q", subroutines)
    )
    for name, column in further.items():
        if name == CPU_TIME.name:
            column[0] = max(thread.cpu_ns, 0)
        elif counted is not None:
            whole, some = _sums_of_some(column, parent, counted)
            tree.inclusive[name], tree.exclusive[name] = whole, some
            continue
        with_children, own = _sums(column, parent)
        tree.inclusive[name], tree.exclusive[name] = array("q", with_children), array("q", own)
    if thread.native:  # how long it was in what, nobody saw
        return tree, row_of
    inclusive, exclusive = _sums(inclusive, parent)
    tree.inclusive["time"], tree.exclusive["time"] = array("q", inclusive), array("q", exclusive)
    if settings.compensate and settings.overhead:
        inner = settings.overhead["inner_ns"]
        outer = max(0.0, settings.overhead["call_ns"] - inner)
        own = [
            max(0, round(value - inner * (n + again) - outer * below)) if row else value
            for row, (value, n, again, below) in enumerate(
                zip(exclusive, calls, resumes, entries, strict=True)
            )
        ]
        total = own.copy()
        for row in range(len(total) - 1, 0, -1):
            total[parent[row]] += total[row]
        tree.inclusive["time_compensated"] = array("q", total)
        tree.exclusive["time_compensated"] = array("q", own)
    return tree, row_of


def _further(thread: PartThread, settings: RunSettings) -> dict[str, list[int]]:
    """The thread's columns beside the time; none of counters that are not to be believed."""
    further = {}
    if thread.cpu_time is not None and not thread.native:
        further[CPU_TIME.name] = thread.cpu_time
    if thread.refused is None:
        names = [name for name, _ in settings.engine_options.get("counter_metrics", ())]
        further.update(zip(names, thread.counters, strict=False))
    return further


def _counter_metrics(settings: RunSettings, part: Part) -> list[Metric]:
    """Metrics of counters that some thread of the part has."""
    if not any(thread.counters and thread.refused is None for thread in part.threads):
        return []
    return [Metric(name, unit) for name, unit in settings.engine_options.get("counter_metrics", ())]


def _counter_health(part: Part, suffix: str) -> dict[str, str]:
    """What the part's counters do not hold."""
    health = {}
    refused = [thread for thread in part.threads if thread.refused is not None]
    if refused:
        names = ", ".join(thread.name or str(thread.native_id) for thread in refused[:8])
        health[f"{HEALTH}counters_refused{suffix}"] = (
            f"no counters of {len(refused)} of {len(part.threads)} threads ({names}"
            f"{', ...' if len(refused) > 8 else ''}): {refused[0].refused}"
        )
    if not part.complete and any(thread.counters for thread in part.threads):
        health[f"{HEALTH}counters_cut_off{suffix}"] = (
            "counters of what was still running when the program was killed hold only what had "
            "ended below it"
        )
    lost, _, of = part.metadata.pop("taupy.counters.uncounted_ns", "0 of 0").partition(" of ")
    if int(lost) > _UNCOUNTED_AT_MOST * int(of):
        health[f"{HEALTH}counters_lost{suffix}"] = (
            f"{duration(int(lost))} of {duration(int(of))} CPU time were spent in threads before "
            "their counters could be opened: what was to be counted there is missing"
        )
    return health


def _sums_of_some(
    inclusive: list[int], parent: list[int], counted: list[bool]
) -> tuple[array[int], array[int]]:
    """As `_sums`, where only some call paths were counted: the others' values are absent.

    The exclusive value of a call path is its inclusive one less those of the nearest call
    paths below it that were counted.
    """
    below = [0] * len(inclusive)
    absent: Any = [ABSENT]  # the column's type is "d"
    whole: array[int] = array("d", absent) * len(inclusive)
    own: array[int] = array("d", absent) * len(inclusive)
    for row in range(len(inclusive) - 1, -1, -1):
        value = below[row]
        if counted[row]:
            value = max(value, inclusive[row])
            whole[row], own[row] = value, value - below[row]
        if row:
            below[parent[row]] += value
    return whole, own


def _sums(inclusive: list[int], parent: list[int]) -> tuple[list[int], list[int]]:
    """Inclusive values that are at least their children's sum, and exclusive values.

    Only a process cut off between two writes can have less than its children; the
    children are believed.
    """
    children = [0] * len(inclusive)
    result = inclusive.copy()
    for row in range(len(result) - 1, -1, -1):
        if result[row] < children[row]:
            result[row] = children[row]
        if row:
            children[parent[row]] += result[row]
    return result, [value - below for value, below in zip(result, children, strict=True)]


def assign_nodes(
    settings: RunSettings, parts: Iterable[Part], known: dict[str, int]
) -> dict[int, Part]:
    """A node number for every part: the rank for the launched process, then its children
    in order of their start; `known` (part name -> node) keeps earlier answers and is
    extended. The program's own `set_node` wins where the number is free."""
    ordered = sorted(parts, key=lambda part: (part.pid != settings.root_pid, part.start_ns))
    taken = set(known.values())
    nodes: dict[int, Part] = {}
    for part in ordered:
        node = known.get(part.name)
        if node is None:
            node = part.node if part.node is not None and part.node not in taken else None
        if node is None:
            node = settings.rank
            while node in taken:
                node += settings.world_size
        known[part.name] = node
        taken.add(node)
        nodes[node] = part
    return nodes
