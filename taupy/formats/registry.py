"""The formats: which exist, which one a file is in, and what reads and writes it.

A format is a module of this room with a `FORMAT`, or with `FORMATS` if it has variants (one for
each table, for instance), listed in `_MODULES`. Modules import nothing heavy until they read or
write. To add one:

    FORMAT = Format(
        name="collapsed",                      # of --format
        title="collapsed stacks (flame graphs)",
        suffixes=(".collapsed", ".folded"),
        recognises=lambda path, first_bytes: ...,
        read=read,                             # (source, progress) -> Iterator[Profile]
        write=write,                           # (profile, target, progress) -> what is lost
        holds=frozenset(("routines", ...)),    # what of a trial it writes
    )

A file is recognised by its content. `recognises` gets the first 64 KiB, uncompressed if the file
is gzip, and b"" for a folder; it may read more of the file, returns False when in doubt, and raises
nothing.
"""

from __future__ import annotations

import gzip
import importlib
import shlex
import stat
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from taupy.errors import FormatError, UsageError
from taupy.formats.capabilities import EVERYTHING, Part, left_out
from taupy.formats.reading import UTF16_MARKS, gzip_fault
from taupy.model.profile import Profile
from taupy.model.progress import Progress

FIRST_BYTES = 65_536
"""How much of a file is read to recognise it."""

IMPORT_NOTES = "taupy.health.import"
"""Metadata of a profile: what its reader left out or made up, one line each."""

# In the order in which files are tested: reliable tests before heuristics.
_MODULES = (
    "tau.profiles",
    "tau.snapshot",
    "tau.packed",
    "tau.sqlite",
    "rank_folder",
    "nsight.nsys",
    "nsight.ncu_rep",
    "nsight.ncu_csv",
    "nsight.nvprof",
    "nsight.nsys_stats",
    "chrome.trace",
    "perfetto",
    "pprof_proto",
    "pstats_",
    "speedscope",
    "hatchet",
    "proton",
    "csv_",
    "parquet",
    "austin",
    "collapsed",
)

# Files that users often try and no module reads: how they begin, and what to do.
_OF_OTHERS = (
    (
        b'{"taupy_profile":',
        "a trial as JSON, which older versions of taupy read; a database holds the whole trial, "
        "too: taupy merge FILE --into one.db --trial TRIAL",
    ),
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, not the file itself; fetch the file with: git lfs pull",
    ),
    (
        b"PERFILE2",
        "a recording of perf; make it readable with: perf script -i {name} | stackcollapse-perf.pl",
    ),
)


