"""How a process ended, as far as the kernel reports it to processes other than its parent."""

from taupy.model.processes import stat_fields
from taupy.watch import pidfds


def status(pid: int, start: int, pidfd: int) -> int | None:
    """The wait status of a process; None if the kernel does not report it.

    Until its parent has waited for it, /proc has the status; afterwards, its pidfd.

    Args:
        start: as in `processes.process_start`, 0 if unknown.
        pidfd: of the process, or -1.
    """
    wait_status = pidfds.status(pidfd)
    if wait_status is None:
        wait_status = _of_zombie(pid, start)
    return pidfds.status(pidfd) if wait_status is None else wait_status


def _of_zombie(pid: int, start: int) -> int | None:
    fields = stat_fields(pid)
    if len(fields) < 50 or fields[0] != "Z" or start not in (0, int(fields[19])):
        return None
    return int(fields[49])
