"""taupy's records on disk: settings, node numbers, samples, the plain engine's part.

marshal is not suitable for untrusted files: a damaged file can crash the interpreter or exhaust its
memory. Here every length is checked against the bytes available, and only plain values are created.
A record is MAGIC and one value; a value is a letter and its content:

    n t f                     None, True, False
    i DIGITS ;                an integer
    d DIGITS ;                a float, as `repr` writes it
    s LENGTH : BYTES          text in UTF-8 (lone surrogates, as in odd file names, are kept)
    b LENGTH : BYTES          bytes
    l COUNT : VALUE ...       a list
    u COUNT : VALUE ...       a tuple
    m COUNT : TEXT VALUE ...  a dictionary, whose keys are texts
    c LENGTH : INTEGERS       a list of integers, with commas in between
    x INTEGERS TEXT           a list of texts: their lengths in characters, then all in one

Runs inside the measured process, too: built-in modules only.
"""

# The program may replace built-in functions; these stay what they are.
from builtins import (  # noqa: UP029
    TypeError,
    ValueError,
    bool,
    bytes,
    dict,
    float,
    int,
    isinstance,
    len,
    list,
    map,
    max,
    min,
    range,
    repr,
    set,
    str,
    sum,
    tuple,
    type,
)

from taupy.state.limits import NESTING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"TAUPYVAL1\n"
_DIGITS_AT_MOST = 40
_INTEGERS, _TEXTS = {int}, {str}
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class Damaged(ValueError):
    """The bytes are not a record of taupy, or damaged; the message says where and why."""


def check_numbers(name: str, *numbers: int) -> None:
    """Raises Damaged if a number is none that taupy writes; `name`: of the file."""
    if not all(0 <= number < 1 << 62 for number in numbers):
        raise Damaged(f"{name} is damaged: impossible numbers")


def dumps(value: "Any") -> bytes:
    """The record of a value.

    Raises:
        TypeError: it contains something that a record cannot hold.
    """
    pieces = [MAGIC]
    _write(value, pieces)
    return b"".join(pieces)


def _write(value: "Any", pieces: list[bytes]) -> None:
    kind = type(value)
    if value is None or kind is bool:
        pieces.append(b"n" if value is None else b"t" if value else b"f")
    elif kind is int:
        pieces.append(b"i%d;" % value)
    elif kind is float:
        pieces.append(b"d" + repr(value).encode() + b";")
    elif kind is str:
        data = value.encode("utf-8", "surrogatepass")
        pieces.append(b"s%d:" % len(data))
        pieces.append(data)
    elif kind is bytes:
        pieces.append(b"b%d:" % len(value))
        pieces.append(value)
    elif kind is list or kind is tuple:
        _write_items(value, kind, pieces)
    elif kind is dict:
        pieces.append(b"m%d:" % len(value))
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"keys of a record are texts, not {type(key)}")
            _write(key, pieces)
            _write(item, pieces)
    else:
        raise TypeError(f"a record cannot hold {kind}")


def _write_items(items: "Any", kind: type, pieces: list[bytes]) -> None:
    """A list or tuple. Long lists are all integers or all texts, and are written in few calls."""
    kinds = set(map(type, items)) if kind is list else None
    if kinds == _INTEGERS:
        data = repr(items)[1:-1].encode()
        pieces.append(b"c%d:" % len(data))
        pieces.append(data)
    elif kinds == _TEXTS:
        pieces.append(b"x")
        _write(list(map(len, items)), pieces)
        _write("".join(items), pieces)
    else:
        pieces.append(b"%c%d:" % (b"l" if kind is list else b"u", len(items)))
        for item in items:
            _write(item, pieces)


def loads(data: bytes) -> "Any":
    """The value of a record.

    Raises:
        Damaged: the bytes are not a valid record.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise Damaged(f"it does not begin with {MAGIC[:-1].decode()}")
    try:
        value, end = _read(data, len(MAGIC), 0)
    except ValueError as problem:  # a UnicodeError is one, too
        if isinstance(problem, Damaged):
            raise
        raise Damaged(str(problem)) from None
    if end != len(data):
        raise Damaged(f"it continues after its end, at byte {end}")
    return value


def _read(data: bytes, at: int, depth: int) -> "tuple[Any, int]":
    """The value that begins at a byte, and where it ends."""
    kind = data[at : at + 1]
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at + 1
    if kind == b"i" or kind == b"d":
        digits, end = _until(data, at + 1, b";")
        return (_integer(digits) if kind == b"i" else float(digits)), end
    if depth >= NESTING:
        raise Damaged(f"more than {NESTING} nested values at byte {at}")
    if kind == b"x":
        return _read_texts(data, at + 1, depth)
    digits, begin = _until(data, at + 1, b":")
    size = int(digits)
    if not 0 <= size <= len(data) - begin:  # each item takes at least one byte
        raise Damaged(f"{size} do not fit at byte {at}")
    if kind == b"l" or kind == b"u":
        items = []
        for _ in range(size):
            item, begin = _read(data, begin, depth + 1)
            items.append(item)
        return items if kind == b"l" else tuple(items), begin
    if kind == b"m":
        return _read_dictionary(data, begin, depth, size)
    piece, end = data[begin : begin + size], begin + size
    if kind == b"s":
        return piece.decode("utf-8", "surrogatepass"), end
    if kind == b"b":
        return piece, end
    if kind == b"c":
        return _integers(piece), end
    raise Damaged(f"no value at byte {at}")


def _integer(digits: bytes) -> int:
    number = int(digits)
    if not _LEAST <= number <= _MOST:
        raise Damaged(f"an integer of more than 64 bits: {number}")
    return number


def _integers(piece: bytes) -> list[int]:
    numbers = list(map(int, piece.split(b",")))
    if min(numbers) < _LEAST or max(numbers) > _MOST:
        raise Damaged("an integer of more than 64 bits")
    return numbers


def _read_texts(data: bytes, at: int, depth: int) -> tuple[list[str], int]:
    lengths, at = _read(data, at, depth + 1)
    text, at = _read(data, at, depth + 1)
    if type(lengths) is not list or set(map(type, lengths)) != _INTEGERS or type(text) is not str:
        raise Damaged(f"no texts before byte {at}")
    if min(lengths) < 0 or sum(lengths) != len(text):
        raise Damaged(f"texts of wrong lengths before byte {at}")
    items, begin = [], 0
    for length in lengths:
        items.append(text[begin : begin + length])
        begin += length
    return items, at


def _read_dictionary(data: bytes, at: int, depth: int, size: int) -> "tuple[Any, int]":
    values: dict[str, Any] = {}
    for _ in range(size):
        key, at = _read(data, at, depth + 1)
        if type(key) is not str or key in values:
            raise Damaged(f"a key that is not a text, or comes twice, before byte {at}")
        values[key], at = _read(data, at, depth + 1)
    return values, at


def _until(data: bytes, at: int, mark: bytes) -> tuple[bytes, int]:
    """The digits before a mark, and the position after the mark."""
    end = data.find(mark, at, at + _DIGITS_AT_MOST)
    if end < 0:
        raise Damaged(f"no number at byte {at}")
    return data[at:end], end + 1


_CONSTANTS = {b"n": None, b"t": True, b"f": False}
