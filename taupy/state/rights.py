"""Whether this process has more rights than the user whose environment and files it is handed.

A program that runs for other users (set-user-ID, set-group-ID, or with file capabilities) inherits
their environment, and may start an interpreter that ignores it (`python -I`). Nothing that taupy
does on behalf of a variable may then happen with that program's rights.

A program may also give up rights: what it then starts has others than its user.

Runs inside the measured process, too: built-in modules only.
"""

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.state.folder import Folder

_AT_SECURE, _WORD = 23, 8 if sys.maxsize > 1 << 32 else 4
_HARMLESS = 1 << 35  # CAP_WAKE_ALARM, which desktop sessions give to everybody
_NAMESPACES = ("user", "mnt", "pid_for_children")
_STATUS_BYTES = 1 << 17  # a process may have thousands of groups


def are_raised() -> bool:
    """Whether the kernel started this program with rights that its caller lacks, or real and
    effective ids differ."""
    if len({*posix.getresuid()}) > 1 or len({*posix.getresgid()}) > 1:
        return True
    try:
        vector = _content("/proc/self/auxv", 4096)
    except FileNotFoundError:
        return False  # there is no /proc
    except OSError:
        return True  # closed to this user, as for a program with raised rights
    words = [
        int.from_bytes(vector[at : at + _WORD], sys.byteorder)
        for at in range(0, len(vector), _WORD)
    ]
    return any(key == _AT_SECURE and value for key, value in zip(words[::2], words[1::2]))  # noqa: B905


def now() -> "tuple[object, ...]":
    """Root folder, ids, namespaces and capabilities of this process: unequal to earlier ones if the
    program has changed any."""
    root = posix.stat("/")
    ids = posix.getresuid(), posix.getresgid(), posix.getgroups()
    return root.st_dev, root.st_ino, ids, *map(_namespace, _NAMESPACES), _capabilities()


def exceed(folder: "Folder") -> bool:
    """Whether this process has rights that the owner of a run folder may lack.

    A program with raised rights can make all its ids equal, and pass capabilities on to what it
    starts. The folder's group is one that its owner had.
    """
    if posix.getegid() != posix.fstat(folder.descriptor).st_gid:
        return True
    return posix.geteuid() != 0 and bool(_capabilities() & ~_HARMLESS)


def _namespace(kind: str) -> int:
    """The number of a namespace of this process; 0 where there is no /proc."""
    try:
        return posix.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return 0


def _capabilities() -> int:
    """The permitted capabilities of this process, all if they are unknown."""
    try:
        status = _content("/proc/self/status", _STATUS_BYTES)
    except OSError:
        return -1
    number = status.partition(b"\nCapPrm:")[2].split(None, 1)[:1]
    return int(number[0], 16) if number else -1


def _content(path: str, size: int) -> bytes:
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        pieces = []
        while piece := posix.read(descriptor, size):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        posix.close(descriptor)
