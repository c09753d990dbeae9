"""Containers: blocks of parts, whole, cut off anywhere, and with sizes that lie."""

from __future__ import annotations

import shutil
import struct
import subprocess
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from taupy.errors import FormatError
from taupy.state.container import (
    ALIGN,
    HEADER_BYTES,
    Header,
    Layout,
    header,
    read,
)
from tests.gpu_parts import packed_header

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"
LAYOUT = Layout(b"TAUPYPRT", 1, "part of a run", {7: 100})
HEAD = 384  # with a table of one chunk, aligned


def block(kind: int, payload: bytes, thread: int = 0) -> bytes:
    padded = payload + bytes(-len(payload) % ALIGN)
    return struct.pack("<IIQ6Q", kind, thread, 64 + len(padded), *range(1, 7)) + padded


def container(*blocks: bytes, used: int | None = None) -> bytes:
    body = b"".join(blocks)
    size = HEAD + len(body) if used is None else used
    return packed_header(LAYOUT, HEAD, used=size, pid=12, start_ticks=345) + body


def test_the_header_has_the_layout_of_part_h(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    fields = [*Header._fields, "chunks"]
    lines = "".join(f'printf("%zu ", offsetof(PartHeader, {name}));' for name in fields)
    (tmp_path / "x.c").write_text(
        f'#include <stdio.h>\n#include "part.h"\nint main(void) {{ {lines} return 0; }}\n'
    )
    command = [compiler, f"-I{NATIVE}", "-o", tmp_path / "x", tmp_path / "x.c"]
    subprocess.run(command, check=True)
    told = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    sizes = [8, 4, 4, *[8] * (len(Header._fields) - 3)]
    assert list(map(int, told.split())) == [0, *accumulate(sizes)]
    assert sum(sizes) == HEADER_BYTES


def test_a_header_is_read_back():
    found = header("x", container(), LAYOUT)
    assert (found.pid, found.start_ticks, found.chunk_count, found.used) == (12, 345, 1, HEAD)


def test_blocks_come_with_their_payloads():
    found = read("x", container(block(1, b"a" * 64, thread=3), block(2, b"b")), LAYOUT)
    assert found is not None
    assert [(one.kind, one.thread, one.end - one.start) for one in found.blocks] == [
        (1, 3, 64),
        (2, 0, 64),
    ]
    assert found.data[found.blocks[1].start :][:2] == b"b\0"
    assert found.blocks[0].words == (1, 2, 3, 4, 5, 6)
    assert found.lost_bytes == 0
    assert found.address_of(HEAD) == HEAD  # its one chunk lay at address 0


def test_a_file_of_zeros_is_a_part_in_which_nothing_was_written():
    assert read("x", b"", LAYOUT) is None
    assert read("x", bytes(1 << 20), LAYOUT) is None


@pytest.mark.parametrize("cut", range(HEAD, HEAD + 256, 16))
def test_what_was_cut_off_is_counted(cut):
    data = container(block(1, b"a" * 64), block(1, b"b" * 64))
    found = read("x", data[:cut], LAYOUT)
    assert found is not None
    whole = sum(64 + one.end - one.start for one in found.blocks)
    assert whole + found.lost_bytes == 256


@pytest.mark.parametrize("marked", [False, True])
def test_a_chunk_that_never_reached_the_file_is_skipped_and_counted(marked):
    """What lies in the file where a marked chunk belongs is not believed."""
    first, last = block(1, b"a"), block(2, b"c")
    hole = block(9, b"stale" * 30) + bytes(256 - 64 - 192) if marked else bytes(256)
    data = bytearray(container(first, hole, last))
    struct.pack_into("<Q", data, 16, 3)  # chunks: at 0, at the hole, and behind it
    struct.pack_into("<QQ", data, HEADER_BYTES, 0x1000, 0)
    struct.pack_into("<QQ", data, HEADER_BYTES + 16, 0x9000, (HEAD + 128) | marked)
    struct.pack_into("<QQ", data, HEADER_BYTES + 32, 0x5000, HEAD + 384)
    found = read("x", bytes(data), LAYOUT)
    assert found is not None
    assert [one.kind for one in found.blocks] == [1, 2]
    assert found.lost_bytes == 256
    assert found.address_of(HEAD + 128 + 64) == 0x9000 + 64


def test_a_beginning_that_was_in_memory_only_is_skipped_and_counted():
    data = bytearray(container(block(1, b"a"), block(2, b"b")))
    struct.pack_into("<Q", data, 16, 2)
    struct.pack_into("<QQ", data, HEADER_BYTES, 0x1000, 1)
    struct.pack_into("<QQ", data, HEADER_BYTES + 16, 0x5000, HEAD + 128)
    found = read("x", bytes(data), LAYOUT)
    assert found is not None
    assert [one.kind for one in found.blocks] == [2]
    assert found.lost_bytes == 128


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"NOTAPART", "does not begin with TAUPYPRT"),
        (8, struct.pack("<I", 9), "of version 9, this taupy reads version 1"),
        (12, struct.pack("<I", 0), "its header has 0 bytes"),
        (12, struct.pack("<I", 1 << 31), "its header has 2147483648 bytes"),
        (12, struct.pack("<I", 321), "its header has 321 bytes"),
        (16, struct.pack("<Q", 0), "it claims 0 chunks"),
        (16, struct.pack("<Q", 1 << 63), "it claims 9223372036854775808 chunks"),
        (16, struct.pack("<Q", 2), "its header has 384 bytes|do not follow"),
        (HEADER_BYTES + 8, struct.pack("<Q", 64), "its chunks do not follow each other"),
    ],
)
def test_a_header_that_lies_is_refused(at, value, words):
    data = bytearray(container(block(1, b"a")))
    data[at : at + len(value)] = value
    with pytest.raises(FormatError, match=words):
        read("x", bytes(data), LAYOUT)


def test_a_block_that_is_too_small_for_its_kind_is_refused():
    assert read("x", container(block(7, b"a" * 128)), LAYOUT) is not None
    with pytest.raises(FormatError, match="a block of kind 7 has 128 bytes"):
        read("x", container(block(7, b"a" * 64)), LAYOUT)


def test_texts_stay_in_their_block():
    found = read("x", container(block(1, b"name\0file\0" + b"x" * 54)), LAYOUT)
    assert found is not None
    (one,) = found.blocks
    assert found.texts(one.start, one.end, 4, 4) == ["name", "file"]
    for sizes in ((64,), (4, 59), (1 << 63,)):
        with pytest.raises(FormatError, match="is damaged: a text at byte"):
            found.texts(one.start, one.end, *sizes)


def test_twenty_thousand_containers_with_random_words_are_read_or_refused():
    random = Random(2)
    sound = container(*(block(kind, bytes(64 * kind)) for kind in range(1, 7)))
    for _ in range(20_000):
        data = bytearray(sound)
        for _ in range(random.choice((1, 2, 3))):
            at = random.randrange(len(data) // 8) * 8
            value = random.choice((0, 1, 64, 1 << 31, 1 << 32, (1 << 63) - 1, (1 << 64) - 1, at))
            data[at : at + 8] = value.to_bytes(8, "little")
        try:
            found = read("x", bytes(data), LAYOUT)
        except FormatError:
            continue
        assert found is not None
        assert all(HEAD <= one.start <= one.end <= len(data) for one in found.blocks)
