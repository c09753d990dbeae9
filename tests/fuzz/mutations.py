"""Files damaged at random, but the same way for the same seed."""

from __future__ import annotations

from random import Random

_WORDS = [
    b"", b"\0", b"\xff" * 8, b"-1", b"9" * 30, b"NaN", b"1e309", b'"', b"\\", b"{", b"[", b"]}",
    b"\n", b",", b"\x80" * 9 + b"\x01", b"\xff\xff\xff\x7f", b"null", b"../../etc",
    b"\x1b[31m", b"%s%n",
]  # fmt: skip


def mutated(data: bytes, random: Random) -> bytes:
    """The data after one to six small disasters."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = _one(data, random)
    return data


def _one(data: bytes, random: Random) -> bytes:
    size = len(data)
    at = random.randrange(size + 1)
    end = min(size, at + random.choice((1, 2, 4, 8, 64, 512, 4096)))
    kind = random.randrange(9)
    if kind == 0:  # cut off
        return data[:at]
    if kind == 1:  # a piece is missing
        return data[:at] + data[end:]
    if kind == 2:  # a piece comes twice
        return data[:end] + data[at:end] + data[end:]
    if kind == 3:  # a piece is somewhere else
        to = random.randrange(size + 1)
        return data[:to] + data[at:end] + data[to:]
    if kind == 4:  # a bit is wrong
        changed = bytearray(data)
        if at < size:
            changed[at] ^= 1 << random.randrange(8)
        return bytes(changed)
    if kind == 5:  # noise
        noise = random.randbytes(end - at)
        return data[:at] + noise + data[end:]
    if kind == 6:  # a word that hurts
        return data[:at] + random.choice(_WORDS) + data[at:]
    if kind == 7:  # a word that hurts in place of others
        return data[:at] + random.choice(_WORDS) + data[end:]
    return _number(data, random)


def _number(data: bytes, random: Random) -> bytes:
    """One of the numbers in a text becomes another."""
    import re

    found = list(re.finditer(rb"\d+", data[:200_000]))
    if not found:
        return data
    one = random.choice(found)
    other = random.choice((b"0", b"-1", b"18446744073709551616", b"9" * 400, b"1.5", b"", b"1e400"))
    return data[: one.start()] + other + data[one.end() :]
