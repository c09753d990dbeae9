"""Look at a Python program that runs already, from outside, and keep what was seen as a trial.

    taupy attach 4711                 until it ends, or Ctrl-C, or SIGTERM
    taupy attach 4711 --for 10s

The program is not stopped, and nothing is written or called in it. A hundred times a second, it is
looked up which routine and line each of its threads is in, also in processes that it started. The
trial is sampled: times are estimates, and calls are unknown (`taupy run` counts them). Which
programs can be read, and what the system must permit: docs/lines.md.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.model.processes import contents, process_start
from taupy.model.progress import SILENT, Progress
from taupy.state.places import DEFAULT_DATABASE
from taupy.units import several
from taupy.watch.foreign import Interpreter, Unreadable, interpreter_of

if TYPE_CHECKING:
    from taupy.formats.attached import Looks
    from taupy.model.profile import Profile
    from taupy.watch.foreign import ForeignThread, Frame


class Counts(Protocol):
    """What looks are counted in: `formats.attached.Looks`."""

    looks: int
    torn: int

    def add(
        self, pid: int, native_id: int, name: str, state: int, frames: list[Frame], took_ns: int
    ) -> None: ...

    def end_thread(self, pid: int, native_id: int) -> None: ...

    def end_process(self, pid: int) -> None: ...


HZ = 100
HZ_AT_MOST = 1000
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.25
"""After so long, the Python of a process is searched for again."""
_SEARCH_REST = 200
"""Of the CPU time that a search for new processes took, it is not repeated for so many times; but
after `_AGAIN_S` it is."""
_TORN_AT_FIRST = 100
"""If so many looks made no sense, and none did, the process cannot be read."""
_TRIES = 8
"""So often, the Python of a process is searched for."""
_REST = 4
"""A round of looks is followed by a pause of at least so many times the CPU time that it took."""


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
        "--rate", type=int, default=HZ, metavar="N", help="looks a second (default: %(default)s)"
    )
    options.add_threads_argument(parser)
    where = parser.add_argument_group("where to store the trial")
    where.add_argument("--application", "--app", metavar="NAME", help="default: the script's name")
    where.add_argument("--experiment", metavar="NAME", default="default")
    where.add_argument("--trial", metavar="NAME", help="default: the next number")
    options.add_keep_secrets_argument(where)
    options.add_database_argument(where)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.rate <= HZ_AT_MOST:
        raise UsageError(f"--rate takes 1 to {HZ_AT_MOST} looks a second, got {args.rate}")
    from taupy.formats.attached import Looks

    database, _ = options.file_and_store(args)
    looks = Looks(options.threads(args.threads))
    began_at, began = time.time(), time.monotonic_ns()
    with ended_by_signals() as ended:
        with bar.shown() as progress, Watch(args.pid, looks) as watch:
            progress.begin(f"looking at process {args.pid}, until Ctrl-C", unit="looks")
            watch.go_on(args.seconds, args.rate, ended, progress)
            looks.unseen = max(watch.unseen, 0)
        return _keep(args, looks, database, began_at, time.monotonic_ns() - began)


@contextmanager
def ended_by_signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C, SIGTERM and the end of the terminal, which raise nothing: what was seen is
    stored, however often they come."""
    ended = threading.Event()
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda *_: ended.set())
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(
    args: argparse.Namespace, looks: Looks, database: str, began_at: float, took_ns: int
) -> int:
    from taupy.collectors.host import host_metadata
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
    machine = host_metadata().items()
    profile.metadata |= {name: fact for name, fact in machine if not name.startswith("Python")}
    profile.application = args.application or profile.application
    profile.experiment, profile.name = args.experiment, args.trial
    profile.source = f"attach {args.pid}: {profile.metadata['Command Line']}"
    _store(profile, database)
    return 0


def _store(profile: Profile, database: str) -> None:
    from taupy.profiledb.database import ProfileDB
    from taupy.profiledb.writer import add_profile, unclashing_name

    with (
        bar.shown("storing the trial"),
        ProfileDB.open(database, create=True, readonly=False) as db,
        db.transaction(),
    ):
        profile.name = unclashing_name(db, profile)
        trial = db.trial(add_profile(db, profile))
    threads = sum(measured.thread.count for measured in profile.threads)
    say(
        f"trial {trial.id} ({trial.application}/{trial.experiment}/{trial.name}): "
        f"{several(threads, 'thread')}, {profile.metadata['taupy.lines']}"
    )
    where = (
        "" if os.path.abspath(DEFAULT_DATABASE) == database else f" --db {shlex.quote(database)}"
    )
    say(f"next: taupy report {trial.id}{where}")


