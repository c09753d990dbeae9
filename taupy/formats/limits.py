"""What is refused in foreign files, and how that is said.

Files come from anywhere: they may be cut off, lie about their counts, or be made to
exhaust memory. Readers read in pieces, and refuse what no profiler writes.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from taupy.errors import FormatError
from taupy.formats.progress import CountedFile, Progress

LONGEST_LINE = 16 << 20
"""Bytes; a longer line is in no text format that we read."""

LONGEST_NAME = 1 << 20
"""Characters of one name."""

_LONGEST_REASON = 400  # characters


def refusal(path: Path | str, place: str, reason: str) -> FormatError:
    """The one line that a file is refused with: file, place, reason.

    Args:
        place: "line 12", "byte 4096", "profiles[3].samples"; empty for the whole file.
        reason: may quote the file, whatever that holds.
    """
    what = f"{place}: {reason}" if place else reason
    if len(what) > _LONGEST_REASON:
        what = f"{what[:_LONGEST_REASON]} ..."
    return FormatError(f"{path}: {what}")


def lines(
    path: Path, progress: Progress, *, one_of_many: bool = False
) -> Generator[bytes, None, None]:
    """The lines of a text file, unpacked where it is gzip, without their line ends.

    Args:
        one_of_many: the progress has begun already, with all files' bytes.

    Raises:
        FormatError: a line is too long, or the packed data is damaged.
    """
    with CountedFile(path, progress, one_of_many=one_of_many) as file:
        source: Any = _unpacking(path, file)
        number = 0
        try:
            while line := source.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise refusal(path, f"line {number}", "longer than any line of a profile")
                yield line.rstrip(b"\r\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise refusal(path, f"after line {number}", gzip_fault(path, problem)) from None


def whole(path: Path, progress: Progress, most: int, what: str) -> bytes:
    """All bytes of a small file, unpacked where it is gzip.

    Raises:
        FormatError: there are more than `most`, or the packed data is damaged.
    """
    with CountedFile(path, progress) as file:
        source: Any = _unpacking(path, file)
        pieces: list[bytes] = []
        size = 0
        try:
            while piece := source.read(1 << 20):
                size += len(piece)
                if size > most:
                    raise refusal(path, f"byte {most}", f"too large for {what}")
                pieces.append(piece)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise refusal(path, "", gzip_fault(path, problem)) from None
    return b"".join(pieces)


def gzip_fault(path: Path, problem: Exception) -> str:
    """What is wrong with packed data: most often the file was cut off."""
    if isinstance(problem, EOFError):
        return f"the gzip data ends early, at byte {path.stat().st_size}: the file is cut off"
    return f"damaged gzip data ({problem})"


def _unpacking(path: Path, file: CountedFile) -> Any:
    with open(path, "rb") as other:
        packed = other.read(2) == b"\x1f\x8b"
    source: Any = file
    return gzip.GzipFile(fileobj=source) if packed else source
