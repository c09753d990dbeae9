"""Write the files that users name: pages, tables, pictures."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from taupy.state import changers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike


def save_named(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a file that a user has named, which is replaced as a whole; text in UTF-8.

    A link is followed, but not another user's, which could lead to any of this user's files.
    What is not a file of this user alone (a link, a device, a file of two names) is written where
    it is; so is a file in a folder that takes no new ones.

    Raises:
        OSError: it cannot be written, or is a link of another user.
    """
    if why := changers.link_of_another(path):
        raise OSError(errno.ELOOP, f"it is {why}", os.fspath(path))
    data = content.encode() if isinstance(content, str) else content
    mode = _replaceable(path)
    if mode is not None and _replace(os.fspath(path), data, mode):
        return
    flags = 0 if os.path.islink(path) else os.O_NOFOLLOW
    with open(path, "wb", opener=lambda name, mode: os.open(name, mode | flags, 0o666)) as file:
        file.write(data)


def _replaceable(path: str | PathLike[str]) -> int | None:
    """The permissions that a file gets if another one may take its place, else None; 0: it is new,
    and they are the usual ones."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return stat.S_IMODE(status.st_mode) if is_own and status.st_nlink == 1 else None


def _replace(path: str, data: bytes, mode: int) -> bool:
    """Write beside a file, and let that take its place; False if the folder takes no new file."""
    draft = f"{path}.{os.getpid()}.part"
    try:
        try:
            new = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as problem:
            if problem.errno in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EEXIST):
                return False
            raise
        with open(new, "wb") as file:
            if mode:
                os.fchmod(new, mode)
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    return True
