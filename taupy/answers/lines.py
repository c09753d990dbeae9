"""Show which lines of the program took the time, and what they called: estimated by looks.

    taupy lines                       the trial stored last
    taupy lines 12 --all              every line that was seen often enough
    taupy lines 12 --detail call        each call or operation of a line apart
    taupy lines 12 --detail state       computing and waiting apart

The time of a routine, with the libraries and C functions that it calls, is exact (`taupy places`);
how it is divided among the routine's lines is estimated: the watch looks from outside which line
each thread is in, 50 times a second. Estimates begin with `~`. Of a run with `--lines=exact`, times
and counts of lines are exact. Ask `taupy places` which routine to work on, and `taupy lines` where
in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from taupy.analysis.definitions import at_definition, is_heading
from taupy.analysis.expressions import Expressions
from taupy.analysis.known_routines import is_wait
from taupy.analysis.line_times import (
    Estimate,
    HotLine,
    LineRow,
    estimates,
    place_of,
)
from taupy.analysis.places import Place, Places
from taupy.analysis.trees import timer_rows
from taupy.answers.answer import Nothing
from taupy.model import options
from taupy.model.profile import LEAST_LOOKS, Profile
from taupy.model.question import Condition, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.thread_groups import GROUPS, Group, groups_of
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.profiledb.database import ProfileDB
from taupy.units import count, duration, several

FIRST = 10
"""Lines that people see of each group of threads."""

FACT = "taupy.lines"

DOES: Mapping[str, str] = {
    "cpu": "on CPU",
    "gil": "waits for the GIL",
    "lock": "waits for a lock",
    "wait": "waits",
    "disk": "waits for a disk",
    "runnable": "waits for a processor",
    "active": "runs or waits for a processor",
}
"""What a thread does in a state."""

_ASLEEP = ("lock", "wait")
_MOSTLY = 0.9
_EXACT_KINDS: Mapping[Kind, Kind] = {"about_percent": "percent", "about_ns": "time_ns"}
_COLUMNS = (
    Column("threads_group", audience="machines"),
    Column("share_percent", "about_percent", "~%Time", width=6),
    Column("time_ns", "about_ns", "~Time", width=8),
    Column("error_ns", "time_ns", audience="machines"),
    Column("looks", "int", "Looks", spare=True),
    Column("count", "int", "Count"),
    Column("inclusive_ns", "time_ns", "With\ncalls", spare=True),
    Column("place", heading="Line", audience="people"),
    Column("source", heading="Source"),
    Column("calls", heading="Mostly in", spare=True),
    Column("does", heading="Does", audience="people", spare=True),
    Column("routine", audience="machines"),
    Column("file", audience="machines"),
    Column("line", "int", audience="machines"),
    Column("state", audience="machines"),
    *(Column(f"{state}_ns", "int", audience="machines") for state in DOES),
    Column("callee", audience="machines"),
    Column("callee_file", audience="machines"),
    Column("callee_line", "int", audience="machines"),
)
_EXACT_COLUMNS = tuple(
    replace(column, kind=_EXACT_KINDS[column.kind], heading=column.heading.removeprefix("~"))
    if column.kind in _EXACT_KINDS
    else replace(column, audience="machines")
    if column.name == "looks"
    else column
    for column in _COLUMNS
)
DETAILS: Mapping[str, Callable[[LineRow], Hashable]] = {
    "line": place_of,
    "call": lambda row: (
        *place_of(row),
        *(row.line.end_line, row.line.column, row.line.end_column),
        row.callee,
    ),
    "state": lambda row: (*place_of(row), row.line.state),
}


@dataclass(frozen=True)
class Options(options.Asked):
    detail: str = options.option(
        "line",
        f"one row for each: {', '.join(DETAILS)} (default: line)",
        choices=tuple(DETAILS),
    )
    limit: int | None = options.limit("show N lines of each table")
    whole: bool = options.whole("every line")


PAGES = (Options(),)


class Texts:
    """Source text of the program's files."""

    def __init__(self, lines_of: Callable[[str | None], Sequence[str] | None]) -> None:
        self._lines_of = lines_of
        self._expressions: dict[str | None, Expressions | None] = {}

    def line(self, path: str | None, number: int) -> str | None:
        """The text of a line without the space around it."""
        lines = self._lines_of(path)
        return lines[number - 1].strip() if lines and 0 < number <= len(lines) else None

    def defined(self, path: str | None, timer: TimerRow) -> TimerRow:
        """A routine with the line of its `def`, not of its first decorator."""
        return at_definition(timer, self._lines_of(path))

    def expression(self, path: str | None, row: LineRow) -> str | None:
        if path not in self._expressions:
            lines = self._lines_of(path)
            self._expressions[path] = Expressions(lines) if lines else None
        expressions, line = self._expressions[path], row.line
        if expressions is None:
            return None
        return expressions.at(line.line, line.end_line, line.column, line.end_column)


