"""What the manifest says of files, and whether it may be checked_file.

Whoever may write to a store writes its manifest. A name in it must be one that taupy gives to files
of that trial, and the content must have the hash that the manifest says, which is computed when a
client reads a file for the first time. Results are kept in the user's cache folder, by the file's
size and time.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import quote

from taupy.errors import DatabaseError
from taupy.state.changers import others
from taupy.store.places import Stamp

JOINT = "joint"
"""Prefix of the names of files that hold the rows of several trials."""

_LONGEST_NAME = 100
_NAME = re.compile(
    r"(app=[\w.~%-]*)/month=[\w.~%-]*/([0-9A-Za-z-]+)\.([a-z_]+)\.[0-9a-f]{8}\.parquet", re.ASCII
)
_LARGEST_CACHE = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A row of the manifest.

    Attributes:
        name: path relative to the store's folder.
        holds: the table whose rows it contains.
        sha256: of its bytes, in hexadecimal.
    """

    name: str
    holds: str
    rows: int
    bytes: int
    sha256: str


def is_of(name: str, holds: str, uuid: str, application: str) -> bool:
    """Whether taupy gives this name to a file with a trial's rows of a table."""
    parts = _NAME.fullmatch(name)
    return (
        parts is not None
        and parts[1] == f"app={in_a_path(application)}"
        and parts[2] in (uuid, JOINT)
        and parts[3] == holds
    )


def checked_file(file: StoredFile, uuid: str, application: str) -> StoredFile:
    """The file, if its name is one that taupy gives.

    Raises:
        DatabaseError: it names something else.
    """
    if not is_of(file.name, file.holds, uuid, application):
        raise DatabaseError(
            f"trial {uuid} is damaged: the store's manifest names '{file.name}', which is no file "
            "of this trial; push it again from where it was measured"
        )
    return file


def in_a_path(name: str) -> str:
    """A name as one component of a path: a long one is shortened and made unique by a hash."""
    quoted = quote(name, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    beginning = quoted[: _LONGEST_NAME - 17].rpartition("%")[0] or quoted[: _LONGEST_NAME - 17]
    return f"{beginning}-{blake2b(name.encode(), digest_size=8).hexdigest()}"


class Verified:
    """Files of a store whose content this user has compared with the manifest.

    Args:
        store: the store's id; "" to remember nothing.
    """

    def __init__(self, store: str) -> None:
        self._path = _cache_path(store)
        self._known = self._read()
        self._is_changed = False

    def has(self, file: StoredFile, stamp: Stamp) -> bool:
        return self._known.get(file.name) == [*stamp, file.sha256]

    def add(self, file: StoredFile, stamp: Stamp) -> None:
        self._known[file.name] = [*stamp, file.sha256]
        self._is_changed = True

    def save(self) -> None:
        """Keep the results for later commands, if there is a folder for them."""
        if not (self._is_changed and self._path):
            return
        draft = f"{self._path}.{os.getpid()}"
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as out:
                json.dump({**self._read(), **self._known}, out)
            os.replace(draft, self._path)
        self._is_changed = False

    def _read(self) -> dict[str, list[object]]:
        if not self._path:
            return {}
        with suppress(OSError, ValueError, RecursionError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(self._path, flags), encoding="utf-8") as file:
                cached = json.loads(file.read(_LARGEST_CACHE))
            if isinstance(cached, dict):
                return cached
        return {}


def cache_folder(*, make: bool = True) -> str:
    """The user's folder for what can be computed again; "" if there is none, or others can change
    it.

    Args:
        make: make it if it is missing.
    """
    base = os.environ.get("XDG_CACHE_HOME") or ""
    home = os.environ.get("HOME") or ""
    if not os.path.isabs(base):
        base = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    if not base:
        return ""
    folder = os.path.join(base, "taupy")
    try:
        if make:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        return "" if others(folder) else folder
    except OSError:
        return ""


def _cache_path(store: str) -> str:
    folder = cache_folder() if re.fullmatch(r"[0-9a-f-]{36}", store) else ""
    return os.path.join(folder, f"store-{store}.json") if folder else ""
