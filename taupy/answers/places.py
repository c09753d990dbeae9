"""Show where the time went in the program's own code: the dearest places first.

    taupy places                      the trial stored last
    taupy places 12 --all             every place, not only the first of each kind of thread
    taupy places --json               for programs

The time of libraries and C functions counts for the routine of the program that calls them; the
one that took most stands beside it. Waiting, imports, and what runs outside the program's code,
such as its start and exit, have rows of their own. There is a table for the main thread, and one
each for other ranks, worker processes and other threads, whose times overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taupy.analysis import places
from taupy.analysis.line_times import HotLine
from taupy.analysis.own_code import generated_for
from taupy.analysis.places import Package, Part, Place, Places
from taupy.analysis.trees import Seen, Tree
from taupy.answers.answer import Nothing
from taupy.answers.lines import Lines
from taupy.dataclass import NamedTuple
from taupy.model import callpaths, options
from taupy.model.profile import Profile
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import CPU_TIME, RUN_DELAY, STATES, SUSPENDED
from taupy.model.table import Table
from taupy.model.thread_groups import GROUPS, Group, groups_of
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb.database import ProfileDB

FIRST = 5
"""Places that people see of each group of threads."""
OWN_EXIT = "Python's exit"
"""What passes after the program's last line outside of its own code, which the phase `exit` holds,
too."""

_PLUMBING: Mapping[str, str] = {
    "click": "C code that click calls",
    "concurrent": "C code that concurrent.futures calls",
    "multiprocessing": "C code that multiprocessing calls",
}
"""Packages that only pass on work: what is in their own routines is the work of C functions, such
as of a compiled module, that were handed to them."""

_MOSTLY, _HARDLY = 0.5, 0.1
_TREE = ("thread", "callpath", "parent", "timer")
_COLUMNS = (
    Column("threads_group", audience="machines"),
    Column("kind", audience="machines"),
    Column("share_percent", "percent", "%Time", width=5),
    Column("time_ns", "time_ns", "Time", width=8),
    Column("calls", "int", "Calls"),
    Column("place", heading="Place", audience="people"),
    Column("routine", audience="machines"),
    Column("file", audience="machines"),
    Column("line", "int", audience="machines"),
    Column("hottest_line", "int", audience="machines"),
    Column("hottest_ns", "time_ns", audience="machines"),
    Column("hottest_estimate", "about_ns", "~In line", audience="people", spare=True),
    Column("hottest_time", "time_ns", "In line", audience="people", spare=True),
    Column("source", heading="Source", spare=True),
    Column("hottest_calls", audience="machines"),
    Column("callee_ns", "time_ns", "Of it", spare=True),
    Column("callee_calls", "int", "Calls", spare=True),
    Column("callee", heading="In", spare=True),
    Column("callee_file", audience="machines"),
    Column("callee_line", "int", audience="machines"),
    Column("caller", heading="Called often by", spare=True),
    Column("caller_file", audience="machines"),
    Column("caller_line", "int", audience="machines"),
    Column("calls_by_caller", "int", audience="machines"),
    Column("asleep_ns", "time_ns", "Waits\n(sampled)", spare=True),
    Column("off_cpu_ns", "time_ns", "Off CPU\nat least", spare=True),
    Column("awaits", audience="machines"),
)


@dataclass(frozen=True)
class Options(options.Asked):
    limit: int | None = options.limit("show N places of each table")
    whole: bool = options.whole("every place")


class GroupPlaces(NamedTuple):
    """The places of a group of threads.

    Attributes:
        threads: how many there are.
        packages: the libraries' own routines, the largest first.
        routines: those of libraries with the most time of their own, where no routine of the
            program runs.
    """

    group: Group
    threads: int
    places: Places
    packages: Sequence[Package] = ()
    routines: Sequence[Part] = ()

    @property
    def title(self) -> str:
        return self.group if self.threads == 1 else f"{self.threads} {self.group}, added up"

    @property
    def leading(self) -> Sequence[Package]:
        """The packages, where the program's own code, without what they do for it, takes less than
        half."""
        own = sum(self.places.ns[: self.places.own])
        within = sum(package.ns - package.outside_ns for package in self.packages)
        return self.packages if own - within < _MOSTLY * sum(self.places.ns) else ()

    def at_work(self, most: int, least: float) -> list[Place]:
        """Of the first own places with at least this share, those that work longest."""
        return sorted(self.places.largest(max(most, FIRST), least), key=_idleness)[:most]

    def first(self, limit: int | None) -> list[Place]:
        """The first own places, and all that is apart from them."""
        own = self.places.own
        return [*self.places[: own if limit is None else min(limit, own)], *self.places.apart]


def _idleness(place: Place) -> float:
    return place.waits_ns - place.ns


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each group of threads that has any time; the main thread's first."""
    from taupy.profiledb.values import values  # not for the end of a run

    groups = of_table(db, trial, values(db, question(trial)))
    if not groups:
        raise Nothing(f"trial {trial} has no times of routines on host threads; see `taupy pprof`")
    limit = options.limit
    if limit is None and not options.whole:
        limit = FIRST
    return [view(group, limit) for group in groups]


