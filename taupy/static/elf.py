"""The kind of a file with GPU code, and the functions in a cubin's symbol table.

Only headers, sections and symbols are read here; the disassembler reads instructions.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple

from taupy.errors import FormatError
from taupy.model.kernel_code import LaunchLimits
from taupy.state.folder import open_named

Kind = Literal["cubin", "fatbin", "library", "ptx"]

_CUDA_MACHINE = 190
_FATBIN = 0xBA55ED50
_ENTRY = 0x10  # STO_CUDA_ENTRY of a symbol's st_other
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS, _FUNCTION = 2, 8, 2
_INFO = ".nv.info."
_ATTRIBUTE = struct.Struct("<BBH")
_OF_SIZE = 4  # format of an attribute: its size in bytes, followed by the value
_MOST_THREADS, _BLOCK = 0x05, 0x10
_EXTENT = struct.Struct("<III")


class Function(NamedTuple):
    """A symbol of a cubin that is code.

    Attributes:
        number: its index in the symbol table.
        offset: position within its section.
        kernel: whether it can be launched.
        code_bytes: size of its section, all of which the disassembler prints for it.
    """

    number: int
    name: str
    section: str
    offset: int
    kernel: bool
    code_bytes: int


@dataclass(frozen=True)
class Cubin:
    """Attributes:
    chip: compute capability, such as "9.0".
    launches: name of a kernel -> the limits of launches that its code states.
    """

    path: Path
    chip: str
    functions: tuple[Function, ...]
    has_lines: bool
    launches: Mapping[str, LaunchLimits]

    @property
    def kernels(self) -> list[Function]:
        return [function for function in self.functions if function.kernel]

    @property
    def bodies(self) -> list[Function]:
        """Kernels, and functions with a section of their own."""
        return [
            function
            for function in self.functions
            if function.kernel or function.section == f".text.{function.name}"
        ]


def kind(path: Path) -> Kind | None:
    """The kind of a file, judged by its first bytes; None for any other kind.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with open_named(path) as stream:
            head = stream.read(4096)
    except OSError as problem:
        raise FormatError(f"{path} cannot be read: {problem.strerror}") from None
    if head.startswith(b"\x7fELF"):
        if len(head) < _HEADER.size:
            raise FormatError(f"{path} is damaged or truncated: it ends within its header")
        machine = struct.unpack_from("<H", head, 18)[0]
        return "cubin" if machine == _CUDA_MACHINE else "library"
    if len(head) >= 4 and struct.unpack_from("<I", head)[0] == _FATBIN:
        return "fatbin"
    if head.startswith(b"!<arch>\n"):
        return "library"
    return "ptx" if b".version" in head and b".target" in head else None


def read(path: Path) -> Cubin:
    """The tables of a cubin. The code, which is most of the file, is not read.

    Raises:
        FormatError: the file is damaged or truncated.
    """
    try:
        with open_named(path) as stream:
            return _read(path, stream)
    except (struct.error, IndexError, ValueError):
        problem = f"{path} is damaged or truncated: its table of sections is broken"
        raise FormatError(problem) from None


class _Section(NamedTuple):
    """A section's header; `data` reads the contents."""

    name: str
    kind: int
    link: int
    at: int
    size: int
    stream: IO[bytes]

    def data(self) -> bytes:
        return _at(self.stream, self.at, self.size)


def _at(stream: IO[bytes], at: int, size: int) -> bytes:
    if at + size > os.fstat(stream.fileno()).st_size:
        raise ValueError
    stream.seek(at)
    data = stream.read(size)
    if len(data) != size:
        raise ValueError
    return data


def _read(path: Path, stream: IO[bytes]) -> Cubin:
    length = stream.seek(0, 2)
    header = _HEADER.unpack(_at(stream, 0, _HEADER.size))
    segments_at, segment_size, segments = header[5], *header[9:11]
    offset, flags, size, count, names_at = header[6], header[7], *header[11:14]
    if size != _SECTION.size or not count or segments_at + segment_size * segments > length:
        raise ValueError
    headers = list(_SECTION.iter_unpack(_at(stream, offset, count * size)))
    if any(kind != _NOBITS and at + size > length for _, kind, _, _, at, size, *_ in headers):
        raise ValueError
    names = _at(stream, *headers[names_at][4:6])
    sections = [
        _Section(_string(names, name), kind, link, at, size, stream)
        for name, kind, _, _, at, size, link, *_ in headers
    ]
    functions = _functions(sections)
    lines = any(section.name.startswith(".debug_line") for section in sections)
    chip = _chip(header[0][8], flags)
    return Cubin(path, chip, tuple(functions), lines, _launches(sections))


def _chip(version: int, flags: int) -> str:
    """The compute capability, whose place in the flags has changed: 90 is "9.0"."""
    number = flags & 0xFF if version < 8 else flags >> 8 & 0xFF
    return f"{number // 10}.{number % 10}"


def _functions(sections: Sequence[_Section]) -> list[Function]:
    table = next((section for section in sections if section.kind == _SYMTAB), None)
    if table is None:
        raise FormatError("its names were stripped")
    names, symbols = sections[table.link].data(), table.data()
    functions = []
    for index in range(table.size // _SYMBOL.size):
        name, info, other, at, value, _ = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)
        if info & 0xF == _FUNCTION and 0 < at < len(sections):
            text, inside = _string(names, name), sections[at]
            functions.append(
                Function(index, text, inside.name, value, bool(other & _ENTRY), inside.size)
            )
    return functions


def _launches(sections: Sequence[_Section]) -> dict[str, LaunchLimits]:
    return {
        section.name.removeprefix(_INFO): _limits(dict(_extents(section.data())))
        for section in sections
        if section.name.startswith(_INFO)
    }


def _limits(extents: Mapping[int, int]) -> LaunchLimits:
    return LaunchLimits(extents.get(_BLOCK), extents.get(_MOST_THREADS))


def _extents(data: bytes) -> Iterator[tuple[int, int]]:
    """The kernel attributes that give block sizes, in threads."""
    at = 0
    while at < len(data):
        form, attribute, value = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form == _OF_SIZE:
            if attribute in (_MOST_THREADS, _BLOCK):
                yield attribute, math.prod(_EXTENT.unpack_from(data, at))
            at += value


def _string(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode("utf-8", "replace")
