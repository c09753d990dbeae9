"""Rows of processes: forked children that have ended alike, added up while their parts are read.

As the engine does with threads (`_native/thread_rows.h`): of the children of one process that were
forked on the same call path, began in the same routine of the program and ended with the same exit
code, the first ones to end stay as they are, and all later ones are added to one part. A child's
threads are added to the threads at the same place. So as many children as a server forks take the
memory of as many as stay; of each of the others, its name, process id and beginning are kept, by
which notes about it are found.

Never added are workers of pools, loaders and test runners; children that started processes
themselves, whose profile lacks anything or says more than `native_part.usage`; with work on a GPU;
and those with threads that the engine would not add either.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection

from taupy.dataclass import dataclass, replace
from taupy.model.profile import Statistics, UserEvent
from taupy.record.native_part import USAGE
from taupy.record.part_check import LARGEST
from taupy.record.part_data import ENDED, Part, PartThread, Process, Routine, ThreadSums
from taupy.units import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.record.host_profile import FileNames

ADDED = "taupy.health.children_added"
"""Metadata that say how many there are."""
POOLS = (
    "/multiprocessing/pool.py", "/multiprocessing/managers.py", "/multiprocessing/forkserver.py",
    "/concurrent/futures/", "/torch/utils/data/", "/joblib/", "/loky/",
    "/unittest/", "/_pytest/", "/xdist/", "/execnet/",
)  # fmt: skip
"""In the files of pools, loaders and test runners, whose workers stay as they are."""

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Alike:
    """Children that have ended alike.

    Attributes:
        apart: how many of them stay as they are.
        first: the one to which others are added; None: there is none yet.
    """

    apart: int = 0
    first: Part | None = None
    sums: _Sums | None = None


class ProcessRows:
    """Takes the parts of a run one after another.

    Args:
        apart: how many children that ended alike stay as they are; None: all.
        names: of the program's files.
        on_gpu: ids of processes that worked on a GPU.
    """

    def __init__(self, apart: int | None, names: FileNames, on_gpu: Collection[int] = ()) -> None:
        self._apart = apart
        self._names = names
        self._on_gpu = on_gpu
        self._alike: dict[_Key, _Alike] = {}

    def take(self, part: Part) -> bool:
        """Whether the part is kept here, to be in `parts`."""
        if self._apart is None or not self._can_be_added(part):
            return False
        began = self._beginning(part)
        threads = tuple((thread.name, thread.index) for thread in part.threads)
        key = (part.parent_pid, _forked_at(part), began, part.exit_status, threads)
        alike = self._alike.setdefault(key, _Alike())
        if alike.apart < self._apart:
            alike.apart += 1
            return False
        if alike.first is None:
            alike.first = part
        else:
            if alike.sums is None:
                alike.sums = _Sums(alike.first, alike.apart, began)
            if not alike.sums.has_room(part):
                return False
            alike.sums.add(part)
        return True

    def parts(self) -> list[Part]:
        """A part for each row; that of a single process is as it was."""
        return [
            alike.first if alike.sums is None else alike.sums.part()
            for alike in self._alike.values()
            if alike.first is not None
        ]

    def _can_be_added(self, part: Part) -> bool:
        return (
            part.forked
            and part.state == ENDED
            and part.node is None
            and part.pid not in self._on_gpu
            and bool(part.threads)
            and not (part.health or part.lost_bytes or part.layers)
            and part.collectives is None
            and part.metadata.keys() <= USAGE.keys()
            and all(map(_is_plain, part.threads))
            and not any(pool in routine.file for routine in _called(part) for pool in POOLS)
        )

    def _beginning(self, part: Part) -> Routine | None:
        """The first routine of the program that the child called."""
        for routine in _called(part):
            if routine.file and not self._names.is_library(routine.file):
                return routine
        return None


def _is_plain(thread: PartThread) -> bool:
    beside = (thread.steps, thread.suspensions, thread.lines, thread.counters, thread.metrics)
    absent = (thread.several, thread.spans, thread.refused, thread.counted)
    return not (thread.native or any(beside)) and all(part is None for part in absent)


def _called(part: Part) -> list[Routine]:
    """The routines that were called in the first thread of the part, in the order of first calls.
    What was open when it was forked was not."""
    thread = part.threads[0]
    calls = zip(thread.routine, thread.calls, strict=True)
    return [part.routines[routine] for routine, calls_of in calls if routine >= 0 and calls_of]


def _forked_at(part: Part) -> tuple[Routine, ...]:
    """The routines that were open when the child was forked, outermost first."""
    thread, path = part.threads[0], list[Routine]()
    for row in range(1, len(thread.routine)):
        if thread.parent[row] != row - 1 or thread.calls[row] or thread.resumes[row]:
            break
        path.append(part.routines[thread.routine[row]])
    return tuple(path)


class _Thread:
    """The sum of the threads at one place of several processes."""

    def __init__(self, like: PartThread, apart: int, start: int | None) -> None:
        self._like = like
        self._apart = apart
        self._start = start
        self._cpu = Statistics()
        self._least_ns, self._most_ns = LARGEST, 0
        self._row_of = {(-1, -1): 0}  # by parent and routine
        self._calls, self._resumes, self._inclusive = [0], [0], [0]
        self._samples: dict[tuple[str, str, int | None], UserEvent] = {}

    def add(self, thread: PartThread, routine_of: list[int]) -> None:
        rows: list[int] = []
        for routine, parent in zip(thread.routine, thread.parent, strict=True):
            path = (rows[parent], routine_of[routine]) if rows else (-1, -1)
            row = self._row_of.setdefault(path, len(self._row_of))
            rows.append(row)
            if row == len(self._calls):
                for column in (self._calls, self._resumes, self._inclusive):
                    column.append(0)
        for total, column in (
            (self._calls, thread.calls),
            (self._resumes, thread.resumes),
            (self._inclusive, thread.inclusive),
        ):
            for row, value in zip(rows, column, strict=True):
                total[row] += int(value)
        for event in thread.samples:
            moved = None if event.row is None else rows[event.row]
            key = (event.name, event.unit, moved)
            earlier = self._samples.get(key)
            self._samples[key] = (
                replace(event, row=moved) if earlier is None else earlier.joined(event)
            )
        self._cpu.add(thread.cpu_ns)
        time_ns = int(thread.inclusive[0])
        self._least_ns = min(self._least_ns, time_ns)
        self._most_ns = max(self._most_ns, time_ns)

    def thread(self) -> PartThread:
        parents, routines = zip(*self._row_of, strict=True)
        return PartThread(
            0,
            self._like.name,
            int(self._cpu.total),
            routine=array("q", routines),
            parent=array("q", parents),
            calls=array("q", self._calls),
            resumes=array("q", self._resumes),
            inclusive=array("q", self._inclusive),
            samples=list(self._samples.values()),
            ended=True,
            index=self._like.index,
            several=ThreadSums(
                self._cpu.count,
                self._apart,
                self._like.index,
                self._like.index,
                self._least_ns,
                self._most_ns,
                self._cpu,
                self._start,
            ),
        )


class _Sums:
    """The sum of several parts.

    Args:
        first: one of them; its places in memory are nobody else's.
        apart: how many that ended alike stay as they are.
        began: where they began.
    """

    def __init__(self, first: Part, apart: int, began: Routine | None) -> None:
        self._like = first
        self._routine_of: dict[Routine, int] = {}
        self._start_ns = first.start_ns
        self._started_at, self._end_ns = first.started_at, first.end_ns
        self._processes: list[Process] = []
        self._usage: dict[str, float] = {}
        start = None if began is None else self._number(began)
        self._threads = [_Thread(thread, apart, start) for thread in first.threads]
        self._largest = 0
        self.add(first)

    def _number(self, routine: Routine) -> int:
        return self._routine_of.setdefault(routine, len(self._routine_of))

    def has_room(self, part: Part) -> bool:
        """Whether the sums remain numbers that can be stored."""
        return self._largest + _largest(part) <= LARGEST

    def add(self, part: Part) -> None:
        numbers = [*map(self._number, part.routines), -1]
        for total, thread in zip(self._threads, part.threads, strict=True):
            total.add(thread, numbers)
        self._largest += _largest(part)
        for name, text in part.metadata.items():
            value, earlier = float(text), self._usage.get(name, 0.0)
            self._usage[name] = max(earlier, value) if USAGE[name].is_most else earlier + value
        self._start_ns = min(self._start_ns, part.start_ns)
        self._started_at = min(self._started_at, part.started_at)
        self._end_ns = max(self._end_ns, part.end_ns)
        self._processes += part.processes

    def part(self) -> Part:
        return replace(
            self._like,
            routines=list(self._routine_of),
            keys=[0] * len(self._routine_of),
            threads=[total.thread() for total in self._threads],
            metadata={name: USAGE[name].text(value) for name, value in self._usage.items()},
            started_at=self._started_at,
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            places=None,
            added=self._processes,
        )


def _largest(part: Part) -> int:
    """No sum over the part's call paths is larger."""
    return sum(
        sum(thread.calls) + sum(thread.resumes) + sum(map(abs, thread.inclusive))
        for thread in part.threads
    )


def note(parts: Collection[Part]) -> dict[str, str]:
    """What the trial says about processes without rows of their own, as metadata."""
    rows = [part for part in parts if part.added]
    if not rows:
        return {}
    alike = "process that forked them, place where they began and exit code"
    return {ADDED: children_added(sum(len(part.added) for part in rows), len(rows), alike)}


def children_added(processes: int, rows: int, alike: str) -> str:
    """What the trial says about processes without rows of their own."""
    return (
        f"{count(processes)} forked children that had ended are shown as {rows}, one for each "
        f"{alike}, with their times added up; --threads all keeps them apart"
    )
