"""What a pidfd reports about its process: its parent (Linux 6.13), and how it ended (6.15)."""

from fcntl import ioctl

_GET_INFO = 0xC040FF0B  # PIDFD_GET_INFO of linux/pidfd.h, with a structure of 64 bytes
_PID, _EXIT = 1 << 0, 1 << 3
_BYTES, _PARENT_AT, _STATUS_AT = 64, 24, 60


def parent(pidfd: int) -> int | None:
    """Its parent's process id; None if the kernel does not report it, or the process is gone."""
    return _number(pidfd, _PID, _PARENT_AT)


def status(pidfd: int) -> int | None:
    """Its wait status; None if it has not ended, or the kernel does not report it."""
    return _number(pidfd, _EXIT, _STATUS_AT)


def _number(pidfd: int, wanted: int, at: int) -> int | None:
    if pidfd < 0:
        return None
    info = bytearray(_BYTES)
    info[0] = wanted
    try:
        ioctl(pidfd, _GET_INFO, info)
    except OSError:
        return None
    return int.from_bytes(info[at : at + 4], "little") if info[0] & wanted else None
