"""Show, again and again, what a process does that taupy did not start: see `taupy top`.

The looks of the last ten seconds are summed: threads with what they do, routines, and lines. All
times are estimates.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import nullcontext

from taupy.answers import lines
from taupy.answers.lines import DOES, Lines
from taupy.commands import bar
from taupy.commands.attach import HZ, Watch, ended_by_signals
from taupy.commands.messages import say
from taupy.errors import TaupyError
from taupy.formats.attached import Looks
from taupy.model.masking import Masking
from taupy.model.processes import resident_bytes
from taupy.model.profile import TIME, Profile
from taupy.model.rows import ThreadRow
from taupy.model.thread_groups import Group, groups_of
from taupy.pprof import terminal
from taupy.pprof.view import Cell, Column, View
from taupy.record.line_table import position_at, positions
from taupy.state.lines import STATES
from taupy.units import count, duration
from taupy.watch.foreign import Frame

_ON_CPU = ("cpu", "active")
"""States that count as computing; of the second it is not known whether it is."""

_LOOKED_BACK_NS = 10_000_000_000
_THREADS_AT_MOST = 16
_LOOKS_AT_MOST = 100_000

_THREADS = (
    Column("pid", "int", "PID"),
    Column("resident_bytes", "bytes", "Memory"),
    Column("thread", heading="Thread"),
    Column("cpu_percent", "about_percent", "~%CPU"),
    Column("does", heading="Now"),
    Column("place", heading="In"),
)
_ROUTINES = (
    Column("computing_ns", "about_ns", "~On CPU"),
    Column("waiting_ns", "about_ns", "~Waits"),
    Column("routine", heading="Routine"),
)


class _Look:
    """One look at a thread."""

    __slots__ = ("at_ns", "frames", "name", "native_id", "pid", "state", "took_ns")

    def __init__(
        self, pid: int, native_id: int, name: str, state: int, frames: list[Frame], took_ns: int
    ) -> None:
        self.pid, self.native_id, self.name, self.state = pid, native_id, name, state
        self.frames, self.took_ns = frames, took_ns
        self.at_ns = time.monotonic_ns()


class _Recent:
    """The looks of the last ten seconds.

    Attributes:
        looks, torn: of all time.
    """

    def __init__(self) -> None:
        self.looks = self.torn = 0
        self.kept: deque[_Look] = deque(maxlen=_LOOKS_AT_MOST)

    def add(
        self, pid: int, native_id: int, name: str, state: int, frames: list[Frame], took_ns: int
    ) -> None:
        self.looks += 1
        self.kept.append(_Look(pid, native_id, name, state, frames, took_ns))
        while self.kept[0].at_ns < self.kept[-1].at_ns - _LOOKED_BACK_NS:
            self.kept.popleft()

    def end_thread(self, pid: int, native_id: int) -> None:
        """Its looks stay for ten seconds."""

    def end_process(self, pid: int) -> None:
        """Likewise."""


def run(args: argparse.Namespace, every_s: float) -> int:
    recent = _Recent()
    once = args.once or not sys.stdout.isatty()
    with ended_by_signals() as ended, Watch(args.pid, recent) as watch:
        runs = True
        while runs and not ended.is_set():
            with bar.shown(f"looking at process {args.pid}") if once else nullcontext():
                runs = watch.go_on(every_s, HZ, ended)
                views = _views(args.pid, recent, args.limit)
            if once:
                if not views:
                    raise TaupyError(f"process {args.pid}: no thread ran any Python")
                terminal.show_all(views, form=args.form)
                return 0
            if runs and not ended.is_set():
                terminal.redraw(views)
        if not runs and not ended.is_set():
            say(f"process {args.pid} has ended")
    return 0


def _views(pid: int, recent: _Recent, limit: int) -> list[View]:
    """The tables of one screen; none if there was nothing to see."""
    if not recent.kept:
        return []
    looks = Looks()
    for look in recent.kept:
        looks.add(look.pid, look.native_id, look.name, look.state, look.frames, look.took_ns)
    # What is shown is on this screen only: nothing is stored that would need a salt.
    profile = looks.profile(pid, time.time(), 0, Masking("", keeps=True))
    span_ns = max(1, recent.kept[-1].at_ns - recent.kept[0].at_ns)
    title = f"process {pid} ({profile.application}): the last {duration(span_ns)}, from outside"
    threads = list(_threads(recent))
    notes = [f"~: estimated from {count(len(recent.kept))} looks"]
    if (more := len(threads) - _THREADS_AT_MOST) > 0:
        notes.append(f"not shown: {count(more)} threads")
    views = [
        View(title, _THREADS, threads[:_THREADS_AT_MOST], notes),
        View("", _ROUTINES, _hottest(recent)[:limit]),
    ]
    of_lines = lines.tables(
        Lines.of_profile(profile), _times(profile), lines.Options(limit=limit), exact=False
    )
    return [*views, *of_lines]


def _threads(recent: _Recent) -> Iterator[tuple[Cell, ...]]:
    """A row for each thread, those that compute most first; a process's memory in its first."""
    of_threads: dict[tuple[int, int], list[_Look]] = defaultdict(list)
    for look in recent.kept:
        of_threads[look.pid, look.native_id].append(look)
    rows = []
    for looks in of_threads.values():
        last, whole = looks[-1], sum(look.took_ns for look in looks) or 1
        busy = sum(look.took_ns for look in looks if STATES[look.state] in _ON_CPU)
        rows.append((100 * busy / whole, last))
    begun = set[int]()
    for share, last in sorted(rows, key=lambda row: (-row[0], row[1].pid, row[1].native_id)):
        memory = None if last.pid in begun else resident_bytes(last.pid)
        begun.add(last.pid)
        name = last.name or f"thread {last.native_id}"
        yield last.pid, memory, name, share, DOES[STATES[last.state]], _place(last.frames[0])


def _place(frame: Frame) -> str:
    at = position_at(positions(frame.table, frame.first_line), frame.instruction)
    return f"{frame.name} ({frame.file}:{frame.first_line if at is None else at.line})"


def _hottest(recent: _Recent) -> list[tuple[Cell, ...]]:
    """The routines that threads were in, those that computed most first."""
    sums: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for look in recent.kept:
        inner = look.frames[0]
        is_waiting = STATES[look.state] not in _ON_CPU
        sums[inner.name, inner.file, inner.first_line][is_waiting] += look.took_ns
    ordered = sorted(sums.items(), key=lambda item: [-time for time in item[1]])
    return [
        (*(time_ns or None for time_ns in times), f"{name} ({file}:{line})")
        for (name, file, line), times in ordered
    ]


def _times(profile: Profile) -> dict[Group, float]:
    """The time of each group of threads."""
    of_threads = [measured.thread for measured in profile.threads]
    rows = [ThreadRow(of.node, of.context, of.thread, of.kind, of.name) for of in of_threads]
    whole: dict[Group, float] = defaultdict(float)
    for group, measured in zip(
        groups_of(rows, profile.node_metadata), profile.threads, strict=True
    ):
        whole[group] += sum(measured.tree.exclusive.get(TIME.name, ()))
    return whole
