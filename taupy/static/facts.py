"""Parse what NVIDIA's tools report on each function besides its instructions: resources, live
registers, source lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple


class Resources(NamedTuple):
    """Resources as reported by `cuobjdump -res-usage`; constants as (bank, bytes). Values that it
    reports as UNKNOWN, such as the stack of a recursive function, are None."""

    registers: int | None
    stack: int | None
    shared: int | None
    local: int | None
    constants: tuple[tuple[int, int], ...]


class Live(NamedTuple):
    """The peak of live general registers, and the offset of the instruction where it occurs."""

    registers: int
    offset: int


_FUNCTION = re.compile(r"\s*Function (.+):\s*\Z")
_USAGE = re.compile(r"REG:(\w+) STACK:(\w+) SHARED:(\w+) LOCAL:(\w+)")
_CONSTANT = re.compile(r"CONSTANT\[(\d+)\]:(\d+)")
_SECTION = re.compile(r"\.text\.(\S+?):")
_OFFSET = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")
_LIVE = re.compile(r"// \|\s+(\d*)\s+\|")
_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')


def resources(text: str) -> dict[str, Resources]:
    """Name of a function -> its resources; module-wide constants count for every function."""
    by_name: dict[str, Resources] = {}
    name = ""
    common: list[tuple[int, int]] = []
    for line in text.splitlines():
        banks = [(int(bank), int(size)) for bank, size in _CONSTANT.findall(line)]
        if match := _FUNCTION.match(line):
            name = match[1]
        elif name and (usage := _USAGE.search(line)):
            registers, stack, shared, local = map(_number, usage.groups())
            constants = tuple(sorted([*common, *banks]))
            by_name[name] = Resources(registers, stack, shared, local, constants)
            name = ""
        elif not name and banks:
            common = banks
    return by_name


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def live(stream: IO[bytes]) -> dict[str, Live]:
    """Name of a section's function -> its peak, from `nvdisasm -lrm count`."""
    by_name: dict[str, Live] = {}
    name = ""
    for line in _lines(stream):
        if match := _SECTION.match(line):
            name = match[1]
        elif name and (at := _OFFSET.match(line)) and (count := _LIVE.search(line)):
            number = int(count[1] or 0)
            if name not in by_name or number > by_name[name].registers:
                by_name[name] = Live(number, int(at[1], 16))
    return by_name


def source_lines(stream: IO[bytes]) -> dict[str, dict[int, str]]:
    """Name of a section's function -> offset -> "file:line", from `nvdisasm -g`."""
    by_name: dict[str, dict[int, str]] = {}
    name = place = ""
    for line in _lines(stream):
        if match := _SECTION.match(line):
            name, place = match[1], ""
        elif match := _LINE.match(line):
            place = f"{match[1]}:{match[2]}"
        elif name and place and (at := _OFFSET.match(line)):
            by_name.setdefault(name, {})[int(at[1], 16)] = place
    return by_name


def _lines(stream: IO[bytes]) -> Iterator[str]:
    raw: Iterable[bytes] = stream
    for line in raw:
        yield line.decode("utf-8", "replace")
