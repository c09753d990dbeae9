"""Find the program's descendants while they run, so that a trial can account for them.

A new process is a descendant if its parent is, or if it is the same user's and inherited the
variable that names the run folder (a daemon, whose parent has ended). The variable holds a number
that only the run's own processes have. The kernel reports the id of the latest process or
thread: if few have begun since the last look, each is examined, else /proc is listed. A new process
at first has its parent's command and soon executes its own, so the command is read again; on a busy
machine several times, while it is still the parent's.
"""

import posix
from errno import EINVAL, ENOENT

from taupy.model.processes import contents, stat_fields
from taupy.state.heartbeat import SeenProcess
from taupy.watch import pidfds

_VARIABLE = b"TAUPY_BOOT="
_OF_A_STORER, _OF_A_TRACKER = b"import taupy; del sys.path[0]", b"resource_tracker import main"
WAITING = b"taupy-waiting"
"""What the system calls a launcher's copy that waits whether a watch is needed."""
_ENVIRONMENT_BYTES = 1 << 16
_EXIT_SIGNAL = 35  # of the fields in /proc/PID/stat
_FEW = 256  # up to this many new ids it is cheaper to try each than to list all processes
_LOOKS_AT_A_COPY = 5  # one that never executes another program costs no more
_IN_TIME_NS = 150_000_000  # a process that lives for 200 ms is found and its command read


class Descendant(SeenProcess):
    """A process below the program, while it runs.

    Attributes:
        pidfd: -1 if the kernel has none; the receiver closes it.
        start: as in `processes.process_start`; 0 if not requested.
        place: where it is noted, -1 before.
        looks: how often the command was compared with its parent's.
    """

    __slots__ = ("looks", "pidfd", "place", "start")

    def __init__(self, pid: int, born: "Born", looked_ns: int, command: bytes) -> None:
        self.pidfd, parent, self.start = born
        self.place, self.looks = -1, 0
        super().__init__(pid, parent, looked_ns, command)

    def is_read_anew(self) -> bool:
        """Read the command again; whether it is another one now."""
        before, self.command = self.command, _command(self.pid) or self.command
        return self.command != before


class Descendants:
    """The descendants of one process.

    Args:
        root: its id.
        folder: path of the run folder.

    Attributes:
        longest_ns: longest time between two looks.
        unseen: processes and threads, also of other programs, that began and ended between two
            looks that were too far apart.
    """

    def __init__(self, root: int, folder: str) -> None:
        self.root = root
        self.prefix = _VARIABLE + folder.encode("utf-8", "surrogateescape") + b"/."
        self.variable = b""  # of the program itself, once it has begun
        self.tree = {root}
        self.listed: set[int] = set()
        self.newest = 0
        self.unborn: set[int] = set()  # ids already assigned to processes not yet seen
        self.pending: list[Descendant] = []  # they may still become another program
        self.copies: list[Descendant] = []  # returned with their parents' commands
        self.looked_ns = self.longest_ns = self.unseen = 0
        self.is_hurried = False

    def look(self, now: int, hurried: bool = False) -> list[Descendant]:
        """Return the processes found at the last look, with their current commands, and those
        returned before with their parents' that have others now; find new ones.

        Args:
            hurried: find new ones only if that does not take long, and read their commands at the
                next look only.
        """
        copies = [copy for copy in self.copies if copy.pid in self.tree]
        changed = [copy for copy in copies if copy.is_read_anew()]
        pending, self.pending = self.pending, []
        for descendant in pending:
            descendant.is_read_anew()
        self.copies = _with_the_parents_command(copies + pending)
        self.find(now, hurried)
        return [process for process in changed + pending if not _is_helper(process.command)]

    def find(self, now: int, hurried: bool) -> None:
        self.is_hurried = hurried
        before, newest = self.newest, _last_begun()
        are_few = before and 0 <= newest - before <= _FEW
        if hurried and not are_few:
            return
        if newest != before or self.unborn:
            self.newest = newest
            seen = self._examine_each(before, now) if are_few else self._list_all(before, now)
            if self._is_late(now) and newest > before:
                self.unseen += max(0, newest - before - seen)
        if self.looked_ns:
            self.longest_ns = max(self.longest_ns, now - self.looked_ns)
        self.looked_ns = now

    def _is_late(self, now: int) -> bool:
        return self.looked_ns != 0 and now - self.looked_ns > _IN_TIME_NS

    def _examine_each(self, before: int, now: int) -> int:
        """Examine each process that began since `before`; returns their number."""
        begun = set(range(before + 1, self.newest + 1))
        exist = self._take_in(begun | self.unborn, now)
        self.unborn = begun - exist
        return len(exist & begun)

    def _list_all(self, before: int, now: int) -> int:
        """The same from a list of all processes; the first time, only those that began after the
        program."""
        pids = {int(name) for name in posix.listdir("/proc") if name.isdigit()}
        begins_anew = self.newest < before
        new = pids if begins_anew else pids - self.listed
        self._take_in({pid for pid in new if before or pid > self.root}, now)
        self.listed, self.unborn = pids, set()
        return len([pid for pid in pids if pid > before])

    def _take_in(self, pids: set[int], now: int) -> set[int]:
        """Note those below the program, parents before children; returns those that exist."""
        exist, parents = pids & self.tree, {}
        for pid in sorted(pids - self.tree):
            if (born := _born(pid)) is None:
                continue
            exist.add(pid)
            if self._is_ours(pid, born[1]):
                self._add(pid, born, now)
            else:
                parents[pid] = born[1]
                _close(born)
        while ours := [pid for pid, parent in parents.items() if parent in self.tree]:
            for pid in ours:
                del parents[pid]
                if (born := _born(pid)) is not None:
                    self._add(pid, born, now)
        return exist

    def _add(self, pid: int, born: "Born", now: int) -> None:
        self.tree.add(pid)
        command = b"" if self.is_hurried else _command(pid)
        self.pending.append(Descendant(pid, born, now, command))

    def _is_ours(self, pid: int, parent: int) -> bool:
        if parent in self.tree:
            return True
        if parent != 1 or not _is_same_users(pid):
            return False
        self.variable = self.variable or self._own_variable()
        return bool(self.variable) and self.variable in _environment(pid)

    def _own_variable(self) -> bytes:
        """The variable and its value with the final zero, from the program's environment; empty if
        it has none (yet)."""
        begin, prefix, rest = _environment(self.root).partition(self.prefix)
        value, end, _ = rest.partition(b"\0")
        return prefix + value + end if end and (not begin or begin.endswith(b"\0")) else b""


