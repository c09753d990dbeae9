"""Which line of the source an instruction stands for (`co_linetable`, PEP 657 and PEP 626).

The interpreter's own decoder trusts its input; a table that was read from another process's memory
may be cut off or nonsense.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG, _NO_COLUMNS, _NONE = 14, 13, 15
_MOST = 1 << 31


class Position(NamedTuple):
    """A range of source text: lines from 1, columns in bytes of UTF-8 from 0; -1: unknown."""

    line: int
    end_line: int
    column: int = -1
    end_column: int = -1


def positions(table: bytes, first_line: int) -> list[Position | None]:
    """The position of each code unit of two bytes; None for those without. What follows after
    damage is missing."""
    decoded: list[Position | None] = []
    with suppress(IndexError):
        _decode(table, first_line, decoded)
    return decoded


def position_at(units: Sequence[Position | None], instruction: int) -> Position | None:
    """The position of an instruction, in bytes of code: of its unit, or of the last one before it
    that has one."""
    at = min(max(instruction, 0) // 2, len(units) - 1)
    while at >= 0 and units[at] is None:
        at -= 1
    return units[at] if at >= 0 else None


def _decode(table: bytes, line: int, decoded: list[Position | None]) -> None:
    at = 0
    while at < len(table):
        first = table[at]
        at += 1
        kind, count = first >> 3 & 15, (first & 7) + 1
        position = None
        if kind < 10:
            column = kind * 8 + (table[at] >> 4 & 7)
            position = Position(line, line, column, column + (table[at] & 15))
            at += 1
        elif kind < _NO_COLUMNS:
            line += kind - 10
            position = Position(line, line, table[at], table[at + 1])
            at += 2
        elif kind != _NONE:
            step, at = _signed(table, at)
            line += step
            position = Position(line, line)
            if kind == _LONG:
                more, at = _number(table, at)
                column, at = _number(table, at)
                end, at = _number(table, at)
                position = Position(line, line + more, column - 1, end - 1)
        if position is not None and not all(-1 <= number < _MOST for number in position):
            return
        decoded += [position] * count


def _number(table: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        if not byte & 64:
            return value, at
        shift += 6


def _signed(table: bytes, at: int) -> tuple[int, int]:
    value, at = _number(table, at)
    return (-(value >> 1) if value & 1 else value >> 1), at
