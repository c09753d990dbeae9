"""Threads and processes besides the main thread, and the routines that they run."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.findings.calls import phase
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among, is_wait
from taupy.dataclass import NamedTuple
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import STATES

_TALKING, _IMPORTING = phase("communication"), phase("import")
_STARTERS = (
    *("threading.py", "concurrent/futures/", "multiprocessing/", "joblib/"),
    "torch/multiprocessing/",
)


_takes = among(
    ("queue.py:Queue.get", "multiprocessing/queues.py:Queue.get",
     "multiprocessing/queues.py:SimpleQueue.get")
)  # fmt: skip


class Worker(NamedTuple):
    """A thread, the routine that it runs, and its time there without waits, collectives and
    imports, and without waits for a processor, as the watch samples them; with these, its time on
    the clock; and how often it takes something from a queue there."""

    thread: ThreadRow
    work: TimerRow
    ns: float
    clock_ns: float
    takes: int


def workers(trial: Trial) -> list[Worker]:
    """Threads and processes besides the main thread, each with the routine that it runs longest. Of
    threads that were added up only sums are known."""
    calls = trial.calls
    given_work = []
    for thread, tops in _given(trial).items():
        sums: dict[TimerRow, float] = {}
        takes = 0
        for row in tops:
            rows = [*_waits_below(trial, row)]
            waits = sum(calls.inclusive[wait] for wait in rows)
            takes += sum(int(calls.calls[wait]) for wait in rows if _takes(calls.timer[wait]))
            timer = calls.timer[row]
            sums[timer] = sums.get(timer, 0) + calls.inclusive[row] - waits
        if sums:
            work = max(sums, key=sums.__getitem__)
            ready = _ready(trial, thread, sums[work])
            given_work.append(Worker(thread, work, ready, sums[work], takes))
    return given_work


def _ready(trial: Trial, thread: ThreadRow, ns: float) -> float:
    """The part of a thread's time in which it did not wait for a processor."""
    least = min(ns, trial.cpu_ns.get(thread, 0))
    return max(least, ns - trial.seen_ns(thread).get(STATES[1], 0))


def _given(trial: Trial) -> dict[ThreadRow, list[int]]:
    """Each worker's outermost call paths that are routines of the program; routines that start
    threads and processes are skipped."""
    calls = trial.calls
    main = min(calls.threads, default=None)
    given: dict[ThreadRow, list[int]] = {}
    stack = calls.roots[:]
    while stack:
        row = stack.pop()
        timer = calls.timer[row]
        starts = (timer.file or "").startswith(_STARTERS) or not calls.calls[row]
        if calls.thread[row] == main or calls.thread[row].threads > 1:
            continue
        if trial.is_own(timer) and not starts:
            given.setdefault(calls.thread[row], []).append(row)
        elif calls.parent[row] < 0 or starts:
            stack += calls.children(row)
    return given


def _waits_below(trial: Trial, top: int) -> Iterator[int]:
    calls = trial.calls
    stack = [top]
    while stack:
        row = stack.pop()
        timer = calls.timer[row]
        if is_wait(timer) or _TALKING(timer) or _IMPORTING(timer):
            yield row
        else:
            stack += calls.children(row)
