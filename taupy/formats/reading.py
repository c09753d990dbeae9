"""What is rejected in foreign files, and the message for it.

Files come from anywhere: they may be cut off, lie about their counts, or be made to
exhaust memory. Readers read in pieces, and refuse what no profiler writes.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from taupy.errors import FormatError
from taupy.formats import limits
from taupy.model.progress import CountedFile, Progress

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_LONGEST_REASON = 400  # characters


def refusal(path: Path | str, place: str, reason: str) -> FormatError:
    """The one line with which a file is refused: file, place, reason.

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
    """The lines of a text file in UTF-8, unpacked where it is gzip, without their line ends.

    UTF-16 with a byte order mark, as PowerShell writes what it redirects, becomes UTF-8; UTF-8
    loses its mark.

    Args:
        one_of_many: the progress has begun already, with all files' bytes.

    Raises:
        FormatError: a line is too long, or the packed data is damaged.
    """
    with CountedFile(path, progress, one_of_many=one_of_many) as file:
        source: Any = _unpacking(path, file)
        number = 0
        try:
            for line in _lines(source, path):
                number += 1
                if len(line) > limits.LONGEST_LINE:
                    raise refusal(path, f"line {number}", "longer than any line of a profile")
                yield line.rstrip(b"\r\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise refusal(path, f"after line {number}", gzip_fault(path, problem)) from None


def _lines(source: Any, path: Path) -> Iterator[bytes]:
    """Lines; one that is too long comes in part, and nothing after it."""
    if _beginning(path) not in UTF16_MARKS:
        first = source.readline(limits.LONGEST_LINE + 1)
        if first:
            yield first.removeprefix(codecs.BOM_UTF8)
        while line := source.readline(limits.LONGEST_LINE + 1):
            yield line
        return
    decoder = codecs.getincrementaldecoder("utf-16")("backslashreplace")
    rest = ""
    while len(rest) <= limits.LONGEST_LINE and (piece := source.read(1 << 20)):
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        for text in lines:
            yield text.encode("utf-8", "backslashreplace")
    if rest:
        yield rest.encode("utf-8", "backslashreplace")


def _beginning(path: Path) -> bytes:
    """The first two bytes, unpacked where the file is gzip."""
    with open(path, "rb") as file:
        start = file.read(2)
        if start != b"\x1f\x8b":
            return start
        file.seek(0)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                return unpacked.read(2)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return b""  # reading on reports the fault


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
        return f"the gzip data ends early, at byte {path.stat().st_size}: the file is truncated"
    return f"damaged gzip data ({problem})"


def _unpacking(path: Path, file: CountedFile) -> Any:
    with open(path, "rb") as other:
        packed = other.read(2) == b"\x1f\x8b"
    source: Any = file
    return gzip.GzipFile(fileobj=source) if packed else source
