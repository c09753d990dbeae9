"""How far slow work has got: reported where it is done, shown by commands (`commands/bar.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol

from taupy.state.folder import open_named


class Progress(Protocol):
    """Takes reports. Both calls are cheap."""

    def begin(self, what: str, total: int | None = None, unit: str = "") -> None:
        """A stretch of work begins.

        Args:
            total: how much there is to do; None if not known.
            unit: "B" for bytes, "trial" and the like for things; "" for rows of some kind.
        """

    def advance(self, amount: int = 1) -> None:
        """Another `amount` of it is done."""


class Silent:
    """Progress that is not shown."""

    def begin(self, what: str, total: int | None = None, unit: str = "") -> None: ...

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
            progress.begin(path.name, path.stat().st_size, "B")

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
