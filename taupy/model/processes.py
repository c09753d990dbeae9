"""Processes of this machine, told apart even when a process id is reused."""

from __future__ import annotations

import posix


def contents(path: str, size: int = 1024) -> bytes:
    """The first bytes of a file in /proc; faster than a file object.

    Raises:
        OSError: no such process or thread.
    """
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return posix.read(descriptor, size)
    finally:
        posix.close(descriptor)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, from the state on; empty if no such process."""
    try:
        text = contents(f"/proc/{pid}/stat")
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].decode("ascii", "replace").split()


def process_start(pid: int) -> int:
    """Start time of a running process in clock ticks since boot; 0 if there is no such process."""
    fields = stat_fields(pid)
    return 0 if not fields or fields[0] in ("Z", "X") else int(fields[19])


def resident_bytes(pid: int) -> int | None:
    """Resident memory of a process, None if there is no such process."""
    try:
        return int(contents(f"/proc/{pid}/statm").split()[1]) * posix.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return None


def parent(pid: int) -> int:
    """Id of a process's parent, 0 if there is no such process."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def is_alive(pid: int, start: int) -> bool:
    """Whether the process with this id and start time is still running here."""
    return start != 0 and process_start(pid) == start