_IN_DATABASE = "a database holds the whole trial: taupy merge FILE --into one.db --trial TRIAL"
_NOT_WRITTEN = {
    "json": _IN_DATABASE,
    "tau-packed": "--format tau writes a folder that ParaProf opens and can pack",
}
"""What older versions wrote, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One file format.

    Attributes:
        name: the value of --format; lower case, no blanks.
        title: a short description, for lists.
        suffixes: of files in this format, the usual one first; may be empty.
        recognises: whether the file at `path` with these first bytes is in this format.
        read: the profiles of a file. Several with one `uuid` are parts of one trial (one
            for each node, for instance). It streams, and raises FormatError (`reading.refusal`)
            with file, place and reason for invalid content. A reader states in the metadata
            IMPORT_NOTES what it left out or made up. The command fills in `source` and real
            uuids: a reader sets the uuid "" for a single trial, "1", "2" ... for several.
            None: this format cannot be read.
        write: writes one profile to `target`, which does not exist yet, and returns what is lost
            of the parts in `holds`, one line each. None: this format cannot be written.
            (`exported` writes, and reports all that is lost.)
        holds: the parts of a trial that `write` writes.
        folder: `write` creates a folder, not a file.
        folds: files hold call paths for people to look at, and small call paths may be folded
            (`folding.py`).
        read_together: reads several files of one folder as one trial, for formats that
            write a file for each thread, rank or section.
        belong_together: whether two files are parts of one trial; None if all in a folder are.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    recognises: Callable[[Path, bytes], bool]
    read: Callable[[Path, Progress], Iterator[Profile]] | None = None
    write: Callable[[Profile, Path, Progress], list[str]] | None = None
    holds: frozenset[Part] = EVERYTHING
    folder: bool = False
    folds: bool = False
    read_together: Callable[[Sequence[Path], Progress], Iterator[Profile]] | None = None
    belong_together: Callable[[Path, Path], bool] | None = None


def formats() -> list[Format]:
    """All formats, in the order in which files are tested."""
    return [format for module in _MODULES for format in _formats(module)]


def readers() -> list[Format]:
    """Formats that can be imported."""
    return [format for format in formats() if format.read is not None]


def writers() -> list[Format]:
    """Formats that can be exported to."""
    return [format for format in formats() if format.write is not None]


def exported(profile: Profile, format: Format, target: Path, progress: Progress) -> list[str]:
    """Write a profile in a format that can be written; returns what is lost, one line each."""
    assert format.write is not None
    lost = format.write(profile, target, progress)
    for part, words in left_out(profile, format.holds):
        others = ", ".join(format.name for format in writers() if part in format.holds)
        instead = f"formats that hold them: {others}" if others else _IN_DATABASE
        lost.append(f"{words}; {instead}")
    return [f"not written: {line}" for line in lost]


def reader(name: str) -> Format:
    """The format of that name, if it can be read.

    Raises:
        UsageError: it cannot; the message lists the formats that can.
    """
    return _named(name, readers(), "read")


def writer(name: str) -> Format:
    """The format of that name, if it can be written.

    Raises:
        UsageError: it cannot; the message lists the formats that can.
    """
    return _named(name, writers(), "written")


def writer_for(target: Path) -> Format:
    """The format according to the suffix of the target's name, without .gz if necessary.

    Raises:
        UsageError: the suffix belongs to no format or to several; the message lists them.
    """
    name = target.name.lower()
    lengths = {
        writer.name: max(
            (len(suffix) for suffix in writer.suffixes if name.endswith(suffix)), default=0
        )
        for writer in writers()
    }
    longest = max(lengths.values(), default=0)
    if not longest and name.endswith(".gz"):
        return writer_for(target.with_suffix(""))
    matches = [writer for writer in writers() if longest and lengths[writer.name] == longest]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(writer.name for writer in matches or writers())
    raise UsageError(f"cannot tell the format from the name {target}: add --format {{{names}}}")


def recognised(path: Path) -> Format:
    """The format that the file or folder is in.

    Raises:
        FormatError: it does not exist, is neither a regular file nor a folder, or is in no format
            that can be read.
    """
    first = first_bytes(path)
    for beginning, words in _OF_OTHERS:
        if first.startswith(beginning):
            raise FormatError(f"{path}: {words.format(name=shlex.quote(path.name))}")
    for reader in readers():
        if reader.recognises(path, first):
            return reader
    if first[68:72] == b"TAUP" and first.startswith(b"SQLite format 3"):
        raise FormatError(f"{path}: this is a taupy database; copy its trials with `taupy merge`")
    if (cut := _cut_off(path)) is not None:
        raise FormatError(f"{path}: {cut}")
    names = ", ".join([*(reader.name for reader in readers()), "files *.taupy-run"])
    raise FormatError(f"{path}: unknown format; taupy reads {names}; choose one with --format NAME")


def _cut_off(path: Path) -> str | None:
    """Why too little of a gzip file can be uncompressed to recognise it; None if enough can."""
    if path.is_dir():
        return None
    with open(path, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return None
        file.seek(0)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                unpacked.read(FIRST_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            return gzip_fault(path, problem)
    return None


def first_bytes(path: Path) -> bytes:
    """The first 64 KiB, uncompressed if the file is gzip, UTF-16 text as UTF-8; b"" for a folder.

    Raises:
        FormatError: the file does not exist, is empty, cannot be read, or is a pipe, device or
            socket.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return b""
        if not stat.S_ISREG(mode):
            raise FormatError(f"{path}: neither a file nor a folder")
        with open(path, "rb") as file:
            data = file.read(FIRST_BYTES)
            if not data:
                raise FormatError(f"{path}: the file is empty")
            if not data.startswith(b"\x1f\x8b"):
                return _in_utf8(data)
            file.seek(0)
            return _in_utf8(_first_unpacked(file) or data)
    except FileNotFoundError:
        raise FormatError(f"{path} does not exist") from None
    except (OSError, ValueError) as problem:
        raise FormatError(f"{path} cannot be read: {_reason(problem)}") from None


def _in_utf8(data: bytes) -> bytes:
    """Data without a byte order mark, text in UTF-16 as UTF-8, like `reading.lines`."""
    if data[:2] not in UTF16_MARKS:
        return data.removeprefix(BOM_UTF8)
    return data.decode("utf-16", "ignore").encode("utf-8", "backslashreplace")[:FIRST_BYTES]


def _first_unpacked(file: BinaryIO) -> bytes:
    """The first 64 KiB of uncompressed data, or what precedes the end or the first error."""
    unpacked_bytes = b""
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            while len(unpacked_bytes) < FIRST_BYTES and (
                piece := unpacked.read1(FIRST_BYTES - len(unpacked_bytes))
            ):
                unpacked_bytes += piece
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    return unpacked_bytes


def _named(name: str, choice: list[Format], what: str) -> Format:
    for format in choice:
        if format.name == name:
            return format
    names = ", ".join(format.name for format in choice)
    instead = f" ({_NOT_WRITTEN[name]})" if name in _NOT_WRITTEN else ""
    raise UsageError(f"'{name}' is not a format that can be {what}{instead}; use one of {names}")


def _formats(module: str) -> tuple[Format, ...]:
    imported = importlib.import_module(f"taupy.formats.{module}")
    several: tuple[Format, ...] = getattr(imported, "FORMATS", ())
    return several or (imported.FORMAT,)


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)
