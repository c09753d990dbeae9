"""Split exact times over lines: the watch's looks, joined with the profile.

The time of a routine of the program, with the libraries' routines and C functions that it calls, is
exact; how it is divided among the routine's lines is estimated from looks. A look is charged to the
program's line that was at work, with the library's routine that was innermost. Where the
interpreter has told the lines of a routine (`run --lines=exact`), the lines' times are exact, too,
and looks only divide these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from taupy.analysis.own_code import owners
from taupy.instrument.runfolder import RunSettings
from taupy.model.masking import Masking
from taupy.model.metric import TIME
from taupy.model.profile import LineTime, Profile, SourceFile, ThreadProfile
from taupy.model.rows import TimerRow
from taupy.model.source_text import decoded, read
from taupy.record.exact_times import ExactTimes, Line, counted, exact_times
from taupy.record.host_profile import FileNames, HostPlaces
from taupy.record.in_step import InStep
from taupy.record.line_table import Position, position_at, positions
from taupy.record.part_data import Part, PartThread, Routine
from taupy.record.source_files import own_codes
from taupy.state import lines
from taupy.state.folder import Folder
from taupy.state.lines import NO_CODE, STATES, Code, Head, Row
from taupy.state.values import Damaged
from taupy.units import count, duration, several
from taupy.watch.own_files import own_files
from taupy.watch.part_threads import identity

if TYPE_CHECKING:
    from taupy.record.part_data import Column

FACT = "taupy.lines"
"""Metadata that tell how often the watch has looked at lines, or why it has not."""

_TORN = 10
"""Looks that made no sense, of which one must know if there were no others."""

_ALL = 0
"""In the place of a line: all of a routine's."""

_APART = frozenset({"IMPORT", "EXIT"})
_NOT_PERMITTED = {
    1: "the program does not permit it: it has named another process that may (PR_SET_PTRACER)",
    2: "the kernel permits it only to processes with CAP_SYS_PTRACE (kernel.yama.ptrace_scope is "
    "2): set it to 1, or give the container this capability",
    3: "the kernel permits it to nobody (kernel.yama.ptrace_scope is 3)",
}
_FORBIDDEN = (
    "the program runs as another user, has capabilities that its watch lacks, or is in a container "
    "that forbids process_vm_readv: give the container SYS_PTRACE"
)
_INSIDE = "; or --lines=inside, with a thread in the program"
_NOT_INSIDE = "a filter (seccomp) forbids the program to read its own memory (process_vm_readv)"


def add_lines(
    folder: Folder, profile: Profile, places: Mapping[int, HostPlaces], settings: RunSettings
) -> None:
    """Add the times of lines to the profile's threads, and say how they were measured.

    Args:
        places: node -> where its process's threads are in the profile.
    """
    try:
        held = lines.read(folder)
    except (Damaged, OSError) as problem:
        profile.metadata["taupy.health.lines"] = f"the looks at lines cannot be read ({problem})"
        return
    if held is None and not any(
        thread.lines for of in places.values() for thread in of.part.threads
    ):
        return
    head, rows, codes = held or (Head(), [], [])
    widen(head, rows)
    try:
        join = _Join(profile, settings, codes)
    except ImportError:
        profile.metadata["taupy.health.lines"] = "times of lines need taupy's compiled core"
        return
    exact = {
        _key(measured): times
        for place in places.values()
        for thread, measured in zip(place.part.threads, place.threads, strict=False)
        if (times := join.exact_lines(place.part, thread))
    }
    threads = {_key(measured): measured for measured in profile.threads}
    if exact:
        profile.metadata[FACT] = _exact(exact.values())
        for key, times in exact.items():
            threads[key].lines = join.lines(threads[key], [], times)
    elif head.refused:
        why = _NOT_PERMITTED.get(_scope(), _FORBIDDEN)
        why = f"the watch may not read the program's memory: {why}{_INSIDE}"
        profile.metadata[FACT] = f"none: {_NOT_INSIDE if head.is_inside else why}"
        return
    elif not head.looks:
        if head.torn >= _TORN:
            profile.metadata[FACT] = f"none: {count(head.torn)} looks at its frames made no sense"
        return
    by_process = {
        identity(process.name): place
        for place in places.values()
        for process in place.part.processes
    }
    by_thread: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
    for row in rows:
        place = by_process.get((row.pid, row.ticks))
        at = None if place is None else join.thread_of(place, row)
        if place is None or at is None or at >= len(place.threads):
            join.lost += row.looks
            continue
        by_thread[_key(place.threads[at])].append(row)
    for key, of_thread in by_thread.items():
        threads[key].lines = join.lines(threads[key], of_thread, exact.get(key, {}))
    if head.looks:
        counted_lines = profile.metadata.get(FACT)
        looked = _described(head, join.lost)
        profile.metadata[FACT] = (
            f"{counted_lines}; of others, {looked}" if counted_lines else looked
        )


