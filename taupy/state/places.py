"""Where the user's state and usual database are, and which folders of projects the user has
trusted once."""

from __future__ import annotations

import os

from taupy.errors import UsageError
from taupy.state import changers
from taupy.state.folder import BESIDE, Folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_DATABASE = "taupy.db"

TRUSTED = "trusted"
"""The file in the state folder: paths of folders, a line each."""

_trusted_here: set[str] = set()
"""Those that this process was told to trust, also if that cannot be kept."""


def state_folders(database: str | None = None) -> Iterator[str]:
    """Folders that may contain run folders, the preferred one first.

    Args:
        database: also the folder beside this database.
    """
    if chosen := os.environ.get("TAUPY_STATE_DIR"):
        yield chosen
    if database is not None and "\0" not in str(database):
        yield f"{database}{BESIDE}"
    if base := os.environ.get("XDG_STATE_HOME"):
        yield os.path.join(base, "taupy")
    home = os.environ.get("HOME")
    if home and os.path.isabs(home):
        yield os.path.join(home, ".local", "state", "taupy")
    # As `tempfile.gettempdir`, which imports much and writes a file to find out.
    chosen_ones = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for folder in (*chosen_ones, "/tmp", "/var/tmp", "/usr/tmp", os.curdir):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            yield os.path.join(os.path.abspath(folder), f"taupy-{os.getuid()}")
            return


def usual_database() -> tuple[str, str]:
    """`taupy.db` in the current folder, and ""; if that is another user's, one with this user's
    number there, or in the user's home, and whose the other is.

    Raises:
        UsageError: all of them are other users'.
    """
    home = os.environ.get("HOME", "")
    of_user = f"taupy-{os.getuid()}.db"
    whose = ""
    for name in (DEFAULT_DATABASE, of_user, os.path.join(home, of_user)):
        why = changers.owner(os.path.abspath(name)) if os.path.lexists(name) else ""
        if not why or is_trusted("."):
            return name, f"{whose}, so the database is {name}" if whose else ""
        whose = whose or why
    raise UsageError(f"{whose}: name a database (--db FILE)")


def owner_above(path: str) -> str:
    """Which other user owns what is at this path, or a folder above it: "X belongs to user Y"; ""
    if none does.

    Links count, and so does what they lead to. A folder that is root's and open to all (/tmp) is
    nobody else's; what others put there is theirs.
    """
    seen = set()
    for place in (os.path.abspath(path), os.path.realpath(path)):
        while place not in seen:
            if why := changers.owner(place):
                return why
            seen.add(place)
            place = os.path.dirname(place)
    return ""


def is_trusted(folder: str) -> bool:
    """Whether the user has trusted this folder."""
    path = os.path.realpath(folder)
    return path in _trusted_here or any(path in _kept(state) for state in state_folders())


def trust(folder: str) -> None:
    """Trust a folder from now on, also in later processes."""
    path = os.path.realpath(folder)
    if is_trusted(path):
        return
    from contextlib import suppress

    _trusted_here.add(path)
    if "\n" in path:
        return
    for state in state_folders():
        with suppress(OSError):
            os.makedirs(state, 0o700, exist_ok=True)
            with open_own(os.path.abspath(state)) as own:
                lines = "".join(f"{line}\n" for line in (*_lines(own), path))
                (own / TRUSTED).write_bytes(os.fsencode(lines))
            return


def _kept(state: str) -> list[str]:
    try:
        with open_own(os.path.abspath(state)) as own:
            return _lines(own)
    except OSError:
        return []


def _lines(own: Folder) -> list[str]:
    file = own / TRUSTED
    return os.fsdecode(file.read_record()).splitlines() if file.exists() else []
