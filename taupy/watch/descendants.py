"""The processes below the program: found in /proc while they run, for a trial to account for.

A new process is one of them if its parent is, or if it inherited the variable that names the run
folder (a daemon, whose parent has ended). The kernel tells in one number which process or thread
began last: if few have begun since the last look each is looked at, else /proc is listed.
"""

import posix

from taupy.model.processes import stat_fields
from taupy.state.heartbeat import Found

_VARIABLE = b"TAUPY_BOOT="
_HELPERS = (b"taupy.commands.store import", b"resource_tracker import main")
_ENVIRONMENT_BYTES = 1 << 16
_EXIT_SIGNAL = 35  # of the fields in /proc/PID/stat
_FEW = 64  # processes and threads, which cost less than a list of all processes


class Descendants:
    """Those of one process.

    Args:
        root: its id.
        folder: path of the run folder.
    """

    def __init__(self, root: int, folder: str) -> None:
        self.root = root
        self.variable = _VARIABLE + folder.encode("utf-8", "surrogateescape") + b"\0"
        self.tree = {root}
        self.seen: set[int] = set()
        self.newest = 0
        self.unborn: set[int] = set()  # numbers that are given, of processes not yet seen
        self.pending: list[Found] = []  # they may still become another program

    def look(self, now: int) -> list[Found]:
        """Those found at the last look, with what they have become; and find new ones."""
        descendants, self.pending = self.pending, []
        for descendant in descendants:
            descendant.command = _command(descendant.pid) or descendant.command
        self.find(now)
        return [
            descendant
            for descendant in descendants
            if not any(helper in descendant.command for helper in _HELPERS)
        ]

    def find(self, now: int, only_few: bool = False) -> None:
        """Find new ones.

        Args:
            only_few: unless that takes long.
        """
        before, newest = self.newest, _last_begun()
        are_few = before and 0 <= newest - before <= _FEW
        if (newest == before and not self.unborn) or (only_few and not are_few):
            return
        self.newest = newest
        if are_few:
            pids = self.unborn.union(range(before + 1, newest + 1))
            new = self._take_in(pids - self.seen, now)
            self.seen |= new
            self.unborn = set(range(before + 1, newest + 1)) - self.seen
        else:
            pids = {int(name) for name in posix.listdir("/proc") if name.isdigit()}
            self._take_in({pid for pid in pids - self.seen if self.seen or pid > self.root}, now)
            self.seen, self.unborn = pids, set()

    def _take_in(self, pids: set[int], now: int) -> set[int]:
        """Which of these exist; those below the program are noted, parents before children."""
        new = {pid: fields for pid in pids if (fields := stat_fields(pid))}
        exist = set(new)
        while ours := [pid for pid, fields in new.items() if self._is_ours(pid, int(fields[1]))]:
            for pid in ours:
                fields = new.pop(pid)
                if int(fields[_EXIT_SIGNAL]) < 0:
                    continue  # one of the other threads of a process
                self.tree.add(pid)
                self.pending.append(Found(pid, int(fields[1]), int(fields[19]), now, _command(pid)))
        return exist

    def _is_ours(self, pid: int, parent: int) -> bool:
        if parent in self.tree:
            return True
        return parent == 1 and self.variable in _contents(
            f"/proc/{pid}/environ", _ENVIRONMENT_BYTES
        )


def _last_begun() -> int:
    """The process or thread that began last; 0 if that is not known."""
    number = _contents("/proc/loadavg", 128).rpartition(b" ")[2]
    return int(number) if number.strip().isdigit() else 0


def _command(pid: int) -> bytes:
    """The command line of a process, words ended by zeros; empty if it has ended."""
    return _contents(f"/proc/{pid}/cmdline", 1024)


def _contents(path: str, size: int) -> bytes:
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, size)
    except OSError:
        return b""
    finally:
        posix.close(descriptor)
