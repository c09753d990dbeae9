"""Locate the parts of a run: in separate files, folded into one, or beside the database.

Each process writes its own file into the run folder. A child that ends appends its part
to the file `folded` under a lock and removes its own file (`_native/part.c`). The process
that delivers the run first takes `folded` away, under the same lock, so that later parts go into a
new one. A part that did not fit into the run folder is beside the database: a *spilled* part.
"""

from __future__ import annotations

import fcntl
import os
import time
from _struct import Struct
from collections.abc import Iterator
from contextlib import suppress

from taupy.dataclass import dataclass
from taupy.errors import FormatError
from taupy.instrument.runfolder import RunSettings, spill_prefix
from taupy.pattern import pattern
from taupy.state import container
from taupy.state.container import ALIGN, Layout
from taupy.state.folder import File, Folder, open_any
from taupy.state.limits import PART_BYTES, PART_VERSION
from taupy.state.pauses import pauses

PART_SUFFIXES = (".part", ".pypart")
SNAPSHOT_SUFFIX = ".snapshot"
GPU_SUFFIX = ".gpu"
GPU_TRACE_SUFFIX = ".gputrace"
GPU_COPY_SUFFIX = ".gpucopy"
GPU_COUNT_SUFFIX = ".gpucount"
NCCL_SUFFIX = ".nccl"
FOLDED = "folded"
LAYOUT = Layout(b"TAUPYFLD", PART_VERSION, "file of folded parts", {})
_PART = 32  # the kind of its blocks
_ENTRY = Struct("<IIQ48x64s")  # a block's header, then the name of the part
_NAME = pattern(rb"\d{1,20}-[0-9a-f]{1,16}\.part")
_PIECE = 1 << 16
"""Of a file of folded parts, bytes that are read at once: a child's part has some thousands."""
_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part, wherever it is stored.

    Attributes:
        name: of the file into which it was written.
        file: the file it is in now, from byte `at` on, `size` bytes; the whole file if `size`
            is -1.
        held: its content, if that has been read already.
    """

    name: str
    file: File
    at: int = 0
    size: int = -1
    held: bytes | None = None

    @property
    def pid(self) -> int:
        """The id of the process that wrote it."""
        return pid_of(self.name)

    def read_bytes(self, *, first: int = -1) -> bytes:
        """The part, or its first bytes.

        Raises:
            OSError: it cannot be read, or is not trusted.
        """
        if self.held is not None:
            return self.held if first < 0 else self.held[:first]
        size = self.size if first < 0 or 0 <= self.size < first else first
        return self.file.read_bytes(PART_BYTES, size, self.at)

    def bytes(self) -> int:
        """The part's size in bytes; raises the same errors as `read_bytes`."""
        return self.file.size() if self.size < 0 else self.size


def pid_of(name: str) -> int:
    """The process id in a part's name; 0 if there is none."""
    text = name.split("-")[0]
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def take_folded(folder: Folder) -> bool:
    """Take away the file of folded parts, so that later parts go into a new one.

    Returns:
        False if another process holds its lock: its contents are not available now.
    """
    if not (folder / FOLDED).exists():
        return True
    descriptor = (folder / FOLDED).lock_descriptor()
    try:
        for _ in pauses(_WAIT_S, 0.005):
            with suppress(BlockingIOError):
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
        else:
            return False
        (folder / FOLDED).rename(f"{FOLDED}-{time.time_ns():x}")
        return True
    finally:
        os.close(descriptor)


def taken_files(folder: Folder) -> list[File]:
    """The files of folded parts that were taken away."""
    return [File(folder, name) for name in folder.names() if name.startswith(f"{FOLDED}-")]


def folded_parts(file: File) -> Iterator[PartFile]:
    """The parts in a file of folded parts.

    A file that is shorter than its header has none: a process was killed, or the file was taken
    away, after it was created and before anything was written into it.

    Raises:
        FormatError: it is damaged; the parts yielded before are intact.
        OSError: it cannot be read, or is not trusted.
    """
    first = file.read_bytes(first=container.HEADER_BYTES)
    if len(first) < container.HEADER_BYTES:
        return
    head = container.header(file.name, first, LAYOUT)
    at, end = head.header_size, min(head.used, file.size())
    piece, begin = b"", at
    while at + _ENTRY.size <= end:
        held = piece[at - begin :]
        if len(held) < _ENTRY.size or len(held) < _ENTRY.unpack_from(held)[2] <= _PIECE:
            held = piece = file.read_bytes(first=_PIECE, at=at)
            begin = at
        kind, _, size, text = _ENTRY.unpack_from(held)
        name = text.split(b"\0", 1)[0]
        if kind != _PART or size % ALIGN or not _ENTRY.size <= size <= end - at:
            break
        if not _NAME.fullmatch(name):
            break
        part = held[_ENTRY.size : size] if len(held) >= size else None
        yield PartFile(name.decode(), file, at + _ENTRY.size, size - _ENTRY.size, part)
        at += size
    if at != head.used:
        lost = head.used - at
        raise FormatError(f"{file.name} is damaged: {lost} bytes of folded parts are lost")


def parts_so_far(folder: Folder) -> Iterator[PartFile]:
    """All parts of a running program, each once, leaving its files in place.

    Raises:
        FormatError, OSError: as for `folded_parts`.
    """
    names = set()
    for file in [*taken_files(folder), folder / FOLDED]:
        if file.exists():
            for part in folded_parts(file):
                names.add(part.name)
                yield part
    yield from (part for part in part_files(folder) if part.name not in names)


def spilled(settings: RunSettings, *suffixes: str) -> dict[str, File]:
    """The files of this run beside its database, by their names in the run folder."""
    folder, _, prefix = spill_prefix(settings).rpartition("/")
    spills: dict[str, File] = {}
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        beside = open_any(folder or "/")
        beside.is_ours = True  # others may have put files there that are not this run's
        for file in beside.files(*suffixes):
            if file.name.startswith(prefix):
                spills[file.name[len(prefix) :]] = file
    return spills


def part_files(folder: Folder) -> list[PartFile]:
    """The parts in separate files."""
    return [PartFile(file.name, file) for file in folder.files(*PART_SUFFIXES)]


def names(folder: Folder) -> set[str]:
    """The names of parts in separate files, and of the file of folded ones."""
    return {name for name in folder.names() if name == FOLDED or name.endswith(PART_SUFFIXES)}


def has_content(file: File) -> bool:
    """Whether there is something to read; what may not be looked at is reported by its reader."""
    try:
        return file.size() > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True
