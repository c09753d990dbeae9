"""ParaProf's packed profiles: calls and exclusive times of routines, without call paths."""

import gzip
import io
import struct
from pathlib import Path


def count(path):
    raw = Path(path).read_bytes()
    file = io.BytesIO(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)

    def number():
        return struct.unpack(">i", file.read(4))[0]

    def name():
        return file.read(struct.unpack(">H", file.read(2))[0])

    file.read(6)  # PPK
    number(), number()  # versions
    file.read(number())  # metadata
    metrics = [name() for _ in range(number())]
    groups = [name() for _ in range(number())]
    is_path = []
    for _ in range(number()):
        name()
        is_path.append(b"TAU_CALLPATH" in {groups[number()] for _ in range(number())})
    for _ in range(number()):
        name()  # of a user event
    time = [metric.upper() for metric in metrics].index(b"TIME")
    sums = {"calls": 0, "exclusive": 0.0}
    for _ in range(number()):
        file.read(12)  # node, context, thread
        for _ in range(number()):
            function = number()
            calls, _, *values = struct.unpack(
                f">{2 + 2 * len(metrics)}d", file.read(16 + 16 * len(metrics))
            )
            if not is_path[function]:
                sums["calls"] += round(calls)
                sums["exclusive"] += values[2 * time]
        for _ in range(number()):
            file.read(40)  # a user event
    assert file.read() == b""
    return sums