class Lines:
    """The lines of a trial.

    Args:
        rows: of all threads.
        paths: a timer's full name -> its file as the interpreter knew it.
        facts: the metadata of each node.

    Attributes:
        by_group: the rows of each group of threads that has any; the main thread's first.
    """

    def __init__(
        self,
        rows: Sequence[LineRow],
        paths: Mapping[str, str | None],
        texts: Texts,
        facts: Mapping[int, Mapping[str, str]],
    ) -> None:
        self.rows = rows
        self.paths = paths
        self.texts = texts
        threads = sorted({row.thread for row in rows})
        group_of = dict(zip(threads, groups_of(threads, facts), strict=True))
        by_group: dict[Group, list[LineRow]] = defaultdict(list)
        for row in rows:
            by_group[group_of[row.thread]].append(row)
        self.by_group = {group: by_group[group] for group in GROUPS if group in by_group}

    @classmethod
    def of_trial(
        cls,
        db: ProfileDB,
        trial: int,
        facts: Mapping[int, Mapping[str, str]],
        paths: Mapping[str, str | None],
    ) -> Lines:
        from taupy.profiledb.dimensions import labels
        from taupy.profiledb.lines import read_lines
        from taupy.profiledb.query import threads_by_id
        from taupy.profiledb.source_texts import sources_of

        stored = list(read_lines(db, trial))
        threads = threads_by_id(db, trial)
        ids = {line.timer for _, line in stored} | {
            line.callee for _, line in stored if line.callee is not None
        }
        timers = {id: label for id, (label,) in labels(db, "timer", list(ids)).items()}
        rows = [
            LineRow(threads[thread], timers[line.timer], timers.get(line.callee), line)
            for thread, line in stored
        ]
        sources = sources_of(db, trial)

        def lines_of(path: str | None) -> Sequence[str] | None:
            source = sources.source(path)
            return None if source is None else source.lines

        return cls(rows, paths, Texts(lines_of), facts)

    @classmethod
    def of_profile(cls, profile: Profile) -> Lines:
        timers = timer_rows(profile)
        rows = []
        for measured in profile.threads:
            thread = measured.thread
            row = ThreadRow(
                *(thread.node, thread.context, thread.thread, thread.kind, thread.name),
                *(thread.count, thread.least_ns or 0, thread.most_ns or 0),
            )
            rows += [
                LineRow(
                    row, timers[line.timer],
                    None if line.callee is None else timers[line.callee], line,
                )
                for line in measured.lines
            ]  # fmt: skip
        paths = {row.timer: timer.path for row, timer in zip(timers, profile.timers, strict=True)}
        sources = {source.path: source.text for source in profile.sources}

        def lines_of(path: str | None) -> Sequence[str] | None:
            text = sources.get(path or "")
            return None if text is None else text.split("\n")

        return cls(rows, paths, Texts(lines_of), profile.node_metadata)

    def path(self, timer: TimerRow) -> str | None:
        """Its file as the interpreter knew it, or else as it is shown."""
        return self.paths.get(timer.timer) or timer.file

    def hot(self, rows: Sequence[LineRow]) -> HotLine | None:
        """The line with the most time among these, if there were enough looks: none with a `def`,
        where only the call itself passes."""
        by_line = estimates(rows, place_of)
        for (file, number), line in by_line.items():
            text = self.text(line)
            if line.is_shown and not is_heading(text or ""):
                calls = self.calls(line)
                below = {
                    callee: ns
                    for callee, ns, _ in line.parts(lambda row: row.callee)
                    if callee is not None
                }
                return HotLine(
                    *(file, number, line.time_ns, line.error_ns, text, calls),
                    line.count is not None,
                    line.count,
                    below if line.looks else None,
                )
        return None

    def named(self, group: Group, places: Places) -> Places:
        """Places of a group of threads, with their hottest lines and the text there; routines with
        the lines of their definitions, and their text if that is all of the routine, or no line of
        any is known, as in a notebook."""
        of_place: dict[tuple[bool, str], list[LineRow]] = defaultdict(list)
        for row in self.by_group.get(group, ()):
            waits = row.callee is not None and is_wait(row.callee)
            of_place[waits, row.timer.timer].append(row)
        names = {name for _, name in of_place}
        waiting = {place.timer for place in places.apart if place.kind == "waiting"}
        with_lines: list[int] = []
        for at, timer in enumerate(places.timers) if names else ():
            if timer is None or timer.timer not in names:
                continue
            with_lines.append(at)
            rows = of_place[False, timer.timer]
            if at < places.own and timer in waiting and _take_more(rows, places.ns[at]):
                # A library's routine that waits, below what is known to wait, shows in the state.
                of_place[True, timer.timer] += [row for row in rows if row.line.state in _ASLEEP]
                of_place[False, timer.timer] = [
                    row for row in rows if row.line.state not in _ASLEEP
                ]

        def named(place: Place) -> Place:
            if place.timer is None:
                return place
            rows = of_place.get((place.kind == "waiting", place.timer.timer), [])
            hot = self._awaited(place) if place.awaits else self.hot(rows) if rows else None
            if hot:
                ns = min(hot.time_ns, round(place.ns))  # it is a part of the place, if estimated
                place = replace(place, hottest=hot._replace(time_ns=ns), source=hot.text)
            place = self._defined(place)
            if hot is None and (timer := place.timer) and timer.line and timer.file:
                text = self.texts.line(self.path(timer), timer.line)
                is_bare = timer.short_name == "<module>" or (self.rows and is_heading(text or ""))
                place = place if is_bare else replace(place, source=text)
            return place

        return places.changed(named, with_lines)

    def _defined(self, place: Place) -> Place:
        """A place with the lines of definitions."""
        timer, caller = place.timer, place.caller
        if timer is not None:
            timer = self.texts.defined(self.path(timer), timer)
        if caller is not None:
            routine = self.texts.defined(self.path(caller.timer), caller.timer)
            caller = caller if routine is caller.timer else caller._replace(timer=routine)
        if timer is place.timer and caller is place.caller:
            return place
        return replace(place, timer=timer, caller=caller)

    def _awaited(self, place: Place) -> HotLine:
        """The line at which coroutines were suspended while an event loop waited, for so long at
        most."""
        first = place.awaits[0]
        text = self.texts.line(self.path(first.timer), first.line)
        ns = round(min(place.ns, first.ns))
        return HotLine(first.timer.file, first.line, ns, 0.0, text, None, is_exact=True)

    def text(self, line: Estimate) -> str | None:
        """The source text of a line."""
        row = line.rows[0]
        return self.texts.line(self.path(row.timer), row.line.line)

    def calls(self, line: Estimate) -> str | None:
        """What a line mostly called, or did, if that is something in particular."""
        (what, time_ns, looks), *_ = line.parts(self._called)
        if what is None or looks < LEAST_LOOKS or time_ns < line.time_ns / 4:
            return None
        if time_ns >= _MOSTLY * line.time_ns:
            return what
        return f"{what} ~{duration(time_ns)}"

    def _called(self, row: LineRow) -> str | None:
        """The expression, or else the library's routine that it has called."""
        expression = self.texts.expression(self.path(row.timer), row)
        if expression is not None or row.callee is None:
            return expression
        return f"{row.callee.short_name.replace('.<locals>', '')}()"