def question(trial: int) -> Question:
    """What the places of a trial need: the call paths of its host threads."""
    host = Condition("kind", ("host",))
    return Question((trial,), by=_TREE, where=(host,), values=("calls", "exclusive"))


def of_table(
    db: ProfileDB,
    trial: int,
    table: Table,
    parent: Sequence[int] | None = None,
    paths: Mapping[str, str | None] | None = None,
) -> list[GroupPlaces]:
    """The places of all groups of threads that have any time.

    Args:
        table: the answer to `question`; further columns do not matter.
        parent: the callers' rows, if they are known already.
        paths: the trial's `timer_paths`, if they are known already.
    """
    from taupy.profiledb import query
    from taupy.profiledb.sources import timer_paths

    tree = Tree.of(table, callpaths.parents(table) if parent is None else parent)
    facts = query.node_facts(db, trial)
    paths = timer_paths(db, trial) if paths is None else paths
    lines = Lines.of_trial(db, trial, facts, paths)
    return of_tree(tree, facts, paths, lines, seen_in(db, trial, table, tree, lines))


def of_profile(profile: Profile) -> list[GroupPlaces]:
    """The same of a profile that was just measured."""
    tree, paths = Tree.of_profile(profile)
    lines, seen = Lines.of_profile(profile), Seen.of_profile(profile)
    seen.note_lines(tree, lines.rows)
    return of_tree(tree, profile.node_metadata, paths, lines, seen)


def hottest(groups: Sequence[GroupPlaces]) -> tuple[GroupPlaces, Place] | None:
    """The place to look at first: the main thread's, unless that mostly waits for others."""
    if not groups:
        return None
    main, *others = groups
    waiting = [place for place in main.places.apart if place.kind == "waiting"]
    if sum(place.share for place in waiting) >= _MOSTLY:
        least = _HARDLY * waiting[0].ns
        first = ((group, place) for group in others for place in group.at_work(FIRST, 0.0))
        for_others = [pair for pair in first if pair[1].ns >= least]
        return min(for_others, key=lambda pair: _idleness(pair[1]), default=(main, waiting[0]))
    return (main, main.places[0]) if main.places.own else None


def of_tree(
    tree: Tree,
    facts: Mapping[int, Mapping[str, str]],
    paths: Mapping[str, str | None],
    lines: Lines,
    seen: Seen,
) -> list[GroupPlaces]:
    """The same of a tree of which all this is known.

    Args:
        facts: the metadata of each node.
        paths: a timer's full name -> its source file as the interpreter knew it.
    """
    groups = groups_of(tree.threads, facts)
    tally = places.tally(tree, groups, paths, seen)
    of_group = tally.places()
    return [
        GroupPlaces(
            group,
            groups.count(group),
            lines.named(group, of_group[group]),
            tally.packages(group),
            () if any(place.kind == "own" for place in of_group[group]) else tally.routines(group),
        )
        for group in GROUPS
        if of_group.get(group) and group != "collectives"
    ]


def seen_in(db: ProfileDB, trial: int, table: Table, tree: Tree, lines: Lines) -> Seen:
    """What looks, awaits and CPU times say of the rows of a table, and of its tree."""
    from taupy.profiledb.trial_facts import events_beginning
    from taupy.profiledb.values import values

    noted_events = (CPU_TIME, RUN_DELAY, *STATES, *events_beginning(db, trial, SUSPENDED))
    events = Condition("event", noted_events)
    by = ("thread", "callpath", "event")
    question = Question((trial,), (), by, (events,), values=("event.count", "event.total"))
    noted = values(db, question)
    columns = (*map(noted.row_labels, by), *map(noted.column, question.values))
    threads, paths = table.labels["thread"], table.labels["callpath"]
    code_of = {thread: code for code, thread in enumerate(threads)}
    of_paths = {path for path in columns[1] if path is not None}
    row_of = (
        {
            (at, paths[code]): row
            for row, (at, code) in enumerate(
                zip(table.codes["thread"], table.codes["callpath"], strict=True)
            )
            if paths[code] in of_paths
        }
        if of_paths
        else {}
    )
    seen = Seen()
    seen.note_lines(tree, lines.rows)
    for thread, path, event, number, total in zip(*columns, strict=True):
        if (code := code_of.get(thread)) is not None:
            seen.note(code, row_of.get((code, path)), event.name, int(number or 0), total or 0.0)
    return seen


