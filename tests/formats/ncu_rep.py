"""Reports of Nsight Compute: results in the blocks of the file."""

from pathlib import Path

from tests.formats.perfetto import fields


def count(path):
    data = Path(path).read_bytes()
    at, launches = 4, 0
    at += 4 + int.from_bytes(data[at : at + 4], "little")
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        header = dict(fields(data[at + 4 : at + 4 + size]))
        launches += header.get(2, 0)
        at += 4 + size + header.get(5, 0)
    return {"launches": launches}
