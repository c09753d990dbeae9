"""The wire format of protocol buffers: read fields from bytes, write fields to bytes.

Three of our formats are protocol buffers, and we need only a few fields of each. The module of
each format knows what its fields mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_MASK64: Final = (1 << 64) - 1

Field = tuple[int, int, int | bytes]
"""Number, wire type, value: a number for VARINT, else the bytes."""


class WireError(ValueError):
    """The bytes are not a valid protocol buffer; `at` is the offset of the invalid part."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and the offset after it.

    Raises:
        WireError: it does not end, or has more than 64 bits.
    """
    value = shift = 0
    begin = at
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                raise WireError(begin, "a number of more than 64 bits")
    except IndexError:
        raise WireError(begin, "truncated in a number") from None
    return value & _MASK64, at


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in order.

    Raises:
        WireError: the bytes are not a message.
    """
    at, end = 0, len(data)
    while at < end:
        begin = at
        key = data[at]
        if key < 128:
            at += 1
        else:
            key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError(begin, "field number 0")
        value: int | bytes
        if wire == VARINT:
            value, at = varint(data, at)
        elif wire == BYTES:
            size, at = varint(data, at)
            if size > end - at:
                raise WireError(begin, f"a length of {size} bytes, but only {end - at} are left")
            value = data[at : at + size]
            at += size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            if size > end - at:
                raise WireError(begin, "truncated in a fixed-size number")
            value = data[at : at + size]
            at += size
        else:
            raise WireError(begin, f"wire type {wire}")
        yield number, wire, value


def signed(value: int) -> int:
    """The signed value of an int64, which is stored as its two's complement."""
    return value - (1 << 64) if value >> 63 else value


def numbers(wire: int, value: int | bytes) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    numbers = []
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        numbers.append(number)
    return numbers


def put_varint(value: int) -> bytes:
    """A number in seven-bit groups, the lowest first; negative numbers take 64 bits."""
    value &= _MASK64
    if value < 128:
        return bytes((value,))
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def put_number(number: int, value: int) -> bytes:
    """A field with a number."""
    return put_varint(number << 3) + put_varint(value)


def put_bytes(number: int, value: bytes) -> bytes:
    """A field with bytes, their length first."""
    return put_varint(number << 3 | BYTES) + put_varint(len(value)) + value


def put_text(number: int, value: str) -> bytes:
    """A field with text, in UTF-8."""
    return put_bytes(number, value.encode("utf-8", "backslashreplace"))


def put_packed(number: int, values: Iterable[int]) -> bytes:
    """A field with many numbers."""
    return put_bytes(number, b"".join(map(put_varint, values)))
