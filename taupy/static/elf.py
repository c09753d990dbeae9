"""The outside of a file with GPU code: what kind it is, and which kernels a cubin's table names.

Only headers, sections and symbols are read here; instructions are the disassembler's business.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from taupy.errors import FormatError
from taupy.model.kernel_code import LaunchLimits

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
_OF_SIZE = 4  # the form of an attribute whose value follows, of as many bytes as it says
_MOST_THREADS, _BLOCK = 0x05, 0x10
_EXTENT = struct.Struct("<III")


class Function(NamedTuple):
    """A symbol of a cubin that is code.

    Attributes:
        number: in the table of symbols. `offset`: in its section.
        kernel: it can be launched.
        code_bytes: of its section, which is what the disassembler prints for it.
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
    chip: "9.0".
    launches: name of a kernel -> what the code settles of its launches.
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
    """What a file is, by its first bytes; None for anything else.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
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
    """The table of a cubin.

    Raises:
        FormatError: it is damaged or ends early.
    """
    data = path.read_bytes()
    try:
        return _read(path, data)
    except (struct.error, IndexError, ValueError):
        problem = f"{path} is damaged or truncated: its table of sections is broken"
        raise FormatError(problem) from None


def _read(path: Path, data: bytes) -> Cubin:
    header = _HEADER.unpack_from(data)
    offset, flags, size, count, names_at = header[6], header[7], *header[11:14]
    if size != _SECTION.size or not count:
        raise ValueError
    segments_at, segment_size, segments = header[5], *header[9:11]
    if segments_at + segment_size * segments > len(data):
        raise ValueError
    sections = [_SECTION.unpack_from(data, offset + at * size) for at in range(count)]
    for section in sections:
        if section[1] != _NOBITS and section[4] + section[5] > len(data):
            raise ValueError
    names = [_string(data, sections[names_at], section[0]) for section in sections]
    functions = _functions(data, sections, names)
    lines = any(name.startswith(".debug_line") for name in names)
    return Cubin(
        path, _chip(data[8], flags), tuple(functions), lines, _launches(data, sections, names)
    )


def _chip(version: int, flags: int) -> str:
    """The compute capability, which has moved within the flags: 90 is "9.0"."""
    number = flags & 0xFF if version < 8 else flags >> 8 & 0xFF
    return f"{number // 10}.{number % 10}"


def _functions(
    data: bytes, sections: list[tuple[int, ...]], names: list[str]
) -> list[Function]:  # fmt: skip
    table = next((section for section in sections if section[1] == _SYMTAB), None)
    if table is None:
        raise FormatError("its names were stripped")
    functions = []
    for index in range(table[5] // _SYMBOL.size):
        name, info, other, at, value, _ = _SYMBOL.unpack_from(data, table[4] + index * _SYMBOL.size)
        if info & 0xF == _FUNCTION and 0 < at < len(sections):
            text = _string(data, sections[table[6]], name)
            functions.append(
                Function(index, text, names[at], value, bool(other & _ENTRY), sections[at][5])
            )
    return functions


def _launches(
    data: bytes, sections: list[tuple[int, ...]], names: list[str]
) -> dict[str, LaunchLimits]:
    return {
        name.removeprefix(_INFO): _limits(dict(_extents(data, section[4], section[5])))
        for name, section in zip(names, sections, strict=True)
        if name.startswith(_INFO)
    }


def _limits(extents: Mapping[int, int]) -> LaunchLimits:
    return LaunchLimits(extents.get(_BLOCK), extents.get(_MOST_THREADS))


def _extents(data: bytes, at: int, size: int) -> Iterator[tuple[int, int]]:
    """The attributes of a kernel that are sizes of a block, in threads."""
    end = at + size
    while at < end:
        form, attribute, value = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form == _OF_SIZE:
            if attribute in (_MOST_THREADS, _BLOCK):
                yield attribute, math.prod(_EXTENT.unpack_from(data, at))
            at += value


def _string(data: bytes, table: tuple[int, ...], at: int) -> str:
    start = table[4] + at
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")
