"""The processes below the program: found in /proc while they run, for a trial to account for.

A new process is one of them if its parent is, or if it inherited the variable that names the run
folder (a daemon, whose parent has ended). /proc is only listed if a process has begun since the
last look, which the kernel tells in one number.
"""

import posix

from taupy.model.processes import stat_fields
from taupy.state.heartbeat import Found

_VARIABLE = b"TAUPY_BOOT="
_HELPERS = (b"taupy.commands.store import", b"resource_tracker import main")
_ENVIRONMENT_BYTES = 1 << 16


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
        self.newest = b""
        self.pending: list[Found] = []  # they may still become another program

    def look(self, now: int) -> list[Found]:
        """Those found at the last look, with what they have become; and find new ones."""
        descendants, self.pending = self.pending, []
        for descendant in descendants:
            descendant.command = _command(descendant.pid) or descendant.command
        newest = _contents("/proc/loadavg", 128).rpartition(b" ")[2]
        if newest != self.newest or not newest:
            self.newest = newest
            self._find(now)
        return [
            descendant
            for descendant in descendants
            if not any(helper in descendant.command for helper in _HELPERS)
        ]

    def _find(self, now: int) -> None:
        """Take in new processes, parents before children."""
        pids = {int(name) for name in posix.listdir("/proc") if name.isdigit()}
        new = {}
        for pid in pids - self.seen:
            if (self.seen or pid > self.root) and (fields := stat_fields(pid)):
                new[pid] = fields
        self.seen = pids
        while ours := [pid for pid, fields in new.items() if self._is_ours(pid, int(fields[1]))]:
            for pid in ours:
                fields = new.pop(pid)
                self.tree.add(pid)
                self.pending.append(Found(pid, int(fields[1]), int(fields[19]), now, _command(pid)))

    def _is_ours(self, pid: int, parent: int) -> bool:
        if parent in self.tree:
            return True
        return parent == 1 and self.variable in _contents(
            f"/proc/{pid}/environ", _ENVIRONMENT_BYTES
        )


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