def _with_the_parents_command(descendants: list[Descendant]) -> list[Descendant]:
    """Those that may not have executed a program of their own yet."""
    commands: dict[int, bytes] = {}
    kept = []
    for process in descendants:
        if process.parent not in commands:
            commands[process.parent] = _command(process.parent)
        process.looks += 1
        if process.command == commands[process.parent] and process.looks < _LOOKS_AT_A_COPY:
            kept.append(process)
    return kept


Born = tuple[int, int, int]
"""A pidfd or -1, the parent, and the start time, if requested. For a thread other than a process's
main thread, the parent is -1."""


def _born(pid: int) -> "Born | None":
    """Return a new process's pidfd, parent and start; None if no process or thread has this id."""
    try:
        pidfd = posix.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except (OSError, AttributeError) as problem:
        if getattr(problem, "errno", None) in (EINVAL, ENOENT):
            return -1, -1, 0
        pidfd = -1
    parent = pidfds.parent(pidfd)
    return (pidfd, parent, 0) if parent is not None else _born_by_stat(pid, pidfd)


def _born_by_stat(pid: int, pidfd: int) -> "Born | None":
    """The same for older kernels."""
    fields = stat_fields(pid)
    if fields and int(fields[_EXIT_SIGNAL]) >= 0:
        return pidfd, int(fields[1]), int(fields[19])
    _close((pidfd, -1, 0))
    return (-1, -1, 0) if fields else None


def _close(born: "Born") -> None:
    if born[0] >= 0:
        posix.close(born[0])


def _last_begun() -> int:
    """The id of the process or thread that began last; 0 if unknown."""
    number = _contents("/proc/loadavg", 128).rpartition(b" ")[2]
    return int(number) if number.strip().isdigit() else 0


def _command(pid: int) -> bytes:
    """The command line of a process, each word followed by a zero; empty if it has ended. That of a
    launcher's copy, which may become the watch of a run within this one, is a watch's."""
    command = _contents(f"/proc/{pid}/cmdline", 1024)
    if b"taupy" in command and _contents(f"/proc/{pid}/comm", 32) == WAITING + b"\n":
        return b"\0".join((b"", b"-c", _OF_A_STORER))
    return command


def _environment(pid: int) -> bytes:
    return _contents(f"/proc/{pid}/environ", _ENVIRONMENT_BYTES)


def _is_same_users(pid: int) -> bool:
    try:
        return bool(posix.stat(f"/proc/{pid}").st_uid == posix.geteuid())
    except OSError:
        return False


def _contents(path: str, size: int) -> bytes:
    try:
        return contents(path, size)
    except OSError:
        return b""


def _is_helper(command: bytes) -> bool:
    """Whether it is a storer, or a tracker of multiprocessing or loky: by what their
    interpreter is given by -c, whatever words others have among their arguments."""
    words = command.split(b"\0")
    at = 1
    while words[at : at + 1] and words[at].startswith(b"-") and words[at][-1:] != b"c":
        at += 2 if words[at] in (b"-W", b"-X") else 1
    if not b"".join(words[at : at + 1]).startswith(b"-"):
        return False
    code = b"".join(words[at + 1 : at + 2])
    begins = code.startswith(b"from ") and code.split(b";")[0]
    return _OF_A_STORER in code or bool(begins and _OF_A_TRACKER in begins)
