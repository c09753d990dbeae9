"""Rescue files: a run in one archive, saved if it could not be written to the database.

An archive may come from anywhere. Its unpacked size is limited in proportion to its size on disk,
and only files with taupy's names are unpacked.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from taupy.errors import FormatError
from taupy.state.folder import File, Folder, open_any
from taupy.state.limits import DENSE_BYTES, EXPANSION, PART_BYTES

SUFFIX = ".taupy-run"
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")
_PIECE = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    ArithmeticError, LookupError, struct.error, MemoryError,
)  # fmt: skip

Chosen = Callable[[str], bool]
"""Whether a file of this name belongs to a run."""

Member = bytes | Callable[[], File | bytes]
"""What a file of a run contains, or a function that returns it, or the file that has it."""


def pack(target: str | os.PathLike[str], members: Mapping[str, Member]) -> None:
    """Write a run into a new file, which only this user may read.

    Args:
        members: by name; one at a time is in memory.

    Raises:
        OSError: it cannot be written, or exists already; no partial file remains.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(target, flags, 0o600)
    try:
        with (
            open(descriptor, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            for name, member in members.items():
                content = member if isinstance(member, bytes) else member()
                if isinstance(content, bytes):
                    archive.writestr(name, content)
                else:
                    _add(archive, name, content)
    except BaseException:
        os.unlink(target)
        raise


def _add(archive: zipfile.ZipFile, name: str, file: File) -> None:
    with file.open() as source, archive.open(name, "w", force_zip64=True) as target:
        while piece := source.read(_PIECE):
            target.write(piece)


def is_rescue(path: Path) -> bool:
    """Whether it is an archive with a run in it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "run" in archive.namelist()
    except (OSError, *_DAMAGE):
        return False


def unpack(path: Path, folder: Folder, is_chosen: Chosen) -> None:
    """Copy the files of a run from an archive or a copied run folder to `folder`.

    Raises:
        FormatError: it is no archive of a run, is damaged, or too large when unpacked.
        OSError: it cannot be read, or the disk is full.
    """
    if path.is_dir():
        _copy(path, folder, is_chosen)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            _extract(path, archive, folder, is_chosen)
    except _DAMAGE as problem:
        raise FormatError(
            f"{path} is not a run saved by taupy, or is damaged ({problem})"
        ) from None


def _extract(path: Path, archive: zipfile.ZipFile, folder: Folder, is_chosen: Chosen) -> None:
    members = [
        member
        for member in archive.infolist()
        if _NAME.fullmatch(member.filename) and is_chosen(member.filename)
    ]
    names = {member.filename for member in members}
    if "run" not in names or len(names) < len(members):
        raise FormatError(f"{path} is not a run saved by taupy")
    room = max(DENSE_BYTES, EXPANSION * path.stat().st_size)
    if sum(member.file_size for member in members) > room:
        raise FormatError(f"{path} is not unpacked: it would take more than {room} bytes")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"{path} is packed in a way that taupy does not use")
        if member.file_size > PART_BYTES:
            raise FormatError(f"{path}: {member.filename} has {member.file_size} bytes")
        with archive.open(member) as source:
            _write(source.read, folder, member.filename)


def _copy(path: Path, folder: Folder, is_chosen: Chosen) -> None:
    with open_any(os.fspath(path)) as source:
        for name in source.names():
            if _NAME.fullmatch(name) and is_chosen(name):
                with (source / name).open() as file:
                    _write(file.read, folder, name)


def _write(read: Callable[[int], bytes], folder: Folder, name: str) -> None:
    with open((folder / name).create(), "wb") as target:
        while piece := read(_PIECE):
            target.write(piece)