def _key(measured: ThreadProfile) -> tuple[int, int, int]:
    thread = measured.thread
    return thread.node, thread.context, thread.thread


def _exact(threads: Iterable[ExactTimes]) -> str:
    routines = {timer for times in threads for timer, _ in times}
    return f"exact in {several(len(routines), 'routine')}"


def _scope() -> int:
    from taupy.watch.start import yama_scope

    return yama_scope()


def _described(head: Head, lost: int) -> str:
    whose = (
        "the program's own CPU time, by a thread in it"
        if head.is_inside
        else "the watch's CPU time"
    )
    text = f"{several(head.looks, 'look')}, with {duration(head.cpu_ns)} of {whose}"
    if head.torn:
        text += f"; {count(head.torn)} more did not fit together"
    if head.imports:
        text += f"; {count(head.imports)} more in imports"
    if head.left_out + lost:
        text += f"; {count(head.left_out + lost)} in no line's time"
    return text


def widen(head: Head, rows: Sequence[Row]) -> None:
    """Make the squares of looks in routines that several threads were in those of independent
    looks."""
    in_step = InStep()
    for number, row in enumerate(rows):
        code, instruction = row.own
        if code != NO_CODE:
            of_several = row.thread == lines.ADDED_UP
            thread = number if of_several else (row.pid, row.ticks, row.thread)
            in_step.add(code, instruction, thread, row.time_ns)
    effect = in_step.effect(head.pairs, head.alike, head.paired)
    for row in rows:
        if row.own[0] in in_step.together:
            row.squares *= effect


class _Join:
    """What all threads of a profile have in common.

    Attributes:
        lost: looks in code of which no exact time is known.
    """

    def __init__(self, profile: Profile, settings: RunSettings, codes: Sequence[Code]) -> None:
        self.names = FileNames(settings)
        self.codes = codes
        self.lost = 0
        timers = profile.timers
        files = own_files(settings.arguments, settings.library_folders)
        own = set(own_codes(profile, range(len(timers))))
        own |= {
            code
            for code, timer in enumerate(timers)
            if timer.path and files.has(timer.path.encode("utf-8", "replace"))
        }
        rows = [
            TimerRow(timer.full_name, timer.short or timer.name, timer.file, timer.line, "")
            for timer in timers
        ]
        is_own = [code in own for code in range(len(timers))]
        self.owner = owners(rows, is_own)
        apart = [not _APART.isdisjoint(timer.groups) for timer in timers]
        self.is_own = np.array(is_own, bool)
        self.ends = self.is_own | np.array(apart, bool)
        self.at: dict[tuple[str, str | None, int | None], int] = {}
        same = []
        for code, timer in enumerate(timers):
            key = timer.name, timer.path or timer.file, timer.line
            same.append(self.at.setdefault(key, code))
        self.owner = [same[owner] for owner in self.owner]
        self._timer: list[int | None] = [self._timer_of(code) for code in codes]
        self._positions: dict[int, list[Position | None]] = {}
        self._positions_in: dict[str, dict[int, int]] = {}  # by part and number of the thread
        self._exact_of: dict[tuple[str, int], dict[int, int]] = {}

    def _timer_of(self, code: Code) -> int | None:
        return self.at.get((code.name, self.names.absolute(code.file), code.first_line))

    def exact_lines(self, part: Part, thread: PartThread) -> ExactTimes:
        """The exact lines of a thread, by routine and line."""
        routines = part.routines
        return exact_times(
            (self.owner[timer], self.owner[timer] == timer, line)
            for line in thread.lines
            if (timer := self._timer_at(routines[line.routine])) is not None
        )

    def _timer_at(self, routine: Routine) -> int | None:
        return self.at.get((routine.name, self.names.absolute(routine.file), routine.line))

    def lines(
        self, measured: ThreadProfile, rows: Sequence[Row], exact_lines: ExactTimes
    ) -> list[LineTime]:
        """The times of a thread's lines, the longest first.

        Args:
            exact_lines: of routines whose lines are not estimated.
        """
        seen: dict[tuple[int, int | None, Position, str], list[float]] = defaultdict(
            lambda: [0, 0, 0.0]
        )
        with_lines = {timer for timer, _ in exact_lines}
        routines = self.exact(measured) if rows else {}
        exact = {
            (timer, _ALL): time_ns for timer, time_ns in routines.items() if timer not in with_lines
        }
        exact |= {line: times.own_ns for line, times in exact_lines.items()}
        divided: dict[Line, int] = defaultdict(int)
        for row in rows:
            place = self.place(row)
            what = None if place is None else _what(place[0], place[2], with_lines)
            if place is None or what is None or exact.get(what, 0) <= 0:
                self.lost += row.looks
                continue
            sums = seen[(*place, STATES[row.state])]
            sums[0] += row.looks
            sums[1] += row.time_ns
            sums[2] += row.squares
            divided[what] += row.time_ns
        estimated = []
        for (timer, callee, position, state), (looks, time_ns, squares) in seen.items():
            what = _what(timer, position, with_lines)
            part = round(exact[what] * time_ns / divided[what]) if divided[what] else 0
            estimated.append(
                LineTime(timer, callee, *position, state, int(looks), part, int(time_ns), squares)
            )
        return sorted(counted(sorted(estimated, key=_order), exact_lines), key=_order)

    def thread_of(self, place: HostPlaces, row: Row) -> int | None:
        """The position of the row's thread or, if that was added up with others, of their sum: the
        first in which the routine has taken time."""
        name = place.part.name
        if name not in self._positions_in:
            self._positions_in[name] = place.part.positions()
        if (own := self._positions_in[name].get(row.thread)) is not None:
            return own
        sums = place.part.added_up(None if row.thread == lines.ADDED_UP else row.thread)
        where = self.place(row) if len(sums) > 1 else None
        for at in sums:
            if where is None:
                break
            if (name, at) not in self._exact_of:
                self._exact_of[name, at] = self.exact(place.threads[at])
            if self._exact_of[name, at].get(where[0], 0) > 0:
                return at
        return sums[0] if sums else None

    def place(self, row: Row) -> tuple[int, int | None, Position] | None:
        """The routine of the program, the library's routine that it has called if there is one,
        and the position in the former; None: no time of it is known."""
        inner = self._timer[row.inner[0]]
        if row.own[0] != NO_CODE:
            number, instruction = row.own
            callee = inner if row.inner != row.own else None
        else:
            (number, instruction), callee = row.inner, None
        timer = self._timer[number]
        if timer is None or not self.is_own[timer]:
            return None
        if callee is not None and self.is_own[callee]:
            callee = None
        return self.owner[timer], callee, self.position(number, instruction)

    def position(self, number: int, instruction: int) -> Position:
        code = self.codes[number]
        if number not in self._positions:
            self._positions[number] = positions(code.lines, code.first_line)
        position = position_at(self._positions[number], instruction)
        return position or Position(code.first_line, code.first_line)

    def exact(self, measured: ThreadProfile) -> dict[int, int]:
        """The exact time of each routine of the program on a thread, with what it calls of
        libraries [ns]."""
        tree = measured.tree
        times = tree.exclusive.get(TIME.name)
        if times is None or not len(tree):
            return {}
        timer, parent = _whole(tree.timer), _whole(tree.parent)
        goes = ~self.ends[timer] & (parent >= 0)
        kept = np.where(goes, parent, np.arange(len(timer)))
        while not np.array_equal(kept[kept], kept):
            kept = kept[kept]
        of_owner = timer[kept]
        is_own = self.is_own[of_owner]
        sums: dict[int, int] = defaultdict(int)
        totals = np.zeros(len(self.owner), "i8")
        np.add.at(totals, of_owner[is_own], np.asarray(times, "i8")[is_own])
        for code in np.flatnonzero(totals).tolist():
            sums[self.owner[code]] += int(totals[code])
        return sums