def _take_more(rows: Sequence[LineRow], ns: float) -> bool:
    return sum(row.line.time_ns for row in rows) > 1.1 * ns


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each group of threads whose lines are known, or two: of exact lines, and of
    those that are estimated."""
    from taupy.profiledb import query
    from taupy.profiledb.sources import timer_paths

    facts = query.node_facts(db, trial)
    lines = Lines.of_trial(db, trial, facts, timer_paths(db, trial))
    if not lines.rows:
        raise Nothing(f"trial {trial} has no times of lines: {_why(db, trial)}")
    exact = not db.trial(trial).is_sampled
    whole, unseen = _times(db, trial, facts, {row.thread for row in lines.rows})
    shown = tables(lines, whole, options, exact, unseen)
    if not shown:
        raise Nothing(f"no line of trial {trial} was seen {LEAST_LOOKS} times: it ran too briefly")
    return shown


def tables(
    lines: Lines,
    whole: Mapping[Group, float],
    options: Options,
    exact: bool,
    unseen: Mapping[Group, Unseen] | None = None,
) -> list[View]:
    """One table for each group of threads with exact lines, and with lines that were seen often
    enough.

    Args:
        whole: the time of each group [ns].
        exact: whether the times of routines are exact.
        unseen: the threads of each group of which no line is known, if there are any.
    """
    limit = FIRST if options.limit is None and not options.whole else options.limit
    tables = []
    for group, rows in lines.by_group.items():
        of_lines = estimates(rows, DETAILS[options.detail], sampled=not exact).values()
        others = (unseen or {}).get(group, Unseen())
        of_group = _Group(lines, group, rows, whole.get(group, 0), options.detail, others)
        counted = [line for line in of_lines if line.count is not None]
        guessed = [line for line in of_lines if line.count is None]
        tables += [of_group.exact(counted, limit), of_group.estimated(guessed, limit, exact)]
    return [view for view in tables if view.rows]


def _why(db: ProfileDB, trial: int) -> str:
    from taupy.profiledb.trial_facts import metadata_values
    from taupy.record.endings import KILLED

    fact, health, watch = (
        metadata_values(db, name).get(trial, "")
        for name in (FACT, "taupy.health.lines", "taupy.watch")
    )
    if fact.startswith("none: ") or health:
        return health or fact.removeprefix("none: ")
    if watch.startswith("none: "):
        return f"there was no watch: {watch.removeprefix('none: ')}"
    if KILLED in watch:
        return f"of the watch, the trial says: {watch}"
    return (
        "it ended before the watch first looked (after some 0.2 s), or was run without the watch, "
        "with the plain engine or with an older taupy, or comes from another tool (docs/lines.md)"
    )


class Unseen(NamedTuple):
    """Threads of which no line is known: their number, and their time [ns]."""

    threads: int = 0
    ns: float = 0


def _times(
    db: ProfileDB,
    trial: int,
    facts: Mapping[int, Mapping[str, str]],
    seen: Collection[ThreadRow],
) -> tuple[dict[Group, float], dict[Group, Unseen]]:
    """The time of each group of threads [ns], and what of it is none of these threads'."""
    from taupy.profiledb.values import values

    host = Condition("kind", ("host",))
    table = values(db, Question((trial,), by=("thread",), where=(host,), values=("exclusive",)))
    threads = table.row_labels("thread")
    whole: dict[Group, float] = defaultdict(float)
    unseen: dict[Group, Unseen] = defaultdict(Unseen)
    for thread, group, time in zip(
        threads, groups_of(threads, facts), table.column("exclusive", "time"), strict=True
    ):
        whole[group] += time or 0
        if thread not in seen:
            before = unseen[group]
            unseen[group] = Unseen(before.threads + thread.threads, before.ns + (time or 0))
    return whole, unseen