def view(group: GroupPlaces, limit: int | None = None) -> View:
    """The table of a group, with the first own places and all that is apart from them."""
    rows = [_row(group.group, place) for place in group.first(limit)]
    columns = [
        replace(column, audience="machines")
        if column.spare and all(row[at] is None for row in rows)
        else column
        for at, column in enumerate(_COLUMNS)
    ]
    return View(f"YOUR CODE, {group.title}", columns, rows)


def _row(group: Group, place: Place) -> tuple[Cell, ...]:
    callee, caller, hottest = place.callee, place.caller, place.hottest
    return (
        group,
        place.kind,
        100 * place.share,
        place.ns,
        place.calls,
        described(place),
        *_named(place.timer),
        hottest and hottest.line,
        hottest and hottest.time_ns,
        None if hottest is None or hottest.is_exact else hottest.time_ns,
        hottest.time_ns if hottest is not None and hottest.is_exact else None,
        place.source,
        hottest and hottest.calls,
        callee and callee.ns,
        (callee and callee.calls) or None,
        callee and called(callee.timer),
        *((None, None) if callee is None else (callee.timer.file, callee.timer.line)),
        caller and short(caller.timer),
        *((None, None) if caller is None else (caller.timer.file, caller.timer.line)),
        caller and caller.calls,
        place.asleep_ns or None,
        place.off_cpu_ns or None,
        _awaits(place),
    )


def _awaits(place: Place) -> str | None:
    """Where coroutines were suspended: the line, how often and for how long, all added up."""
    of_lines = (
        f"{of.timer.file or short(of.timer)}:{of.line} {of.times}x {of.ns:.0f} ns"
        for of in place.awaits
    )
    return "; ".join(of_lines) or None


def _named(timer: TimerRow | None) -> tuple[Cell, ...]:
    return (None, None, None) if timer is None else (short(timer), timer.file, timer.line)


def short(timer: TimerRow) -> str:
    """A routine's name without the functions around it: `outer.inner`."""
    return timer.short_name.replace(".<locals>", "")


def titled(package: Package) -> str:
    """What the own routines of a package are called."""
    return _PLUMBING.get(package.name, package.name)


def called(timer: TimerRow) -> str:
    """The name of a library's routine or C function, which says if no file holds its code."""
    if (timer.file or "").startswith("<") and not (timer.file or "").startswith("<frozen"):
        return f"{generated_for(timer) or short(timer)} (generated)"
    return short(timer)


def where(timer: TimerRow, hottest: HotLine | None = None) -> str:
    """`name (file:line)`, as far as it is known; the line is the hottest, or else the first."""
    if timer.file is None:
        return short(timer)
    number = timer.line if hottest is None else hottest.line
    line = "" if number is None else f":{number}"
    return f"{short(timer)} ({timer.file}{line})"


def at(place: Place) -> str:
    """`file:line` of a place, as far as it is known: its line with the most time, or its first."""
    timer, number = place.timer, line(place)
    if timer is None or timer.file is None:
        return ""
    return timer.file if number is None else f"{timer.file}:{number}"


def line(place: Place) -> int | None:
    """Its line with the most time, or else its routine's first."""
    if place.hottest is not None:
        return place.hottest.line
    return None if place.timer is None else place.timer.line


def without_text(groups: Sequence[GroupPlaces]) -> list[GroupPlaces]:
    """The same places without what source text says."""
    return [group._replace(places=group.places.changed(_without_text)) for group in groups]


def _without_text(place: Place) -> Place:
    hottest = place.hottest and place.hottest._replace(text=None, calls=None)
    return replace(place, hottest=hottest, source=None)


def described(place: Place) -> str:
    """What a row of people's tables is called."""
    if place.kind == "own" and place.timer is not None:
        return where(place.timer, place.hottest)
    if place.kind == "waiting":
        if place.timer is None:
            return "waiting"
        return f"waiting in {where(place.timer, place.hottest)}"
    names = {"outside": "outside of the program's code", "exit": OWN_EXIT}
    return names.get(place.kind, place.kind)
