"""The input of a rule: a trial's attributes, its call tree, and a function for questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from taupy.analysis.findings.call_arguments import CallArguments
from taupy.analysis.findings.call_growth import CallGrowth, call_growth
from taupy.analysis.findings.calls import Calls, Sum, around, trees
from taupy.analysis.kernel_advice import Advice
from taupy.analysis.line_times import LineRow, estimates
from taupy.analysis.own_code import owners
from taupy.dataclass import NamedTuple
from taupy.model.collectives import THREAD_NAME
from taupy.model.finding import Cell, Confidence, Evidence, Finding
from taupy.model.gpu import Device
from taupy.model.gpu_time import GpuTime, gpu_name
from taupy.model.names import is_library
from taupy.model.profile import Steps
from taupy.model.question import EVENTS, Condition, Question, Value
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import (
    ARGUMENTS,
    CPU_TIME,
    FROM_CALLS,
    OTHER_ARGUMENTS,
    STATES,
    first_call,
    suspended_line,
)
from taupy.model.table import Table

_ROWS_KEPT = 5
"""Number of an answer's rows that a finding keeps; its question gives the others."""

_CPU_TIME = (CPU_TIME, "ns")


LEAST_WORKED = 0.25
"""Least part of a run that counts as the program's work, so that little work is none of a share."""


class Moment(NamedTuple):
    """Resident memory of the first process, up to a time after the trial's start [bytes]."""

    end_ns: float
    mean: float


class Wait(NamedTuple):
    """How often coroutines were suspended at a line, and for how long, all of them added up."""

    times: int
    ns: float


