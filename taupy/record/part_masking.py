"""Copy files of parts without secrets, for a copy that leaves the run folder.

Addresses in a part depend on the places of its blocks, so that blocks keep their places and sizes.
Only complete blocks are copied, which are all that is ever read.
"""

from __future__ import annotations

import struct

from taupy.errors import FormatError
from taupy.model.masking import Masking
from taupy.record import part_files
from taupy.record.children import without_command
from taupy.record.part_blocks import LAYOUT, METADATA
from taupy.state import container
from taupy.state.folder import File

_SIZES = struct.Struct("<QQ")
_BLOCK_BYTES = 64
_DAMAGED = b"damaged"


def masked_copy(name: str, file: File, masking: Masking) -> File | bytes:
    """What to copy of a file with this name in a run folder: parts without secrets.

    Of a damaged part, nothing is copied but that it is damaged.
    """
    if masking.keeps:
        return file
    if name.startswith(part_files.FOLDED):
        return _folded(file, masking)
    if name.endswith((".part", part_files.SNAPSHOT_SUFFIX)):
        return _part(name, file.read_bytes(), masking)
    return file


def _folded(file: File, masking: Masking) -> bytes:
    data = bytearray(file.read_bytes())
    end = container.HEADER_BYTES
    try:
        for part in part_files.folded_parts(file):
            end = part.at + part.size
            data[part.at : end] = _part(part.name, bytes(data[part.at : end]), masking)
    except FormatError:
        return bytes(data[:end])
    return bytes(data)


def _part(name: str, data: bytes, masking: Masking) -> bytes:
    try:
        part = container.read(name, data, LAYOUT)
        if part is None:
            return data
        copy = bytearray(len(data))
        copy[: part.header.header_size] = data[: part.header.header_size]
        for kind, _, start, end, _ in part.blocks:
            copy[start - _BLOCK_BYTES : end] = data[start - _BLOCK_BYTES : end]
            if kind == METADATA:
                copy[start:end] = _metadata(part, start, end, masking)
    except FormatError:
        return _DAMAGED.ljust(len(data), b"\0")
    return bytes(copy)


def _metadata(part: container.Container, start: int, end: int, masking: Masking) -> bytes:
    """A block's name and value without secrets; a mask for which it has no room is cut off."""
    size, *_ = sizes = _SIZES.unpack_from(part.data, start)
    if not size:
        return bytes(end - start)  # its process was killed while it wrote it
    name, value = part.texts(start + _SIZES.size, end, *sizes)
    masked = masking.facts({name: without_command(name, value)})[name]
    if masked == value:
        return part.data[start:end]
    room = end - start - _SIZES.size - size - 2
    text = masked.encode()
    if len(text) > room:
        text = masking.masked(value).encode()[:room]
    named = part.data[start + _SIZES.size : start + _SIZES.size + size + 1]
    return (_SIZES.pack(size, len(text)) + named + text).ljust(end - start, b"\0")
