"""How a process ended, as far as the kernel tells others than its parent."""

from taupy.model.processes import stat_fields
from taupy.watch import pidfds


def status(pid: int, start: int, pidfd: int) -> int | None:
    """Its wait status; None if the kernel does not tell.

    As long as its parent has not waited for it, /proc knows it; from then on its pidfd.

    Args:
        start: as in `processes.process_start`, 0 if that is not known.
        pidfd: of it, or -1.
    """
    told = pidfds.status(pidfd)
    if told is None:
        told = _of_zombie(pid, start)
    return pidfds.status(pidfd) if told is None else told


def _of_zombie(pid: int, start: int) -> int | None:
    fields = stat_fields(pid)
    if len(fields) < 50 or fields[0] != "Z" or start not in (0, int(fields[19])):
        return None
    return int(fields[49])
