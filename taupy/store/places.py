"""Where a store's files are: a local folder, or a URL that fsspec opens.

Names come from the manifest and from listings, and others may write to the folder. A local file is
therefore opened component by component below the folder, never through a symbolic link, never
blocking on a pipe, and only if it is a regular file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Protocol, cast

from taupy.errors import DatabaseError, UsageError
from taupy.state.folder import kind

SCHEMES = ("file", "s3", "gs", "abfs")
"""Kinds of places: what else fsspec knows (http, ssh, archives) is no store."""

Stamp = tuple[object, ...]
"""The size of a file in bytes, and what changes when it is written."""

_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Place(Protocol):
    """The files below a store's folder, by names with slashes."""

    def make(self) -> None:
        """Create the folder."""

    def read(self, name: str) -> BinaryIO:
        """A file for reading."""

    def create(self, name: str) -> BinaryIO:
        """A new file for writing, with the folders above it."""

    def stamp(self, name: str) -> Stamp | None:
        """None if there is no such file."""

    def remove(self, name: str) -> None:
        """Delete a file, which must exist."""

    def sizes(self) -> Iterator[tuple[str, int]]:
        """All files, with their sizes in bytes."""

    def path_for_duckdb(self, name: str) -> str:
        """The path by which DuckDB opens a file, after `register`."""

    def register(self, connection: Any) -> None:
        """Let DuckDB open the files."""


def scheme_of(place: str) -> str:
    """The scheme of a URL, `file` for a path."""
    return place.partition("://")[0].lower() if "://" in place else "file"


def place_of(where: str) -> Place:
    """
    Raises:
        UsageError: it is neither a folder nor a URL that a store may use.
    """
    scheme = scheme_of(where)
    if scheme not in SCHEMES:
        raise UsageError(
            f"{where} cannot be opened: a store's files are in a folder, or at a URL that begins "
            f"with {', '.join(f'{name}://' for name in SCHEMES[1:])}"
        )
    if scheme == "file":
        return LocalPlace(where.removeprefix("file://"))
    return RemotePlace(where)


class LocalPlace:
    """A folder.

    Args:
        root: its path, which may itself lead through links: it is the owner's choice.
    """

    def __init__(self, root: str) -> None:
        self._root = root

    def make(self) -> None:
        os.makedirs(self._root, exist_ok=True)

    def read(self, name: str) -> BinaryIO:
        with self._above(name) as (folder, last):
            descriptor = os.open(last, os.O_RDONLY | _SAFELY, dir_fd=folder)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(f"is {kind(mode)}, not a file")
            return cast(BinaryIO, open(descriptor, "rb"))
        except BaseException:
            os.close(descriptor)
            raise

    def create(self, name: str) -> BinaryIO:
        with self._above(name, create=True) as (folder, last):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY
            return cast(BinaryIO, open(os.open(last, flags, 0o666, dir_fd=folder), "wb"))

    def stamp(self, name: str) -> Stamp | None:
        with suppress(FileNotFoundError), self._above(name) as (folder, last):
            facts = os.stat(last, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode):
                return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
        return None

    def remove(self, name: str) -> None:
        with self._above(name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def sizes(self) -> Iterator[tuple[str, int]]:
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = os.path.join(folder, name)
                with suppress(FileNotFoundError):
                    facts = os.lstat(path)
                    if stat.S_ISREG(facts.st_mode):
                        yield os.path.relpath(path, self._root), facts.st_size

    def path_for_duckdb(self, name: str) -> str:
        return f"{self._root}/{name}"

    def register(self, connection: Any) -> None:
        pass

    @contextmanager
    def _above(self, name: str, create: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds a file, and the file's name in it."""
        *above, last = _components(name)
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in above:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _SAFELY, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, last
        finally:
            os.close(folder)


class RemotePlace:
    """A URL."""

    def __init__(self, where: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise DatabaseError(
                f"a store at a URL needs fsspec ({error}); install it with: "
                "pip install 'taupy-profiler[store]'"
            ) from error
        try:
            self._system, self._root = fsspec.core.url_to_fs(where)
        except Exception as error:  # from the library for such URLs
            raise UsageError(f"{where} cannot be opened: {error}") from error

    def make(self) -> None:
        self._system.makedirs(self._root, exist_ok=True)

    def read(self, name: str) -> BinaryIO:
        return cast(BinaryIO, self._system.open(self._at(name), "rb"))

    def create(self, name: str) -> BinaryIO:
        self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
        return cast(BinaryIO, self._system.open(self._at(name), "wb"))

    def stamp(self, name: str) -> Stamp | None:
        with suppress(FileNotFoundError):
            facts = self._system.info(self._at(name))
            changed = (facts.get(what) for what in ("ETag", "etag", "LastModified", "mtime"))
            return int(facts["size"]), *map(str, changed)
        return None

    def remove(self, name: str) -> None:
        self._system.rm_file(self._at(name))

    def sizes(self) -> Iterator[tuple[str, int]]:
        for path, facts in self._system.find(self._root, detail=True).items():
            yield os.path.relpath(path, self._root), int(facts["size"])

    def path_for_duckdb(self, name: str) -> str:
        return str(self._system.unstrip_protocol(self._at(name)))

    def register(self, connection: Any) -> None:
        connection.register_filesystem(self._system)

    def _at(self, name: str) -> str:
        return f"{self._root}/{'/'.join(_components(name))}"


def _components(name: str) -> list[str]:
    """The parts of a name; none leads out of the folder."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise DatabaseError(f"'{name}' is not the name of a file in a store")
    return parts
