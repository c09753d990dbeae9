"""How far reading or writing a foreign file has got: reported by formats, shown by commands."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

from taupy.state.folder import open_named


class Progress(Protocol):
    """Takes a reader's or writer's reports. Both calls are cheap."""

    def begin(self, what: str, total: int | None = None) -> None:
        """A stretch of work begins, of `total` bytes or rows; None if not known."""

    def advance(self, amount: int = 1) -> None:
        """Another `amount` of it is done."""


class Silent:
    """Progress that is not shown."""

    def begin(self, what: str, total: int | None = None) -> None: ...

    def advance(self, amount: int = 1) -> None: ...


SILENT = Silent()


class CountedFile:
    """A binary file that reports its reads to a progress; what parsers and gzip read from.

    A context manager; `read(n)` and `readline(n)` are those of a plain file.

    Args:
        one_of_many: the progress has begun already, with all files' bytes.
    """

    def __init__(self, path: Path, progress: Progress, *, one_of_many: bool = False) -> None:
        self._file: BinaryIO = open_named(path)
        self._advance = progress.advance
        if not one_of_many:
            progress.begin(path.name, path.stat().st_size)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._advance(len(data))
        return data

    def readline(self, size: int = -1) -> bytes:
        data = self._file.readline(size)
        self._advance(len(data))
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
