"""Call paths of host threads, and what samples, awaits and CPU times say of them: columns that are
read from a database's answer, or from a profile that was just measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from taupy.dataclass import NamedTuple
from taupy.model.metric import TIME
from taupy.model.profile import Profile
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import CPU_TIME, IDLE, RUN_DELAY, STATES, suspended_line
from taupy.model.table import Amount, Table


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


@dataclass(frozen=True, slots=True)
class Seen:
    """What samples, awaits and CPU times say of a tree.

    Attributes:
        asleep: samples, and the sampled time without work [ns].
        waits: lines at which coroutines were suspended, each with how often and for how long [ns].
        cpu_ns: how long threads, by their codes, were on a CPU, which is exact.
        delay_ns: how long they waited for one, which is exact, too.
        queued_ns: how long they were seen to.
    """

    asleep: dict[int, tuple[int, float]] = field(default_factory=dict)
    waits: dict[int, list[tuple[int, int, float]]] = field(default_factory=dict)
    cpu_ns: dict[int, float] = field(default_factory=dict)
    delay_ns: dict[int, float] = field(default_factory=dict)
    queued_ns: dict[int, float] = field(default_factory=dict)

    def note(self, thread: int, row: int | None, event: str, number: int, ns: float) -> None:
        """Note an event of a thread, by its code, and of a row of it."""
        of_threads = {CPU_TIME: self.cpu_ns, RUN_DELAY: self.delay_ns, STATES[1]: self.queued_ns}
        if (sums := of_threads.get(event)) is not None:
            sums[thread] = sums.get(thread, 0.0) + ns
        elif row is not None and event in IDLE:
            looks, before_ns = self.asleep.get(row, (0, 0.0))
            self.asleep[row] = looks + number, before_ns + ns
        elif row is not None and (line := suspended_line(event)) is not None:
            self.waits.setdefault(row, []).append((line, number, ns))

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
