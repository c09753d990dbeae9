"""The program's own code with its text: what screens and pages show of files and lines.

It is no answer of its own: `report` shows it. The times are those of `places`: what libraries and C
functions do counts for the routine of the program that calls them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Literal

from taupy.analysis.known_routines import is_wait
from taupy.analysis.line_times import LineRow, estimates, place_of
from taupy.analysis.places import Part, Place
from taupy.answers.lines import Lines
from taupy.answers.places import OWN_EXIT, GroupPlaces, called, short
from taupy.dataclass import dataclass
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.thread_groups import MAIN, Group, groups_of
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.source_texts import Source, Sources, sources_of
from taupy.profiledb.sources import timer_paths
from taupy.profiledb.values import values

Kind = Literal[
    "own", "layer", "backward", "data", "optimizer", "checkpoint", "lib", "c", "import", "wait",
    "rest", "exit",
]  # fmt: skip
"""What time is spent in: your Python, layers of models, phases of trainings, libraries, C
functions, imports, waiting, start and other time outside the program's code, its exit."""

KINDS: Mapping[Kind, str] = {
    "own": "your Python",
    "layer": "models",
    "backward": "backward",
    "data": "data",
    "optimizer": "optimizer",
    "checkpoint": "checkpoint",
    "lib": "libraries",
    "c": "C functions",
    "import": "imports",
    "wait": "waiting",
    "rest": "start and other",
    "exit": OWN_EXIT,
}


def words(*, asleep: bool, with_c: bool) -> dict[Kind, str]:
    """What the kinds are called in the time of places.

    Args:
        asleep: whether samples saw any of them asleep.
        with_c: whether C functions were recorded. Otherwise they are in the program's own time.
    """
    called_so = {**KINDS} if with_c else {**KINDS, "own": "your code"}
    if asleep:
        called_so["wait"] = "waiting (sampled)"
    return called_so


_PHASES: Mapping[str, Kind] = {
    "PHASE_DATA": "data", "PHASE_FORWARD": "layer", "PHASE_LOSS": "layer",
    "PHASE_BACKWARD": "backward", "PHASE_RECOMPUTE": "backward", "PHASE_OPTIMIZER": "optimizer",
    "PHASE_SCALING": "optimizer", "PHASE_CHECKPOINT": "checkpoint", "PHASE_COMMUNICATION": "wait",
}  # fmt: skip

_OF_PLACES: Mapping[str, Kind] = {"imports": "import", "exit": "exit"}
_NUMBERS = re.compile(r"\.\d+(?=[.\s]|$)")
_WAITING = frozenset({
    "time.sleep", "_thread.lock.acquire", "select.epoll.poll", "select.poll.poll", "select.select",
    "posix.waitpid", "_socket.socket._accept", "_socket.socket.recv", "asyncio.sleep",
})  # fmt: skip
"""C functions that wait, as `--c-calls` records them."""


@dataclass(frozen=True, slots=True)
class Callee:
    """What a routine of the program calls: of repeated layers, all of them together."""

    name: str
    kind: Kind
    ns: float
    calls: int


@dataclass(frozen=True, slots=True)
class OwnLine:
    """The time of a line in one group of threads: an estimate, or exact.

    Attributes:
        timer: the routine.
        error_ns: the standard error of `ns`; 0 if it is exact.
        count: how often it has begun; None: it is an estimate.
        whole_ns: likewise, its time with all that it calls.
        calls: what it mostly called, in few words; None: nothing in particular.
    """

    group: str
    timer: TimerRow
    path: str | None
    line: int
    ns: int
    error_ns: float
    looks: int
    by_kind: Mapping[Kind, int]
    calls: str | None
    count: int | None
    whole_ns: int | None


@dataclass(frozen=True, slots=True)
class OwnRoutine:
    """A routine of the program in one group of threads.

    Attributes:
        group: the group's title; "" for the main thread.
        path: its file as the interpreter knew it.
        by_kind: its time [ns] by kind; it adds up to `ns`, and waiting for others apart from that.
        ns: its time with libraries and C functions, without waiting.
        whole_ns: with all that it calls; None if it is not known.
        share: of its threads' time.
    """

    group: str
    name: str
    file: str | None
    path: str | None
    line: int | None
    by_kind: Mapping[Kind, float]
    ns: float
    whole_ns: float | None
    share: float
    calls: int | None
    callees: Sequence[Callee]