_EXACT = "the time of a routine is exact, its division among lines is"
_COUNTED = (
    "exact; a line lasts until the next one of its call begins, with what it calls of libraries; "
    "with calls: also with other routines of the program"
)


@dataclass(frozen=True)
class _Group:
    """The lines of a group of threads.

    Attributes:
        whole: the time of the group [ns].
        detail: one of `DETAILS`.
        unseen: its threads of which no line is known.
    """

    lines: Lines
    group: Group
    rows: Sequence[LineRow]
    whole: float
    detail: str
    unseen: Unseen

    @property
    def title(self) -> str:
        threads = sum(thread.threads for thread in {row.thread for row in self.rows})
        apart = {"call": ", calls apart", "state": ", computing and waiting apart"}
        group = self.group if threads == 1 else f"{threads} {self.group}, added up"
        return f"LINES, {group}{apart.get(self.detail, '')}"

    def exact(self, counted: Sequence[Estimate], limit: int | None) -> View:
        """The lines with a count."""
        cells = [self._row(line) for line in counted[:limit]]
        return View(self.title, _EXACT_COLUMNS, cells, notes=[_COUNTED])

    def estimated(self, guessed: Sequence[Estimate], limit: int | None, exact: bool) -> View:
        """The other lines that were seen often enough; `exact`: the times of routines are."""
        shown = [line for line in guessed if line.is_shown]
        rare = [line for line in guessed if not line.is_shown]
        notes = []
        if shown:
            looks = sum(line.looks for line in guessed)
            notes.append(
                f"~: {_EXACT if exact else 'all times are'} estimated from {count(looks)} looks; "
                f"the standard error of the first row is {duration(shown[0].error_ns)}"
            )
        if rare and shown:
            time = duration(sum(line.time_ns for line in rare))
            notes.append(f"lines that were seen less than {LEAST_LOOKS} times have ~{time} in all")
        if shown and self.unseen.threads:
            threads = several(self.unseen.threads, "more thread")
            mark = "" if exact else "~"
            notes.append(f"no line is known of {threads}, {mark}{duration(self.unseen.ns)} in all")
        title = self.title
        if any(row.line.count is not None for row in self.rows):
            title += ", estimated"
        return View(title, _COLUMNS, [self._row(line) for line in shown[:limit]], notes=notes)

    def _row(self, line: Estimate) -> tuple[Cell, ...]:
        row = line.rows[0]
        states = {state: time_ns for state, time_ns, _ in line.parts(lambda row: row.line.state)}
        (callee, _, _), *_ = line.parts(lambda row: row.callee)
        return (
            self.group,
            100 * line.time_ns / self.whole if self.whole else None,
            line.time_ns,
            round(line.error_ns),
            line.looks,
            line.count,
            line.inclusive_ns,
            f"{row.timer.file}:{row.line.line}",
            self.lines.text(line),
            self.lines.calls(line),
            _does(states, line.time_ns) if line.looks else None,
            row.timer.short_name.replace(".<locals>", ""),
            row.timer.file,
            row.line.line,
            row.line.state if self.detail == "state" else None,
            *(states.get(state) for state in DOES),
            *(
                (None, None, None)
                if callee is None
                else (callee.short_name, callee.file, callee.line)
            ),
        )


def _does(states: Mapping[str, int], whole: int) -> str:
    """The states that have a tenth of the time or more."""
    parts = [(state, time) for state, time in states.items() if time >= (1 - _MOSTLY) * whole]
    if len(parts) == 1:
        return DOES[parts[0][0]]
    return ", ".join(f"{DOES[state]} {100 * time / whole:.0f} %" for state, time in parts)
