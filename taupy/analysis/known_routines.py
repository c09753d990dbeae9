"""Routines that are known by file and name, among them those of the standard library that wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from taupy.dataclass import dataclass
from taupy.model.rows import TimerRow

Matches = Callable[[TimerRow], bool]


@dataclass(frozen=True, slots=True)
class Known:
    """Timers of routines that are known by name.

    Attributes:
        files: a routine's name -> the last parts of the paths of its files.
    """

    files: Mapping[str, Sequence[str]]

    def __call__(self, timer: TimerRow) -> bool:
        ends = self.files.get(timer.short_name)
        if ends is None:
            return False
        file = timer.file or ""
        return any(file == end or file.endswith(f"/{end}") for end in ends)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Timers whose groups, joined by `|`, pass a test, and their names another."""

    passes: Callable[[str], bool]
    named: Callable[[str], bool] | None = None

    def __call__(self, timer: TimerRow) -> bool:
        return self.passes(timer.groups) and (self.named is None or self.named(timer.short_name))


@dataclass(frozen=True, slots=True)
class Worded:
    """Timers that pass a test which none does without one of these words in its short name, and
    without this end of its file's path."""

    passes: Matches
    words: Sequence[str]
    end: str

    def __call__(self, timer: TimerRow) -> bool:
        return self.passes(timer)


@dataclass(frozen=True, slots=True)
class OneOf:
    """These timers."""

    timers: Collection[TimerRow]

    def __call__(self, timer: TimerRow) -> bool:
        return timer in self.timers


@dataclass(frozen=True, slots=True)
class Either:
    """Timers that any of these would match."""

    parts: Sequence[Matches]

    def __call__(self, timer: TimerRow) -> bool:
        return any(part(timer) for part in self.parts)


def among(places: Iterable[str]) -> Known:
    """Timers of these routines, each as FILE:NAME with the last parts of the file's path."""
    files: dict[str, list[str]] = {}
    for place in places:
        file, _, name = place.rpartition(":")
        files.setdefault(name, []).append(file)
    return Known(files)


JOINS = (
    "threading.py:Thread.join",
    "multiprocessing/process.py:BaseProcess.join",
    "multiprocessing/popen_fork.py:Popen.wait",
    "multiprocessing/pool.py:ApplyResult.get",
    "multiprocessing/pool.py:ApplyResult.wait",
    "multiprocessing/pool.py:IMapIterator.next",
    "multiprocessing/pool.py:Pool.join",
    "concurrent/futures/_base.py:Future.result",
    "concurrent/futures/_base.py:wait",
    "concurrent/futures/_base.py:as_completed",
    "concurrent/futures/thread.py:ThreadPoolExecutor.shutdown",
    "concurrent/futures/process.py:ProcessPoolExecutor.shutdown",
)
"""Routines that wait for the end of a thread, process or task."""

TAKES = (
    "queue.py:Queue.get",
    "multiprocessing/queues.py:Queue.get",
    "multiprocessing/queues.py:SimpleQueue.get",
    "multiprocessing/connection.py:_ConnectionBase.recv",
)
"""Routines that wait for data from another thread or process."""

SELECTS = (
    *(
        f"selectors.py:{name}.select"
        for name in ("EpollSelector", "_PollLikeSelector", "KqueueSelector", "SelectSelector")
    ),
    "trio/_core/_io_epoll.py:EpollIOManager.get_events",
    "trio/_core/_io_kqueue.py:KqueueIOManager.get_events",
)
"""Routines in which event loops and servers wait; `PollSelector` and others inherit theirs."""

_OTHERS = (
    "queue.py:Queue.put",
    "threading.py:Event.wait",
    "threading.py:Condition.wait",
    "threading.py:Condition.wait_for",
    "threading.py:Barrier.wait",
    "threading.py:Semaphore.acquire",
    "threading.py:_shutdown",
    "multiprocessing/connection.py:_ConnectionBase.poll",
    "multiprocessing/connection.py:wait",
    "multiprocessing/util.py:_exit_function",
    "multiprocessing/synchronize.py:Condition.wait",
    "multiprocessing/synchronize.py:SemLock.__enter__",
    "subprocess.py:Popen.wait",
    "subprocess.py:Popen.communicate",
)

is_take = among(TAKES)
is_select = among(SELECTS)
is_wait = among((*JOINS, *TAKES, *SELECTS, *_OTHERS))
