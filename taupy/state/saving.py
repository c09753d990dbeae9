"""Write the files that users name: pages, tables, pictures."""

from __future__ import annotations

import errno
import os

from taupy.state import changers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike


def save_named(path: str | PathLike[str], content: str | bytes) -> None:
    """Write a file that a user has named, which is replaced; text in UTF-8.

    A link is followed, but not another user's, which could lead to any of this user's files.

    Raises:
        OSError: it cannot be written, or is a link of another user.
    """
    if why := changers.link_of_another(path):
        raise OSError(errno.ELOOP, f"it is {why}", os.fspath(path))
    flags = 0 if os.path.islink(path) else os.O_NOFOLLOW
    data = content.encode() if isinstance(content, str) else content
    with open(path, "wb", opener=lambda name, mode: os.open(name, mode | flags, 0o666)) as file:
        file.write(data)
