"""How a process ended, as far as the kernel tells others than its parent."""

from taupy.model.processes import stat_fields

_GET_INFO = 0xC040FF0B  # PIDFD_GET_INFO of linux/pidfd.h, with a structure of 64 bytes
_EXIT = 1 << 3  # PIDFD_INFO_EXIT, Linux 6.15
_BYTES, _STATUS_AT = 64, 60


def status(pid: int, start: int, pidfd: int) -> int | None:
    """Its wait status; None if the kernel does not tell.

    As long as its parent has not waited for it, /proc knows it; from then on its pidfd.

    Args:
        start: as in `processes.process_start`, 0 if that is not known.
        pidfd: of it, or -1.
    """
    told = _of_pidfd(pidfd)
    if told is None:
        told = _of_zombie(pid, start)
    return _of_pidfd(pidfd) if told is None else told


def _of_zombie(pid: int, start: int) -> int | None:
    fields = stat_fields(pid)
    if len(fields) < 50 or fields[0] != "Z" or start not in (0, int(fields[19])):
        return None
    return int(fields[49])


def _of_pidfd(pidfd: int) -> int | None:
    if pidfd < 0:
        return None
    from fcntl import ioctl

    info = bytearray(_BYTES)
    info[0] = _EXIT
    try:
        ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    if not info[0] & _EXIT:
        return None
    return int.from_bytes(info[_STATUS_AT:_BYTES], "little")
