"""Look at which line each thread is in.

The frames are read from outside (`_native/remote.h`): the program is not stopped, and does nothing
for it. When to look, and what a look counts for, is decided by `_native/line_looks.h`; here, which
threads there are. With many threads, each tick looks at some of them, in turn.
"""

import posix
import time

from taupy.state import lines
from taupy.state.folder import Folder
from taupy.state.values import Damaged, loads
from taupy.watch.own_files import own_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from taupy._native import remote
    from taupy.watch.part_threads import PartThreads

_THREADS_A_TICK = 8
_OVER_AT_MOST = 4096  # threads that have ended, before what was seen of them is added up


class _Process:
    """A process whose threads are looked at.

    Attributes:
        number: of all that there were; it became another one when it became another program.
    """

    __slots__ = ("number", "part")

    def __init__(self, part: "PartThreads", number: int) -> None:
        self.part = part
        self.number = number


class _Thread:
    """A thread that is looked at.

    Attributes:
        at: its number in the part, and the address of its state.
    """

    __slots__ = ("at", "process", "remote")

    def __init__(self, process: _Process, tid: int, at: tuple[int, int], since_ns: int) -> None:
        from taupy._native import remote

        part, (index, state) = process.part, at
        self.remote = remote.Thread(
            part.pid, part.layout, state, tid, part.ticks, index, process.number, since_ns
        )
        self.remote.begin(False)
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
        self.is_wanted = (folder / lines.LINES).exists()
        self.ticked_ns = 0
        self.number = 0  # of processes so far
        self.processes: dict[int, _Process] = {}
        self.threads: dict[tuple[int, int], _Thread] = {}  # the one looked at longest ago first
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
        living = set()
        for part in parts:
            if not part.layout or not part.states or not self.begin(now):
                continue
            process = self.processes.get(part.pid)
            if process is None or process.part is not part:
                self.number += 1
                process = self.processes[part.pid] = _Process(part, self.number)
            for tid, at in part.states.items():
                key = part.pid, tid
                living.add(key)
                entry = self.threads.get(key)
                if entry is None or entry.process is not process or entry.at != at:
                    self.threads.pop(key, None)
                    if (new := self._new(process, tid, at, now)) is not None:
                        self.threads[key] = new
        for key in self.threads.keys() - living:
            del self.threads[key]
        of_threads = [thread.process for thread in self.threads.values()]
        self.processes = {process.part.pid: process for process in of_threads}
        if self.looks is not None and self.threads and not self.due_ns:
            self.due_ns = self.looks.spent(now, 0)

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
                posix.open(name, flags, dir_fd=self.folder.descriptor) for name in lines.FILES
            )
            self.looks = remote.Looks(own, rows, codes, self.over)
            self.looks.begin(now)
        except (ImportError, OSError, Damaged, LookupError, TypeError, AttributeError, ValueError):
            self.is_wanted = False
        return self.is_wanted

    def _new(self, process: _Process, tid: int, at: tuple[int, int], now: int) -> "_Thread | None":
        try:
            return _Thread(process, tid, at, now)
        except ValueError:
            return None  # the part says nonsense

    def look(self) -> None:
        """One tick: look at some threads, those first at which nobody has looked for longest."""
        self.ticked_ns = time.monotonic_ns()
        for key in list(self.threads)[:_THREADS_A_TICK]:
            thread = self.threads.pop(key)
            try:
                self.look_at(thread)
            except PermissionError as problem:
                self.refuse(problem.errno or 1)
                return
            except OSError:
                continue  # it has ended
            self.threads[key] = thread

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
