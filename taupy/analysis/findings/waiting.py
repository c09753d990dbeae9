"""Routines of the standard library that wait, and how long threads run without waiting.

Of nested waits, only the outermost counts, so results do not depend on the version of Python.
"""

from __future__ import annotations

from typing import NamedTuple

from taupy.analysis.findings.calls import Sum, among
from taupy.analysis.findings.trial import Trial
from taupy.model.rows import ThreadRow

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
    "selectors.py:EpollSelector.select",
    "selectors.py:PollSelector.select",
    "subprocess.py:Popen.wait",
    "subprocess.py:Popen.communicate",
)

is_take = among(TAKES)
is_wait = among((*JOINS, *TAKES, *_OTHERS))


class Life(NamedTuple):
    """A thread: its lifetime, the part of it without waits, and its CPU time.

    Attributes:
        cpu_ns: None if unknown.
    """

    thread: ThreadRow
    whole_ns: float
    working_ns: float
    cpu_ns: float | None


def lives(trial: Trial) -> list[Life]:
    """The host's threads; the main thread of node 0 first."""
    calls = trial.calls
    waits = calls.by_thread(calls.outermost(is_wait))
    return sorted(
        Life(thread, whole, whole - waits.get(thread, Sum()).ns, trial.cpu_ns.get(thread))
        for thread, whole in calls.life_ns().items()
    )