@dataclass(frozen=True, slots=True)
class OwnCode:
    """Attributes:
    routines: of each group of threads, the dearest first; the main thread's first.
    files: own files with text.
    lines: those at which the watch has looked often enough.
    """

    routines: Sequence[OwnRoutine]
    files: Sequence[Source]
    lines: Sequence[OwnLine]


def own_code(
    db: ProfileDB, trial: int, groups: Sequence[GroupPlaces], *, with_text: bool = True
) -> OwnCode:
    """Of a trial, with its places."""
    sources = sources_of(db, trial) if with_text else Sources((), ())
    paths = timer_paths(db, trial)
    whole = _inclusive(db, trial, groups)
    routines: list[OwnRoutine] = []
    for group in groups:
        title = "" if group.group == MAIN else group.title
        routines += _routines(group, title, paths, whole)
    return OwnCode(routines, [*sources], [*_lines(db, trial, groups, paths, with_text)])


def kinds(groups: Sequence[GroupPlaces]) -> dict[Kind, float]:
    """The main thread's time [ns] by kind, in the order of `KINDS`, without those that are 0."""
    sums: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
    for group in groups:
        if group.group == MAIN:
            for place in group.places.own_times():
                if isinstance(place, Place):
                    for kind, ns in by_kind(place).items():
                        sums[kind] += ns
                else:
                    sums["own"] = reduce(add, place, sums["own"])
            waits(sums, group.places.off_cpu_ns - sums["wait"])
            for kind, ns, _ in apart(group):
                sums[kind] += ns
    return {kind: ns for kind, ns in sums.items() if ns > 0}


def apart(group: GroupPlaces) -> Iterator[tuple[Kind, float, Place]]:
    """What is no routine's, with its time [ns]. Of the time outside, that in routines of libraries
    is theirs."""
    for place in group.places.apart:
        if place.kind == "waiting":
            yield "wait", place.ns, place
        elif place.kind == "outside":
            of_libraries = min(sum(package.outside_ns for package in group.packages), place.ns)
            if of_libraries:
                yield "lib", of_libraries, place
            if place.ns > of_libraries:
                yield "rest", place.ns - of_libraries, place
        elif place.kind in _OF_PLACES:
            yield _OF_PLACES[place.kind], place.ns, place


def kind_of(timer: TimerRow) -> Kind:
    """What the time of a routine that is not the program's own is spent in."""
    groups = timer.groups.split("|")
    if "IMPORT" in groups:
        return "import"
    if groups == ["EXIT"]:
        return "exit"
    for group in groups:
        if group in _PHASES:
            return _PHASES[group]
    if timer.short_name.startswith("backward of") or "AUTOGRAD" in groups:
        return "backward"
    if "LAYER" in groups:
        return "layer"
    if timer.short_name in _WAITING or is_wait(timer):
        return "wait"
    return "c" if timer.file is None else "lib"


def merged(name: str) -> str:
    """The name of a layer that stands for all repeated ones: `blocks.*.mlp`."""
    return _NUMBERS.sub(".*", name)


def _routines(
    group: GroupPlaces,
    title: str,
    paths: Mapping[str, str | None],
    whole: Mapping[tuple[str, str], float],
) -> Iterator[OwnRoutine]:
    waits = {place.timer: place for place in group.places.apart if place.kind == "waiting"}
    for place in group.places[: group.places.own]:
        timer = place.timer
        assert timer is not None
        yield OwnRoutine(
            title,
            short(timer),
            timer.file,
            paths.get(timer.timer) or timer.file,
            timer.line,
            by_kind(place, waits.get(timer)),
            place.ns,
            whole.get((group.group, timer.timer)),
            place.share,
            place.calls,
            _callees(place.callees, waits[timer].callees if timer in waits else ()),
        )


