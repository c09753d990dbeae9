"""Parts that lie beside the database, because the run folder had no room for them."""

from __future__ import annotations

import errno
import os
import struct
from types import SimpleNamespace

import pytest

from taupy.record import part_files
from taupy.record.part_blocks import LAYOUT
from taupy.state.container import HEADER_BYTES
from taupy.state.folder import open_any


def spilled_where(monkeypatch, problem: OSError):
    def refused(path):
        raise problem

    monkeypatch.setattr(part_files, "open_any", refused)
    settings = SimpleNamespace(database="/nowhere/taupy.db", uuid="u")
    return part_files.spilled(settings, ".part")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_folder_that_cannot_be_listed_now_does_not_pass_for_empty(monkeypatch, number):
    with pytest.raises(OSError):  # the run stays, and the next command tries again
        spilled_where(monkeypatch, OSError(number, "not now"))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.EACCES])
def test_in_a_folder_that_can_never_be_listed_there_is_nothing(monkeypatch, number):
    assert spilled_where(monkeypatch, OSError(number, "never")) == {}


def folded_file(folder, sizes: list[int]) -> bytes:
    """Parts of these sizes in one file, each of bytes of its own; returns the whole file."""
    header = -(-HEADER_BYTES // 64) * 64
    entries = [
        struct.pack("<IIQ48x64s", 32, 0, 128 + size, b"%d-a.part" % number) + bytes([number]) * size
        for number, size in enumerate(sizes, 1)
    ]
    used = header + sum(map(len, entries))
    head = struct.pack("<8s2I3Q", b"TAUPYFLD", LAYOUT.version, header, 1, used, used)
    path = folder / "folded-1"
    path.write_bytes(head.ljust(header, b"\0") + b"".join(entries))
    os.chmod(path, 0o600)
    return path.read_bytes()


def test_folded_parts_are_found_wherever_a_piece_of_the_file_ends(tmp_path):
    os.chmod(tmp_path, 0o700)
    small = [64, 6400, 60_032, 65_408, 64, 65_472, 200_000 // 64 * 64, 128]
    sizes = [*small, *[5120] * 40]
    whole = folded_file(tmp_path, sizes)
    (file,) = part_files.taken_files(open_any(str(tmp_path)))
    parts = list(part_files.folded_parts(file))
    assert [part.name for part in parts] == [f"{at}-a.part" for at in range(1, len(sizes) + 1)]
    assert [part.bytes() for part in parts] == sizes
    for number, (part, size) in enumerate(zip(parts, sizes, strict=True), 1):
        assert part.read_bytes() == bytes([number]) * size == whole[part.at : part.at + size]
        assert part.read_bytes(first=32) == bytes([number]) * 32


def test_a_child_that_ended_costs_no_reading_of_the_file_by_itself(tmp_path, monkeypatch):
    os.chmod(tmp_path, 0o700)
    folded_file(tmp_path, [5120] * 100)
    (file,) = part_files.taken_files(open_any(str(tmp_path)))
    reads = []
    read_bytes = type(file).read_bytes

    def noted(self, *args, **kwargs):
        reads.append(self)
        return read_bytes(self, *args, **kwargs)

    monkeypatch.setattr(type(file), "read_bytes", noted)
    for part in part_files.folded_parts(file):
        part.read_bytes()
    assert len(reads) < 20  # twice for each of them before