class Watch:
    """The looks at a process and those that it started.

    Args:
        looks: where they are counted.

    Attributes:
        unseen: threads that have begun and were not there at any look.

    Raises:
        Unreadable: the process cannot be looked at.
    """

    def __init__(self, pid: int, looks: Counts) -> None:
        self.pid, self.looks = pid, looks
        self.processes = {pid: interpreter_of(pid)}
        self.threads: dict[tuple[int, int], _Seen] = {}
        # To find the Python of a process, by its start: tries so far, and when to try again.
        self.tries: dict[tuple[int, int], tuple[int, float]] = {}
        self.search_at = 0.0
        self.unseen = 0
        self.searched_ns = self.looked_ns = 0  # when that was done last; 0: not yet

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        for interpreter in self.processes.values():
            interpreter.close()

    def go_on(
        self,
        seconds: float | None,
        rate: int,
        ended: threading.Event,
        progress: Progress = SILENT,
    ) -> bool:
        """Look for so long (None: until the process ends), or until `ended` is set.

        Returns:
            Whether there is something left to look at.

        Raises:
            Unreadable: no look was permitted, or none made sense.
        """
        began = time.monotonic()
        try:
            while not ended.is_set():
                now, used = time.monotonic(), time.thread_time()
                if now >= self.search_at:
                    self.find()
                    pause = _SEARCH_REST * (time.thread_time() - used)
                    self.search_at = now + min(pause, _AGAIN_S)
                if self.is_over():
                    return False
                if seconds is not None and now - began >= seconds:
                    return True
                used = time.thread_time()
                self.look()
                progress.advance()
                if not self.looks.looks and self.looks.torn > _TORN_AT_FIRST:
                    raise Unreadable(
                        f"process {self.pid} cannot be read: its Python was built otherwise than "
                        "ours"
                    )
                pause = _REST * (time.thread_time() - used)
                ended.wait(max(random.uniform(0.75, 1.25) / rate, pause))
        except PermissionError:
            if not self.looks.looks:
                raise Unreadable(f"the kernel permits no look at process {self.pid}") from None
        return False

    def is_over(self) -> bool:
        """Whether none of the processes has any Python left."""
        key = self.pid, process_start(self.pid)
        return not self.processes and (not key[1] or self.tries.get(key, (0, 0))[0] >= _TRIES)

    def find(self) -> None:
        """Take in new processes and their threads, and let go of those that have ended."""
        now = time.monotonic_ns()
        pids = {self.pid, *descendants(self.pid)}
        for pid in sorted(pids - self.processes.keys()):
            self._begin(pid)
        self.tries = {key: tried for key, tried in self.tries.items() if key[0] in pids}
        living: set[tuple[int, int]] = set()
        for pid, interpreter in [*self.processes.items()]:
            since_ns = self.searched_ns if interpreter.begun < 0 else self.looked_ns
            is_there = interpreter.is_there()
            threads = self._take_in(interpreter, since_ns) if is_there else ()
            if threads:
                self.tries.pop((pid, interpreter.start), None)
                living.update((pid, native_id) for native_id in threads)
            else:
                # It has ended, or runs another program (exec), whose Python may not have begun.
                self.processes.pop(pid).close()
                if not is_there:
                    self.looks.end_process(pid)
                self._begin(pid)
        for key in self.threads.keys() - living:
            self._end(key)
        self.searched_ns = now

    def _end(self, key: tuple[int, int]) -> None:
        """Let go of a thread. A main thread has not ended where another program has begun."""
        del self.threads[key]
        pid, native_id = key
        if native_id != pid:
            self.looks.end_thread(pid, native_id)

    def _begin(self, pid: int) -> None:
        """Find the Python of a process; tried a few times, since it may have yet to begin."""
        key = pid, process_start(pid)
        tries, at = self.tries.get(key, (0, 0.0))
        now = time.monotonic()
        if key[1] and tries < _TRIES and now >= at:
            self.tries[key] = tries + 1, now + _AGAIN_S
            with suppress(Unreadable):
                self.processes[pid] = Interpreter(pid)

    def _take_in(self, of: Interpreter, since_ns: int) -> Collection[int]:
        """Look at all threads of a process; looks at new ones count for the time since then.

        Returns:
            Their ids.
        """
        before = of.begun
        threads = of.threads()
        if before >= 0:
            self.unseen += of.begun - before
        for native_id, state in threads.items():
            seen = self.threads.get((of.pid, native_id))
            if seen is None or seen.thread.of is not of or seen.thread.state != state:
                if seen is not None:
                    self._end((of.pid, native_id))  # its id has been used again
                with suppress(ValueError):
                    thread = of.thread(native_id, state)
                    self.threads[of.pid, native_id] = _Seen(thread, since_ns, before >= 0)
        return threads

    def look(self) -> None:
        """Look at each thread once. A thread that was not there at the look before counts for all
        the time since then: of those that live shorter than that, many are not seen, and the others
        stand for them."""
        now = time.monotonic_ns()
        for interpreter in self.processes.values():
            if interpreter.has_new():
                self._take_in(interpreter, self.looked_ns)
        self.looked_ns = now
        for key, seen in [*self.threads.items()]:
            thread = seen.thread
            try:
                frames = thread.look()
                now = time.monotonic_ns()
                state = thread.does(now - seen.looked_ns)
            except PermissionError:
                raise
            except OSError:
                self._end(key)
                continue
            if frames is None:
                self.looks.torn += 1
                continue
            if frames:
                took = now - seen.looked_ns
                self.looks.add(*key, seen.name, state, frames, took)
                self.unseen -= seen.is_unseen
                seen.is_unseen = False
            seen.looked_ns = now


class _Seen:
    """A thread, and when it was looked at last.

    Args:
        since_ns: when it was not there yet; 0: it was.
        is_unseen: it is one of those that have begun and were not there at any look.
    """

    __slots__ = ("is_unseen", "looked_ns", "name", "thread")

    def __init__(self, thread: ForeignThread, since_ns: int, is_unseen: bool) -> None:
        self.is_unseen = is_unseen
        self.thread, self.name = thread, thread.name()
        self.looked_ns = since_ns or time.monotonic_ns()
        thread.begin(is_new=bool(since_ns))


def descendants(pid: int) -> Iterator[int]:
    """The processes below one, as far as the kernel lists them."""
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in contents(f"/proc/{pid}/task/{task}/children", 1 << 16).split():
                yield int(child)
                yield from descendants(int(child))
