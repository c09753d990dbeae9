"""pprof profiles: the sum of each sample type."""

import gzip
from pathlib import Path

from tests.formats.perfetto import fields, varint

TIMES = {"nanoseconds": 1, "microseconds": 1000, "\u03bcs": 1000, "milliseconds": 10**6}


def count(path):
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    strings, types, sums = [], [], []
    for field, value in fields(data):
        if field == 6:
            strings.append(value.decode())
        elif field == 1:
            types.append(dict(fields(value)))
            sums.append(0)
    for field, value in fields(data):
        if field == 2:
            numbers = []
            for inner, packed in fields(value):
                if inner == 2:
                    numbers += [packed] if isinstance(packed, int) else varints(packed)
            sums = [total + signed(number) for total, number in zip(sums, numbers, strict=True)]
    names = [strings[kind.get(1, 0)] for kind in types]
    factors = [TIMES.get(strings[kind.get(2, 0)], 1) for kind in types]
    return {n: total * f for n, total, f in zip(names, sums, factors, strict=True) if total}


def varints(data):
    at, found = 0, []
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def signed(value):
    return value - (1 << 64) if value >> 63 else value