def _lines(
    db: ProfileDB,
    trial: int,
    groups: Sequence[GroupPlaces],
    paths: Mapping[str, str | None],
    with_text: bool,
) -> Iterator[OwnLine]:
    """The lines that are exact or were seen often enough, the dearest of each group first."""
    lines = Lines.of_trial(db, trial, query.node_facts(db, trial), paths)
    titles = {group.group: group.title for group in groups}
    entries = {
        (group.group, group.places.timers[at]): group.places[at].entries
        for group in groups
        for at in group.places.with_lines
        if at < group.places.own
    }
    for group, rows in lines.by_group.items():

        def kind_in(row: LineRow, group: Group = group) -> Kind:
            return _kind_of_row(row, entries.get((group, row.timer), {}))

        for (_, number), line in estimates(rows, place_of).items():
            if line.is_shown:
                timer = line.rows[0].timer
                yield OwnLine(
                    "" if group == MAIN else titles.get(group, group),
                    timer,
                    lines.path(timer),
                    number,
                    line.time_ns,
                    line.error_ns,
                    line.looks,
                    {kind: ns for kind, ns, _ in line.parts(kind_in)},
                    lines.calls(line) if with_text else None,
                    line.count,
                    line.inclusive_ns,
                )


def _kind_of_row(row: LineRow, entries: Mapping[TimerRow, TimerRow]) -> Kind:
    """What the time of a line is spent in: of a library's routine, what it is called for."""
    if row.line.state in ("lock", "wait"):
        return "wait"
    if row.callee is None:
        return "own"
    return kind_of(entries.get(row.callee, row.callee))


def by_kind(place: Place, waiting: Place | None = None) -> dict[Kind, float]:
    """The time [ns] of a routine of the program by kind, and what is known to wait in it.

    What samples saw asleep, or had no CPU, waits: in the part with the most time, then in the next,
    as nothing tells in which.
    """
    timer = place.timer
    mine: Kind = "own" if timer is None or timer.file is not None else kind_of(timer)
    kinds: dict[Kind, float] = {mine: place.self_ns}
    for callee in place.callees:
        kind = kind_of(callee.timer)
        kinds[kind] = kinds.get(kind, 0.0) + callee.ns
    waits(kinds, place.waits_ns)
    if waiting is not None:
        kinds["wait"] = kinds.get("wait", 0.0) + waiting.ns
    return kinds


def waits(kinds: dict[Kind, float], ns: float) -> None:
    """Count so much of other kinds as waiting: of the one with the most time, then of the next, as
    what reports it does not say in which it was."""
    for kind in sorted(kinds.keys() - {"wait"}, key=lambda kind: -kinds[kind]):
        part = min(kinds[kind], ns)
        if part > 0:
            kinds[kind] -= part
            kinds["wait"] = kinds.get("wait", 0.0) + part
            ns -= part


def _callees(parts: Sequence[Part], waiting: Sequence[Part]) -> list[Callee]:
    by_name: dict[tuple[str, Kind], list[float]] = {}
    for part in (*parts, *waiting):
        kind: Kind = "wait" if part in waiting else kind_of(part.timer)
        name = called(part.timer)
        name = merged(name) if kind in ("layer", "backward") else name
        sums = by_name.setdefault((name, kind), [0.0, 0])
        sums[0] += part.ns
        sums[1] += part.calls
    callees = (Callee(name, kind, ns, int(calls)) for (name, kind), (ns, calls) in by_name.items())
    return sorted(callees, key=lambda callee: -callee.ns)


def _inclusive(
    db: ProfileDB, trial: int, groups: Sequence[GroupPlaces]
) -> dict[tuple[str, str], float]:
    """Inclusive times by group of threads and routine."""
    host = Condition("kind", ("host",))
    question = Question((trial,), by=("thread", "timer"), where=(host,), values=("inclusive",))
    table = values(db, question)
    threads = table.labels["thread"]
    of_thread = groups_of(threads, query.node_facts(db, trial))
    sums: dict[tuple[str, str], float] = {}
    rows = zip(
        table.codes["thread"],
        table.row_labels("timer"),
        table.column("inclusive", "time"),
        strict=True,
    )
    for thread, timer, ns in rows:
        key = of_thread[thread], timer.timer
        sums[key] = sums.get(key, 0.0) + (ns or 0)
    return sums