def _what(timer: int, position: Position, with_lines: Collection[int]) -> Line:
    """What is exact: the time of the line, or that of its routine."""
    return timer, position.line if timer in with_lines else _ALL


def _order(line: LineTime) -> tuple[int, int, int, int, str]:
    return -line.time_ns, line.timer, line.line, line.column, line.state


def _whole(column: Sequence[int]) -> Column:
    return np.asarray(column, "i8")


# --- what tells a line from others -------------------------------------------


def add_texts(profile: Profile, masking: Masking) -> None:
    """Add hashes of the lines' text and of their neighbours, by which a line that has moved is
    found in another trial. Secrets are masked before."""
    wanted = {
        profile.timers[line.timer].path for thread in profile.threads for line in thread.lines
    }
    texts = {
        source.path: text
        for source in profile.sources
        if source.path in wanted and not source.changed
        for text in _texts(source, masking)
    }
    if not texts:
        return
    for thread in profile.threads:
        thread.lines = [
            line
            if (text := texts.get(profile.timers[line.timer].path or "")) is None
            else _hashed(line, text)
            for line in thread.lines
        ]


def _texts(source: SourceFile, masking: Masking) -> Iterator[list[str]]:
    text = source.text
    if text is None and (content := read(source.path)) is not None:
        from hashlib import sha256

        if sha256(content[0]).hexdigest() == source.sha256:
            text, _ = masking.source(decoded(content[0]))
    if text is not None:
        yield text.split("\n")


def _hashed(line: LineTime, text: Sequence[str]) -> LineTime:
    at = line.line - 1
    if not 0 <= at < len(text):
        return line
    before = next((other for other in reversed(text[:at]) if other.strip()), "")
    after = next((other for other in text[at + 1 :] if other.strip()), "")
    around = [beside.strip() for beside in (before, text[at], after)]
    return replace(line, text_hash=_hash(around[1]), context_hash=_hash("\n".join(around)))


def _hash(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)
