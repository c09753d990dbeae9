"""Routines of asyncio, trio and anyio that are known by name, and what each offers for advice.

An event loop is any of the three; anyio's tasks are run by one of the other two.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from taupy.analysis.known_routines import among
from taupy.model.rows import TimerRow

LOOPS = (
    *("asyncio/runners.py", "asyncio/base_events.py", "trio/_core/_run.py"),
    *("anyio/_core/_eventloop.py", "anyio/_backends/"),
)
"""Files whose callers do not call the coroutines that run in them."""

AWAITED = (
    *("asyncio/streams.py", "asyncio/locks.py", "asyncio/queues.py", "asyncio/subprocess.py"),
    *("asyncio/timeouts.py", "asyncio/threads.py"),
    *("trio/_sync.py", "trio/_channel.py", "trio/_timeouts.py", "trio/_threads.py"),
    *("trio/_highlevel_", "trio/_subprocess.py", "trio/_socket.py"),
    *("anyio/_core/_synchronization.py", "anyio/_core/_sockets.py", "anyio/streams/"),
    *("anyio/to_thread.py", "anyio/_core/_subprocesses.py"),
)
"""Files of what coroutines wait for, beside some routines of others."""

is_awaited = among((
    "asyncio/tasks.py:sleep", "asyncio/tasks.py:wait", "asyncio/tasks.py:wait_for",
    "asyncio/tasks.py:gather", "asyncio/tasks.py:as_completed", "asyncio/tasks.py:shield",
    "asyncio/base_events.py:BaseEventLoop.create_connection",
    "asyncio/base_events.py:BaseEventLoop.getaddrinfo",
    "asyncio/base_events.py:BaseEventLoop.run_in_executor",
    "asyncio/selector_events.py:BaseSelectorEventLoop.sock_connect",
    "asyncio/selector_events.py:BaseSelectorEventLoop.sock_recv",
    "asyncio/selector_events.py:BaseSelectorEventLoop.sock_sendall",
    "anyio/_core/_eventloop.py:sleep",
))  # fmt: skip

runs = among(("asyncio/events.py:Handle._run", "trio/_core/_run.py:unrolled_run"))
"""What runs a task's next step; trio's goes on for as long as its loop."""


def is_around_tasks(timer: TimerRow) -> bool:
    """Whether it may be what the loop runs in the place of a task of the program: anyio's."""
    return (timer.file or "").startswith(("anyio/_backends/", "anyio/_core/_tasks.py"))


starts_others = among(
    (*(f"asyncio/tasks.py:{name}" for name in ("gather", "create_task", "wait", "as_completed")),
     "asyncio/taskgroups.py:TaskGroup.create_task",
     "trio/_core/_run.py:Nursery.start_soon", "trio/_core/_run.py:Nursery.start",
     *(f"{file}:TaskGroup.{name}" for name in ("start_soon", "start", "create_task")
       for file in ("anyio/_backends/_asyncio.py", "anyio/abc/_tasks.py")))
)  # fmt: skip

CHANNELS = ("asyncio/queues.py", "trio/_channel.py", "anyio/streams/memory.py")

is_lock = among(
    ("asyncio/locks.py:Lock.acquire", "trio/_sync.py:_LockImpl.acquire",
     "anyio/_backends/_asyncio.py:Lock.acquire")
)  # fmt: skip

of_streams = among(
    (*(f"asyncio/streams.py:StreamReader.{name}"
       for name in ("read", "readline", "readuntil", "readexactly")),
     "asyncio/streams.py:StreamWriter.drain",
     "trio/_highlevel_socket.py:SocketStream.receive_some",
     "trio/_highlevel_socket.py:SocketStream.send_all",
     "anyio/_backends/_asyncio.py:SocketStream.receive",
     "anyio/_backends/_asyncio.py:SocketStream.send")
)  # fmt: skip

opens = among(
    (*(f"asyncio/base_events.py:BaseEventLoop.{name}"
       for name in ("create_connection", "subprocess_exec", "subprocess_shell")),
     "asyncio/unix_events.py:_UnixSelectorEventLoop.create_unix_connection",
     "trio/_highlevel_open_tcp_stream.py:open_tcp_stream")
)  # fmt: skip

is_of_pool = among(
    ("asyncio/queues.py:Queue.get", "trio/_channel.py:MemoryReceiveChannel.receive",
     "anyio/streams/memory.py:MemoryObjectReceiveStream.receive")
)  # fmt: skip

gives_lock_back = among(
    ("asyncio/locks.py:Condition.wait", "trio/_sync.py:Condition.wait",
     "anyio/_core/_synchronization.py:Condition.wait")
)  # fmt: skip

is_sleep = among(
    ("asyncio/tasks.py:sleep", "trio/_timeouts.py:sleep", "anyio/_core/_eventloop.py:sleep")
)

_TURNS = (
    *("asyncio/base_events.py", "asyncio/events.py", "asyncio/tasks.py", "selectors.py"),
    *("trio/_core/_run.py", "trio/_core/_io_", "trio/_timeouts.py", "anyio/_core/_eventloop.py"),
)

TOGETHER = frozenset(
    {"gather", "create_task", "ensure_future", "TaskGroup", "as_completed", "wait",
     "open_nursery", "create_task_group", "start_soon"}
)  # fmt: skip


def is_turn(timer: TimerRow) -> bool:
    """Whether it is part of a turn of the loop in which a task sleeps for no time."""
    return (timer.file or "").startswith(_TURNS)


class Library(NamedTuple):
    """What to write for advice.

    Attributes:
        in_thread, in_process: how a call is run elsewhere.
        all_together: how many coroutines are started at a time.
        both: how two are.
        signals: what tells a task that it may go on.
    """

    in_thread: str
    in_process: str
    all_together: str
    both: str
    signals: str


_ASYNCIO = Library(
    "await asyncio.to_thread(...)",
    "await loop.run_in_executor(ProcessPoolExecutor(), ...)",
    "await asyncio.gather(...), with a Semaphore if there may not be too many at a time",
    "a, b = await asyncio.gather(..., ...)",
    "await an asyncio.Event, Condition or Queue",
)
_OTHERS = {
    "trio": Library(
        "await trio.to_thread.run_sync(...)",
        "await trio.to_thread.run_sync(lambda: executor.submit(...).result()), with a "
        "ProcessPoolExecutor",
        "nursery.start_soon(...), with a CapacityLimiter if there may not be too many at a time",
        "nursery.start_soon(...) for each",
        "await a trio.Event, Condition or memory channel",
    ),
    "anyio": Library(
        "await anyio.to_thread.run_sync(...)",
        "await anyio.to_process.run_sync(...)",
        "task_group.start_soon(...), with a CapacityLimiter if there may not be too many at a time",
        "task_group.start_soon(...) for each",
        "await an anyio.Event, Condition or memory object stream",
    ),
}
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(trio|anyio)\b", re.MULTILINE)


def library(text: str | None) -> Library:
    """That of a program's file: the one that it imports, or else asyncio."""
    imported = _IMPORT.search(text or "")
    return _OTHERS[imported[1]] if imported else _ASYNCIO
