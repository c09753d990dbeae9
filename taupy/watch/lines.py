"""Look at which line each thread is in.

The frames are read from outside (`_native/remote.h`): the program is not stopped, and does nothing
for it. When to look, and what a look counts for, is decided by `_native/line_looks.h`; here, which
threads there are. With many threads, each tick looks at some of them, in turn.
"""

import posix
import time

from taupy.state import watch_files
from taupy.state.folder import Folder
from taupy.state.values import Damaged, loads
from taupy.watch.own_files import own_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from taupy._native import remote
    from taupy.watch.part_threads import PartThreads

_THREADS_A_TICK = 8
_SEARCH_REST = 200
"""Of the CPU time that finding new threads at a tick took, that is not done again for so many
times."""
_FILES_AT_MOST = 128
"""Of processes in which threads are searched for at each tick; in more, only after each round."""
_OVER_AT_MOST = 4096  # threads that have ended, before what was seen of them is added up


class _Process:
    """A process whose threads are looked at.

    Attributes:
        number: of all that there were; it became another one when it became another program.
        file: descriptor of its part; -1: there are too many.
        search_ns: when new threads are searched for at a tick again.
    """

    __slots__ = ("file", "number", "part", "search_ns")

    def __init__(self, part: "PartThreads", number: int, is_kept_open: bool) -> None:
        self.file = -1
        self.part = part
        self.number = number
        self.search_ns = 0
        if is_kept_open:
            self.file = part.open()

    def __del__(self) -> None:
        if self.file >= 0:
            posix.close(self.file)


class _Thread:
    """A thread that is looked at.

    Attributes:
        at: its number in the part, and the address of its state.

    Args:
        since_ns: looks count for the time since then.
        is_new: it was not there then.
    """

    __slots__ = ("at", "process", "remote")

    def __init__(
        self, process: _Process, tid: int, at: tuple[int, int], since_ns: int, is_new: bool
    ) -> None:
        from taupy._native import remote

        part, (index, state) = process.part, at
        self.remote = remote.Thread(
            part.pid, part.layout, state, tid, part.ticks, index, process.number, since_ns
        )
        self.remote.begin(is_new)
        self.process = process
        self.at = at