@dataclass
class Trial:
    """A trial.

    Attributes:
        wall_ns: time from its start to its end.
        metadata: of the trial; `nodes` has that of each node.
        earlier: ids of the experiment's earlier trials of the same program, the oldest first.
        ask: answers a question.
        memory: memory over time, sampled by the watch; empty without a watch.
        steps: steps of trainings and validations, each with its thread.
        paths: a routine's full name -> its file, as the interpreter knew it.
        lines: the estimated times of lines; empty if the watch has not looked at any.
        source: the text of a routine's source file; None if it is missing or has changed since
            the trial ran.
        advice: a kernel's full name -> advice from its stored code.
        union_ns: node and context of a GPU -> the time in which any of its streams worked, where
            that is known.
        gpu_times: node and context of a GPU -> what its time went to, if it was traced.
        is_capture: whether another tool recorded it, mostly a part of a run.
        ended_early: whether the program failed or was stopped, so that what it would have done
            next is not known.
        selector: how commands name it, with ` --db FILE` if that is not the default one.
    """

    id: int
    wall_ns: float
    ask: Callable[[Question], Table]
    metadata: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    devices: Sequence[Device] = ()
    metrics: Sequence[str] = ()
    earlier: Sequence[int] = ()
    memory: Sequence[Moment] = ()
    steps: Sequence[tuple[ThreadRow, Steps]] = ()
    paths: Mapping[str, str | None] = field(default_factory=dict)
    lines: Sequence[LineRow] = ()
    source: Callable[[TimerRow], str | None] = lambda timer: None
    advice: Mapping[str, Sequence[Advice]] = field(default_factory=dict)
    union_ns: Callable[[], Mapping[tuple[int, int], int]] = dict
    gpu_times: Callable[[], Mapping[tuple[int, int], GpuTime]] = dict
    is_capture: bool = False
    ended_early: bool = False
    selector: str = ""
    _own: dict[tuple[str, str], bool] = field(default_factory=dict, repr=False)

    def gpu_name(self, gpu: tuple[int, int]) -> str:
        models = {(device.node, 1 + device.ordinal): device.name for device in self.devices}
        return gpu_name(gpu, self.gpu_times(), models.get(gpu, ""))

    @cached_property
    def calls(self) -> Calls:
        """The call tree of the host's threads."""
        # The thread of collectives has the backends' times, during which the program's threads
        # waited.
        table = self.ask(trees(self.id)).where(
            "thread", lambda thread: thread.kind == "host" and thread.name != THREAD_NAME
        )
        return Calls.of(table)

    @cached_property
    def worked_ns(self) -> float:
        """Elapsed time without imports and Python's exit, of which rules on the program's work take
        their shares: to import PyTorch takes longer than many a program works."""
        return max(self.wall_ns - self.calls.longest(around).ns, LEAST_WORKED * self.wall_ns)

    @cached_property
    def cpu_ns(self) -> dict[ThreadRow, float]:
        """CPU time of each thread that has one."""
        table = self.ask(Question((self.id,), (), ("thread", "event"), values=EVENTS))
        rows = zip(
            *(table.row_labels("thread"), table.row_labels("event"), table.column("event.total")),
            strict=True,
        )
        return {thread: total or 0 for thread, event, total in rows if tuple(event) == _CPU_TIME}

    @cached_property
    def states(self) -> dict[ThreadRow, dict[TimerRow | None, dict[str, float]]]:
        """How long the watch saw each thread in each state, by routine; empty without a watch."""
        by = ("thread", "timer", "event")
        where = (Condition("event", STATES),)
        table = self.ask(Question((self.id,), (), by, where, values=("event.total",)))
        labels = (table.row_labels(name) for name in by)
        seen: dict[ThreadRow, dict[TimerRow | None, dict[str, float]]] = {}
        for thread, timer, event, total in zip(*labels, table.column("event.total"), strict=True):
            seen.setdefault(thread, {}).setdefault(timer, {})[event.name] = total or 0
        return seen

    @cached_property
    def waits(self) -> dict[TimerRow, dict[int, Wait]]:
        """Where coroutines of each routine were suspended, by line."""
        by = ("timer", "event")
        values: tuple[Value, ...] = ("event.count", "event.total")
        table = self.ask(Question((self.id,), (), by, values=values))
        waits: dict[TimerRow, dict[int, Wait]] = {}
        for timer, event, number, total in zip(
            *map(table.row_labels, by), *map(table.column, values), strict=True
        ):
            if timer is not None and (line := suspended_line(event.name)) is not None:
                waits.setdefault(timer, {})[line] = Wait(int(number or 0), total or 0.0)
        return waits

    @cached_property
    def growth(self) -> dict[TimerRow, CallGrowth]:
        """How the time per call of routines changes, where that was noted: of each on the call path
        with most of its time."""
        by = ("thread", "callpath", "timer", "event")
        values: tuple[Value, ...] = ("event.count", "event.total")
        where = (Condition("event", FROM_CALLS),)
        table = self.ask(Question((self.id,), (), by, where, values=values))
        parts: dict[tuple[int, int], list[tuple[int, int, float]]] = {}
        timers: dict[tuple[int, int], TimerRow] = {}
        codes = (table.codes["thread"], table.codes["callpath"])
        for *path, timer, event, number, total in zip(
            *codes, *map(table.row_labels, by[2:]), *map(table.column, values), strict=True
        ):
            if timer is not None and (first := first_call(event.name)) is not None:
                of_path = path[0], path[1]
                timers[of_path] = timer
                parts.setdefault(of_path, []).append((first, int(number or 0), total or 0.0))
        growth: dict[TimerRow, CallGrowth] = {}
        longest = sorted(parts, key=lambda path: -sum(ns for *_, ns in parts[path]))
        for of_path in longest:
            if timers[of_path] not in growth and (
                grown := call_growth((calls, ns) for _, calls, ns in sorted(parts[of_path]))
            ):
                growth[timers[of_path]] = grown
        return growth

    @cached_property
    def arguments(self) -> dict[TimerRow, CallArguments]:
        """Whether routines are called with the same arguments again, where that was looked at."""
        by = ("timer", "event")
        values: tuple[Value, ...] = ("event.count", "event.total")
        where = (Condition("event", (ARGUMENTS, OTHER_ARGUMENTS)),)
        table = self.ask(Question((self.id,), (), by, where, values=values))
        arguments: dict[TimerRow, CallArguments] = {}
        for timer, event, number, total in zip(
            *map(table.row_labels, by), *map(table.column, values), strict=True
        ):
            if timer is None:
                continue
            seen = arguments.get(timer, CallArguments())
            if event.name == OTHER_ARGUMENTS:
                seen = seen._replace(others=int(number or 0))
            else:
                seen = seen._replace(compared=int(number or 0), different=round(total or 0))
            arguments[timer] = seen
        return arguments

    def seen_ns(self, thread: ThreadRow) -> dict[str, float]:
        """How long the watch saw a thread in each state; empty if it was not seen."""
        sums: dict[str, float] = {}
        for states in self.states.get(thread, {}).values():
            for state, ns in states.items():
                sums[state] = sums.get(state, 0) + ns
        return sums

    def runnable(self, thread: ThreadRow) -> float | None:
        """Share of a thread's time that it waited for a processor; None if it was not sampled."""
        seen = self.seen_ns(thread)
        whole = sum(seen.values())
        return seen.get(STATES[1], 0) / whole if whole else None

    def queued(self, thread: ThreadRow) -> float:
        """Share of the time in which a thread was awake that it waited for a processor; 0 if it was
        not sampled."""
        seen = self.seen_ns(thread)
        awake = sum(seen.get(state, 0) for state in STATES) - seen.get(STATES[2], 0)
        return seen.get(STATES[1], 0) / awake if awake else 0.0

    @cached_property
    def hottest(self) -> dict[TimerRow, int]:
        """The line of each routine of the program that took most of its time, if it was seen often
        enough."""
        hottest: dict[TimerRow, int] = {}
        for (timer, line), hit in estimates(
            self.lines, lambda row: (row.timer, row.line.line)
        ).items():
            if hit.is_shown:
                hottest.setdefault(timer, line)
        return hottest

    @property
    def cores(self) -> int | None:
        """Number of cores that the program was allowed to use; None if unknown."""
        text = self.metadata.get("CPU Cores Allowed") or self.metadata.get("CPU Cores") or ""
        return int(text) if text.isascii() and text.isdigit() else None

    def is_own(self, timer: TimerRow) -> bool:
        """Whether it is a routine of the program, not of a library."""
        file = self.paths.get(timer.timer) or timer.file
        if file is None or file[:1] == "<":
            return False
        of_file = file, timer.groups
        is_own = self._own.get(of_file)
        if is_own is None:
            is_own = self._own[of_file] = not is_library(*of_file)
        return is_own

    @cached_property
    def _around(self) -> dict[TimerRow, TimerRow]:
        """The program's routine that each of its routines is a part of: comprehensions are frames
        of their own until Python 3.11."""
        timers = self.calls.timers
        owner = owners(timers, [*map(self.is_own, timers)])
        return {timer: timers[owner[code]] for code, timer in enumerate(timers)}

    def caller(self, row: int) -> TimerRow | None:
        """The nearest routine of the program above a call path, if there is one."""
        calls = self.calls
        row = calls.parent[row]
        while row >= 0 and not self.is_own(calls.timer[row]):
            row = calls.parent[row]
        return self._around[calls.timer[row]] if row >= 0 else None

    def by_place(self, rows: Iterable[int]) -> list[tuple[TimerRow | None, Sum]]:
        """Sums of these rows by the nearest routine of the program above, the longest first; each
        of the thread in which it took longest. None of the rows may be below another."""
        places: dict[TimerRow | None, list[int]] = {}
        for row in rows:
            places.setdefault(self.caller(row), []).append(row)
        by_thread = self.calls.by_thread
        sums = [(timer, max(by_thread(here).values())) for timer, here in places.items()]
        return sorted(sums, key=lambda pair: -pair[1].ns)

    def own_below(self, tops: Iterable[int]) -> list[tuple[TimerRow, float]]:
        """The time in and below these rows by the program's routine that is nearest above it, the
        longest first. Time that is below none of them is left out."""
        calls = self.calls
        own_ns: dict[TimerRow, float] = {}
        stack: list[tuple[int, TimerRow | None]] = [(row, None) for row in tops]
        while stack:
            row, nearest = stack.pop()
            timer = calls.timer[row]
            nearest = self._around[timer] if self.is_own(timer) else nearest
            if nearest is not None:
                own_ns[nearest] = own_ns.get(nearest, 0) + calls.exclusive[row]
            stack += [(child, nearest) for child in calls.children(row)]
        return sorted(own_ns.items(), key=lambda pair: -pair[1])

    def finding(
        self,
        kind: str,
        timer: TimerRow | None,
        sentence: str,
        ns: float,
        attempt: str,
        refuted_by: str,
        confidence: Confidence = "medium",
        values: Sequence[Value] = ("exclusive", "calls"),
    ) -> Finding:
        """A finding on one routine, or on all, with its times by thread; where its calls take
        longer and longer, the sentence says so."""
        grown = self.growth.get(timer) if timer else None
        if grown is not None and grown.grows:
            sentence += f"; {grown.clause}"
        where = (Condition("timer", (timer.timer,)), HOST) if timer else (HOST,)
        return Finding(
            kind, sentence, saved_ns=ns, wall_ns=self.wall_ns,
            evidence=(self.evidence(("thread", "timer"), where, values),),
            confidence=confidence, attempt=attempt, refuted_by=refuted_by,
        )  # fmt: skip

    def evidence(
        self,
        by: Sequence[str],
        where: Sequence[Condition] = (),
        values: Sequence[Value] = ("exclusive", "calls"),
        metrics: Sequence[str] = ("time",),
        trials: Sequence[int] = (),
    ) -> Evidence:
        """Ask a question, and keep the first rows of its answer."""
        question = Question(
            tuple(trials) or (self.id,), tuple(metrics), tuple(by), tuple(where),
            values=tuple(values),
        )  # fmt: skip
        return kept(question, self.ask(question))

    def cpu_of_threads(self) -> Evidence:
        where = (Condition("event", (CPU_TIME,)),)
        return self.evidence(("thread", "event"), where, ("event.total",), ())


HOST = Condition("kind", ("host",))


def kept(question: Question, table: Table) -> Evidence:
    """The first rows of an answer, the largest first."""
    columns = list(table.columns)
    first = columns.index(table.named(question.values[0], (*question.metrics, "")[0]))
    labels = [list(map(_text, table.row_labels(name))) for name in question.by]
    numbers = [table.columns[column] for column in columns]
    rows = sorted(zip(*labels, *numbers, strict=True), key=_descending(len(labels) + first))
    headings = (*question.by, *(" ".join(filter(None, column[:2])) for column in columns))
    return Evidence(question, headings, tuple(rows[:_ROWS_KEPT]), len(rows))


def _descending(position: int) -> Callable[[tuple[Cell, ...]], tuple[float, str]]:
    def key(row: tuple[Cell, ...]) -> tuple[float, str]:
        value = row[position]
        return (-value if isinstance(value, int | float) else 0.0), str(row)

    return key


def _text(label: object) -> Cell:
    if isinstance(label, TimerRow):
        return label.timer
    if isinstance(label, ThreadRow):
        return ".".join(map(str, label[:3]))
    if label is None or isinstance(label, str | int | float):
        return label
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)
