"""Read the subset of Python's marshal format that cProfile's files use, from untrusted files.

`marshal.loads` is not safe for untrusted files: damaged ones can crash the interpreter or exhaust
memory. Here sizes are checked against the remaining bytes, and only types that occur in profiles
are supported. `python -m profile` identifies the executed program by its code object, of which only
the name is used, in the layout of any version of Python. Python 2 wrote names as bytes, and
repeated ones as references.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from taupy.formats import limits

_REFERENCE = 0x80
_INT, _DOUBLE, _SHORT = Struct("<i"), Struct("<d"), Struct("<H")
_LONG_INT = Struct("<q")


class _End:
    """Marks the end of a dictionary."""


_END = _End()


class Damaged(Exception):
    """The data are invalid.

    Attributes:
        place: position in bytes.
    """

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place


class Reader:
    """Reads one value, made of numbers, text, tuples, lists and dictionaries."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._references: list[Any] = []
        self._interned: list[str] = []

    def value(self) -> Any:
        """The value.

        Raises:
            Damaged: the data are truncated, or contain something else.
        """
        value = self._value(0)
        if value is _END:
            raise Damaged(self._at - 1, "contains no value")
        return value

    def _value(self, depth: int) -> Any:
        if depth > limits.MARSHAL_DEPTH:
            raise Damaged(self._at, f"nested more than {limits.MARSHAL_DEPTH} deep")
        start = self._at
        code = self._take(1)[0]
        kind = chr(code & ~_REFERENCE)
        if kind == "r":
            return self._reference(start)
        slot = -1
        if code & _REFERENCE:
            slot = len(self._references)
            self._references.append(None)
        value = self._of_kind(kind, depth, start)
        if slot >= 0:
            self._references[slot] = value
        return value

    def _of_kind(self, kind: str, depth: int, start: int) -> Any:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "i":
            return self._unpacked(_INT)
        if kind == "g":
            return self._unpacked(_DOUBLE)
        if kind == "f":
            return self._real(self._take(self._take(1)[0]), start)
        if kind == "l":
            return self._long(start)
        if kind in "zZ":
            return self._take(self._take(1)[0]).decode("latin-1")
        if kind in "aA":
            return self._take(self._size(start)).decode("latin-1")
        if kind in "ut":
            text = self._take(self._size(start)).decode("utf-8", "backslashreplace")
            if kind == "t":
                self._interned.append(text)
            return text
        if kind == "R":
            return self._referred(self._interned, start)
        if kind == "I":
            return self._unpacked(_LONG_INT)
        if kind == ")":
            return tuple([self._item(depth) for _ in range(self._take(1)[0])])
        if kind in "([":
            items = [self._item(depth) for _ in range(self._size(start))]
            return tuple(items) if kind == "(" else items
        if kind == "{":
            return self._dictionary(depth, start)
        if kind == "s":
            return self._take(self._size(start))
        if kind == "y":
            return complex(self._unpacked(_DOUBLE), self._unpacked(_DOUBLE))
        if kind in "<>":
            return tuple([self._item(depth) for _ in range(self._size(start))])
        if kind == ":":
            return tuple([self._item(depth) for _ in range(3)])
        if kind == "c":
            return self._code(depth)
        raise Damaged(start, f"a value of type {kind!r}, which does not occur in profiles")

    def _item(self, depth: int) -> Any:
        value = self._value(depth + 1)
        if value is _END:
            raise Damaged(self._at - 1, "a value is missing")
        return value

    def _dictionary(self, depth: int, start: int) -> dict[Any, Any]:
        dictionary: dict[Any, Any] = {}
        while (key := self._value(depth + 1)) is not _END:
            try:
                dictionary[key] = self._item(depth)
            except TypeError:
                raise Damaged(start, "an invalid key") from None
        return dictionary

    def _code(self, depth: int) -> str:
        """A code object, of which only name and line are used.

        It begins with numbers, code, constants and names, followed by the names and kinds (bytes)
        of variables in 3.11 and later, by three tuples of names in earlier versions, and then by
        file, name (two from 3.11 on), line and tables. There are four numbers in Python 2, six in
        3.8 to 3.10, otherwise five.
        """
        numbers = next((n for n in (4, 5, 6) if self._is_bytes_after(n * _INT.size)), 5)
        self._take(numbers * _INT.size)
        before = [self._item(depth) for _ in range(5)]
        if isinstance(before[4], bytes):
            _, name, _ = [self._item(depth) for _ in range(3)]
            tables = 2
        else:
            *_, name = [self._item(depth) for _ in range(3)]
            tables = 1
        line = self._unpacked(_INT)
        for _ in range(tables):
            self._item(depth)
        return f"<code object {name}, line {line}>"

    def _is_bytes_after(self, distance: int) -> bool:
        """Whether bytes, such as a code object's code, or a reference to bytes are that far
        ahead."""
        at = self._at + distance
        head = self._data[at : at + 1 + _INT.size]
        if len(head) < 1 + _INT.size:
            return False
        number = int(_INT.unpack(head[1:])[0])
        if head[:1] == b"r":
            references = self._references
            return 0 <= number < len(references) and isinstance(references[number], bytes)
        return chr(head[0] & ~_REFERENCE) == "s" and 0 <= number <= len(self._data) - at

    def _reference(self, start: int) -> Any:
        return self._referred(self._references, start)

    def _referred(self, values: list[Any], start: int) -> Any:
        number = self._unpacked(_INT)
        if not 0 <= number < len(values):
            raise Damaged(start, f"a reference to value {number}")
        return values[number]

    def _long(self, start: int) -> int:
        digits = self._unpacked(_INT)
        if abs(digits) > 1000:
            raise Damaged(start, "a number of more than 15,000 bits")
        number = 0
        for place in range(abs(digits)):
            number |= int(self._unpacked(_SHORT)) << 15 * place
        return -number if digits < 0 else number

    def _real(self, text: bytes, start: int) -> float:
        try:
            return float(text)
        except ValueError:
            raise Damaged(start, "an invalid number") from None

    def _size(self, start: int) -> int:
        size = int(self._unpacked(_INT))
        if not 0 <= size <= len(self._data) - self._at:
            raise Damaged(start, f"a size of {size}, with {len(self._data) - self._at} bytes left")
        return size

    def _unpacked(self, layout: Struct) -> Any:
        return layout.unpack(self._take(layout.size))[0]

    def _take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise Damaged(len(self._data), "the file ends in the middle of a value")
        self._at += size
        return data


_CONSTANTS: dict[str, Any] = {"N": None, "T": True, "F": False, ".": ..., "0": _END}