class Lines:
    """The looks of one run at lines.

    If the launcher has not created the files, nobody wants them.

    Attributes:
        due_ns: when the next tick is due; 0: there is nothing to look at.
        looks: what was seen; None: nobody has looked yet.
        over: threads whose times were added up with those of others, but not yet their looks.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.due_ns = 0
        self.looks: remote.Looks | None = None
        self.is_wanted = (folder / watch_files.LINES).exists()
        self.ticked_ns = 0
        self.number = 0  # of processes so far
        self.processes: dict[int, _Process] = {}
        self.threads: dict[tuple[int, int], _Thread] = {}
        self.turn = 0  # whose it is next, by its place among these
        self.over: set[tuple[int, int, int]] = set()

    def find(self, parts: "Iterable[PartThreads]", now: int) -> None:
        """Look at these threads from now on; called after each round of the watch."""
        for part in (parts := list(parts)):
            self.over.update((part.pid, part.ticks, number) for number in part.added_up[1])
            part.added_up[1].clear()
        if len(self.over) > _OVER_AT_MOST:
            if self.looks is not None:
                self.looks.join()
            self.over.clear()
        if not self.is_wanted:
            return
        living: set[tuple[int, int]] = set()
        for part in parts:
            if not part.layout or not part.states or not self.begin(now):
                continue
            process = self.processes.get(part.pid)
            is_new = process is None or process.part is not part
            if process is None or is_new:
                self.number += 1
                try:
                    process = _Process(part, self.number, len(self.processes) < _FILES_AT_MOST)
                except OSError:
                    continue  # it has ended
                self.processes[part.pid] = process
            self.take_in(process, now, not is_new)
            living.update((part.pid, tid) for tid in part.states)
        for key in self.threads.keys() - living:
            del self.threads[key]
        of_threads = [thread.process for thread in self.threads.values()]
        self.processes = {process.part.pid: process for process in of_threads}
        if self.looks is not None and self.threads and not self.due_ns:
            self.due_ns = self.looks.spent(now, 0)

    def take_in(self, process: _Process, now: int, are_new: bool) -> None:
        """Look from now on at all threads of a process.

        Args:
            are_new: these were not there at the tick before. Of the threads that begin, as many are
                seen as if each had taken another one's place in turn; so its first look counts for
                all the time between two looks at a thread.
        """
        since = now
        if are_new and self.ticked_ns:
            turn = max(len(self.threads), _THREADS_A_TICK)
            since -= (now - self.ticked_ns) * turn // _THREADS_A_TICK
        for tid, at in process.part.states.items():
            key = process.part.pid, tid
            entry = self.threads.get(key)
            if entry is None or entry.process is not process or entry.at != at:
                self.threads.pop(key, None)
                try:
                    new = _Thread(process, tid, at, since, are_new)
                except ValueError:
                    continue  # the part says nonsense
                self.threads[key] = new

    def begin(self, now: int) -> bool:
        """Open the files, and read what the program is. False if that fails."""
        if self.looks is not None:
            return True
        try:
            from taupy._native import remote

            settings = loads((self.folder / "run").read_record())
            own = own_files(settings["arguments"], settings["library_folders"])
            flags = posix.O_WRONLY | posix.O_NOFOLLOW
            rows, codes = (
                posix.open(name, flags, dir_fd=self.folder.descriptor)
                for name in watch_files.OF_LINES
            )
            self.looks = remote.Looks(own, rows, codes, self.over)
            self.looks.begin(now)
        except (ImportError, OSError, Damaged, LookupError, TypeError, AttributeError, ValueError):
            self.is_wanted = False
        return self.is_wanted

    def look(self) -> None:
        """One tick: look at some threads, in turn."""
        now = time.monotonic_ns()
        for process in {thread.process for _, thread in self.in_turn()}:
            self.find_new(process, now)
        self.ticked_ns = now
        for key, thread in self.in_turn():
            try:
                self.look_at(thread)
                self.turn += 1
            except PermissionError as problem:
                self.refuse(problem.errno or 1)
                return
            except OSError:
                del self.threads[key]  # it has ended

    def in_turn(self) -> "list[tuple[tuple[int, int], _Thread]]":
        threads = [*self.threads.items()]
        self.turn %= len(threads) or 1
        return [*threads[self.turn :], *threads[: self.turn]][:_THREADS_A_TICK]

    def find_new(self, process: _Process, now: int) -> None:
        """Look also at threads that have begun since the last tick."""
        if process.file < 0 or now < process.search_ns:
            return
        used = time.thread_time_ns()
        if process.part.find_new(process.file):
            states = process.part.states
            of_process = [key for key, of in self.threads.items() if of.process is process]
            for key in of_process:
                if key[1] not in states:
                    del self.threads[key]
            self.take_in(process, now, are_new=True)
            process.search_ns = now + _SEARCH_REST * (time.thread_time_ns() - used)

    def look_at(self, thread: _Thread) -> None:
        """Raises OSError if it has ended, or may not be read."""
        if self.looks is not None:
            self.looks.look(thread.remote)

    def refuse(self, errno: int) -> None:
        """Nobody may look: stop."""
        if self.looks is not None:
            self.looks.refused(errno)
        self.is_wanted = False
        self.due_ns = 0
        self.threads.clear()

    def spent(self, cpu_ns: int) -> None:
        """So much CPU time went into a tick: when is the next one due?"""
        if self.looks is not None:
            due_ns = self.looks.spent(self.ticked_ns, cpu_ns)
            self.due_ns = due_ns if self.threads else 0
