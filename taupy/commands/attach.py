"""Look at a Python program that runs already, from outside, and keep what was seen as a trial.

    taupy attach 4711                 until it ends, or Ctrl-C
    taupy attach 4711 --for 10s

The program is not stopped, and nothing is written or called in it. A hundred times a second, it is
looked up which routine and line each of its threads is in, also in processes that it started. The
trial is sampled: times are estimates, and calls are unknown (`taupy run` counts them). The program
must be of the Python version of this taupy, and the system must permit the look (docs/lines.md).
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.model.processes import contents
from taupy.model.progress import Progress
from taupy.state.places import DEFAULT_DATABASE
from taupy.units import several
from taupy.watch.foreign import Interpreter, Unreadable

if TYPE_CHECKING:
    from taupy.formats.attached import Looks
    from taupy.model.profile import Profile
    from taupy.watch.foreign import ForeignThread

_HZ = 100
_HZ_AT_MOST = 1000
_AGAIN_S = 0.25
"""After so long, new threads and processes are looked for."""
_TORN_AT_FIRST = 100
"""If so many looks made no sense, and none did, the process cannot be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", type=int, metavar="PID", help="id of the process")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=options.seconds,
        metavar="TIME",
        help="look for so long: 10s, 5m, 2h (default: until it ends, or Ctrl-C)",
    )
    parser.add_argument(
        "--rate", type=int, default=_HZ, metavar="N", help="looks a second (default: %(default)s)"
    )
    where = parser.add_argument_group("where to store the trial")
    where.add_argument("--application", "--app", metavar="NAME", help="default: the script's name")
    where.add_argument("--experiment", metavar="NAME", default="default")
    where.add_argument("--trial", metavar="NAME", help="default: the next number")
    options.add_keep_secrets_argument(where)
    options.add_database_argument(where)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.rate <= _HZ_AT_MOST:
        raise UsageError(f"--rate takes 1 to {_HZ_AT_MOST} looks a second, got {args.rate}")
    from taupy.formats.attached import Looks

    database, _ = options.file_and_store(args)
    looks = Looks()
    began_at, began = time.time(), time.monotonic_ns()
    with _ended_by_ctrl_c() as ended:
        with bar.shown() as progress:
            progress.begin(f"looking at process {args.pid}, until Ctrl-C", unit="looks")
            look_at(args.pid, looks, args.seconds, args.rate, ended, progress)
        return _keep(args, looks, database, began_at, time.monotonic_ns() - began)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[threading.Event]:
    """Set by Ctrl-C, which raises nothing: what was seen is stored, however often it is pressed."""
    ended = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: ended.set())
    try:
        yield ended
    finally:
        signal.signal(signal.SIGINT, before)


def _keep(
    args: argparse.Namespace, looks: Looks, database: str, began_at: float, took_ns: int
) -> int:
    from taupy.instrument.runfolder import state_folders
    from taupy.model.masking import Masking

    secrets = options.secrets(args)
    masking = Masking(
        next(state_folders()), secrets.get("secrets", ()), keeps="keep_secrets" in secrets
    )
    try:
        profile = looks.profile(args.pid, began_at, took_ns, masking)
    except ValueError as problem:
        raise TaupyError(f"process {args.pid}: {problem} while it was looked at") from None
    profile.application = args.application or profile.application
    profile.experiment, profile.name = args.experiment, args.trial
    profile.source = f"attach {args.pid}: {profile.metadata['Command Line']}"
    _store(profile, database)
    return 0


def _store(profile: Profile, database: str) -> None:
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.writer import add_profile, unclashing_name

    with ProfileDB.open(database, create=True, readonly=False) as db, db.transaction():
        profile.name = unclashing_name(db, profile)
        trial = db.trial(add_profile(db, profile))
    threads = len(profile.threads)
    say(
        f"trial {trial.id} ({trial.application}/{trial.experiment}/{trial.name}): "
        f"{several(threads, 'thread')}, {profile.metadata['taupy.lines']}"
    )
    where = (
        "" if os.path.abspath(DEFAULT_DATABASE) == database else f" --db {shlex.quote(database)}"
    )
    say(f"next: taupy report {trial.id}{where}")


class _Watch:
    """The looks at a process and at those that it started."""

    def __init__(self, pid: int, looks: Looks) -> None:
        self.pid, self.looks = pid, looks
        self.processes = {pid: Interpreter(pid)}
        self.threads: dict[tuple[int, int], _Seen] = {}
        self.refused: set[int] = set()

    def find(self) -> None:
        """Take in new threads and processes, and let go of those that have ended."""
        for pid in descendants(self.pid):
            if pid not in self.processes and pid not in self.refused:
                try:
                    self.processes[pid] = Interpreter(pid)
                except Unreadable:
                    self.refused.add(pid)  # it runs no Python, or has not begun
        living = set()
        now = time.monotonic_ns()
        for pid, interpreter in [*self.processes.items()]:
            if not interpreter.is_there():
                self.processes.pop(pid).close()
                continue
            for thread in interpreter.threads():
                key = pid, thread.native_id
                living.add(key)
                seen = self.threads.get(key)
                if seen is None or seen.thread.state != thread.state:
                    self.threads[key] = _Seen(thread, now)
        for key in self.threads.keys() - living:
            del self.threads[key]

    def look(self) -> None:
        """Look at each thread once."""
        for key, seen in [*self.threads.items()]:
            thread = seen.thread
            try:
                frames = thread.look()
                state = thread.does()
            except PermissionError:
                raise
            except OSError:
                self.threads.pop(key, None)  # it has ended
                continue
            now = time.monotonic_ns()
            if frames is None:
                self.looks.torn += 1
                continue
            if frames:
                took = now - seen.looked_ns
                self.looks.add(*key, seen.name, state, frames, took)
            seen.looked_ns = now

    def close(self) -> None:
        for interpreter in self.processes.values():
            interpreter.close()


class _Seen:
    """A thread, and when it was looked at last."""

    __slots__ = ("looked_ns", "name", "thread")

    def __init__(self, thread: ForeignThread, now: int) -> None:
        self.thread, self.name, self.looked_ns = thread, thread.name(), now


def look_at(
    pid: int,
    looks: Looks,
    seconds: float | None,
    rate: int,
    ended: threading.Event,
    progress: Progress,
) -> None:
    """Look at a process and those that it starts, until it or the time is over, or `ended` set.

    Raises:
        Unreadable: the process cannot be looked at.
    """
    watch = _Watch(pid, looks)
    began = time.monotonic()
    searched_at = 0.0
    try:
        while watch.processes and not ended.is_set():
            now = time.monotonic()
            if seconds is not None and now - began >= seconds:
                return
            if now - searched_at >= _AGAIN_S:
                watch.find()
                searched_at = now
            watch.look()
            progress.advance()
            if not looks.looks and looks.torn > _TORN_AT_FIRST:
                raise Unreadable(
                    f"process {pid} cannot be read: its Python was built otherwise than ours"
                )
            ended.wait(random.uniform(0.75, 1.25) / rate)
    except PermissionError:
        if not looks.looks:
            raise Unreadable(f"the kernel permits no look at process {pid}") from None
    finally:
        watch.close()


def descendants(pid: int) -> Iterator[int]:
    """The processes below one, as far as the kernel lists them."""
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in contents(f"/proc/{pid}/task/{task}/children", 1 << 16).split():
                yield int(child)
                yield from descendants(int(child))
