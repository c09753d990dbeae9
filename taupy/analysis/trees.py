"""Call paths of host threads, and what samples, awaits and CPU times say of them: columns that are
read from a database's answer, or from a profile that was just measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Any

from taupy.analysis.line_times import LineRow
from taupy.dataclass import NamedTuple
from taupy.model.metric import TIME
from taupy.model.profile import Profile
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import CPU_TIME, RUN_DELAY, STATES, suspended_line
from taupy.model.table import Amount, Table
from taupy.model.timer_columns import TimerColumns
from taupy.state.lines import READY, RUNNABLE
from taupy.state.lines import STATES as LINE_STATES


def timer_rows(profile: Profile) -> list[TimerRow]:
    """The timers of a profile that was just measured, as they will be read from the database."""
    return [
        TimerRow(
            timer.full_name, timer.short or timer.name, timer.file, timer.line,
            "|".join(sorted(timer.groups)),
        )
        for timer in profile.timers
    ]  # fmt: skip


class Tree(NamedTuple):
    """Call paths of host threads, one per row of the columns.

    Attributes:
        threads, timers: the labels of the codes in `thread` and `timer`.
        parent: the caller's row, -1 for a root.
        calls: None where they were not counted.
    """

    threads: Sequence[ThreadRow]
    thread: Sequence[int]
    timers: Sequence[TimerRow]
    timer: Sequence[int]
    parent: Sequence[int]
    calls: Sequence[Amount]
    exclusive: Sequence[Amount]

    @classmethod
    def of(cls, table: Table, parent: Sequence[int]) -> Tree:
        """From the answer to a question by thread, call path, parent and timer."""
        return cls(
            table.labels["thread"],
            table.codes["thread"],
            table.labels["timer"],
            table.codes["timer"],
            parent,
            table.column("calls"),
            table.column("exclusive", "time"),
        )

    @classmethod
    def of_profile(cls, profile: Profile) -> tuple[Tree, dict[str, str | None]]:
        """Of the host threads of a profile that was just measured, with the files of its timers as
        the interpreter knew them, by the timer's full name."""
        measured = [thread for thread in profile.threads if thread.thread.kind == "host"]
        timers = timer_rows(profile)
        codes: dict[str, list[Any]] = {name: [] for name in cls._fields}
        for code, tree in enumerate(thread.tree for thread in measured):
            before = len(codes["parent"])
            codes["thread"] += [code] * len(tree)
            codes["timer"] += tree.timer
            codes["parent"] += [row + before if row >= 0 else -1 for row in tree.parent]
            codes["calls"] += tree.calls
            codes["exclusive"] += tree.exclusive.get(TIME.name) or [None] * len(tree)
        threads = [
            ThreadRow(*astuple(at.thread)[:5])._replace(threads=at.thread.count) for at in measured
        ]
        codes.update(threads=threads, timers=timers)
        paths = {row.timer: timer.path for row, timer in zip(timers, profile.timers, strict=True)}
        return cls(**codes), paths


_OF_THREAD = 4
"""Columns of a `ThreadRow` that say which one it is."""


class Looks(NamedTuple):
    """Looks at a thread in some place.

    Attributes:
        idle: how many found neither work nor a wait for a processor.
        idle_ns, work_ns, queued_ns: what these and the others stand for.
    """

    idle: int = 0
    idle_ns: float = 0.0
    work_ns: float = 0.0
    queued_ns: float = 0.0

    @classmethod
    def of(cls, state: str, number: int, ns: float) -> Looks:
        """Args:
        state: an event of `model.sampled.STATES`, or one of `state.lines.STATES`.
        """
        if state in (STATES[1], LINE_STATES[RUNNABLE]):
            return cls(0, 0.0, 0.0, ns)
        return cls(0, 0.0, ns) if state in (STATES[0], *READY) else cls(number, ns)

    def plus(self, other: Looks) -> Looks:
        return Looks(*map(add, self, other))

    @property
    def ns(self) -> float:
        return self.idle_ns + self.work_ns + self.queued_ns

    @property
    def waits_ns(self) -> float:
        """What it waited for a processor is divided as the rest: on a busy machine it does so after
        a sleep as in its work."""
        return self.ns * self.idle_ns / (self.idle_ns + self.work_ns) if self.idle else 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What samples, awaits and CPU times say of a tree.

    Attributes:
        looks: at rows.
        of_lines: at a thread's line: of a routine of the program, that number, and with the routine
            of a library that it has called, None for none; by their codes.
        waits: lines at which coroutines were suspended, each with how often and for how long [ns].
        cpu_ns: how long threads, by their codes, were on a CPU, which is exact.
        delay_ns: how long they waited for one, which is exact, too.
        queued_ns: how long they were seen to.
    """

    looks: dict[int, Looks] = field(default_factory=dict)
    of_lines: dict[tuple[int, int, int, int | None], Looks] = field(default_factory=dict)
    waits: dict[int, list[tuple[int, int, float]]] = field(default_factory=dict)
    cpu_ns: dict[int, float] = field(default_factory=dict)
    delay_ns: dict[int, float] = field(default_factory=dict)
    queued_ns: dict[int, float] = field(default_factory=dict)

    def note(self, thread: int, row: int | None, event: str, number: int, ns: float) -> None:
        """Note an event of a thread, by its code, and of a row of it."""
        of_threads = {CPU_TIME: self.cpu_ns, RUN_DELAY: self.delay_ns, STATES[1]: self.queued_ns}
        if (sums := of_threads.get(event)) is not None:
            sums[thread] = sums.get(thread, 0.0) + ns
        if row is not None and event in STATES:
            self.looks[row] = self.looks.get(row, Looks()).plus(Looks.of(event, number, ns))
        elif row is not None and (line := suspended_line(event)) is not None:
            self.waits.setdefault(row, []).append((line, number, ns))

    def note_lines(self, tree: Tree, rows: Sequence[LineRow]) -> None:
        """Note what threads did at lines."""
        threads = {thread[:_OF_THREAD]: code for code, thread in enumerate(tree.threads)}
        names = TimerColumns.of(tree.timers).names if rows else ()
        timers = dict(zip(names, range(len(names)), strict=True))
        for thread, timer, callee, line in rows:
            at, routine = threads.get(thread[:_OF_THREAD]), timers.get(timer.timer)
            if at is not None and routine is not None:
                below = None if callee is None else timers.get(callee.timer)
                key = at, routine, line.line, below
                looks = Looks.of(line.state, line.looks, line.seen_ns)
                self.of_lines[key] = self.of_lines.get(key, Looks()).plus(looks)

    def ready_ns(self, thread: int) -> float:
        """How long a thread either worked or could have."""
        queued = self.delay_ns.get(thread, self.queued_ns.get(thread, 0.0))
        return self.cpu_ns.get(thread, 0.0) + queued

    @classmethod
    def of_profile(cls, profile: Profile) -> Seen:
        """Of a profile that was just measured (`Tree.of_profile`)."""
        seen = cls()
        before = 0
        measured = [thread for thread in profile.threads if thread.thread.kind == "host"]
        for code, thread in enumerate(measured):
            for event in thread.user_events:
                row = None if event.row is None else before + event.row
                seen.note(code, row, event.name, event.count, event.count * event.mean)
            before += len(thread.tree)
        return seen
