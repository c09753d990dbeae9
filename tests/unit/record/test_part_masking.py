"""Copies of parts without secrets keep the places of what they contain."""

from __future__ import annotations

import struct

import pytest

from taupy.model.masking import UNMASKED, Masking
from taupy.record.part_blocks import LAYOUT, METADATA, Blocks
from taupy.record.part_files import FOLDED
from taupy.record.part_masking import masked_copy
from taupy.state import container
from taupy.state.folder import open_own
from tests.gpu_parts import packed_header

LINE = "--token hunter2 --lr 1"
NOTE = "7 1 2\0/x\0sh\0sh\0-c\0curl --token=hunter2"


def block(name: str, value: str) -> bytes:
    text = struct.pack("<QQ", len(name), len(value)) + f"{name}\0{value}\0".encode()
    size = 64 + len(text) + -len(text) % 64
    return struct.pack("<IIQ48x", METADATA, 0, size) + text.ljust(size - 64, b"\0")


def part_of(*blocks: bytes, layout=LAYOUT) -> bytes:
    body = b"".join(blocks)
    return packed_header(layout, 384, used=384 + len(body), pid=1, start_ticks=1) + body


@pytest.fixture
def copied(tmp_path):
    tmp_path.chmod(0o700)

    def copy(data: bytes, name: str = "1-1.part", keeps: bool = False) -> bytes:
        with open_own(str(tmp_path)) as folder:
            file = folder / name
            file.write_bytes(data)
            masking = UNMASKED if keeps else Masking(str(tmp_path))
            made = masked_copy(name, file, masking)
            return made if isinstance(made, bytes) else made.read_bytes()

    return copy


def metadata(data: bytes) -> dict[str, str]:
    part = container.read("x", data, LAYOUT)
    assert part is not None
    return Blocks.of(part).metadata


def test_values_are_masked_and_notes_on_children_lose_their_commands(copied):
    data = part_of(block("a", LINE), block("taupy.child.1", NOTE), block("n", "17"))
    copy = copied(data)
    assert len(copy) == len(data) and b"hunter2" not in copy
    found = metadata(copy)
    assert found["n"] == "17" and found["taupy.child.1"] == "7 1 2\0\0"
    assert found["a"].startswith("--token MASKED-") and found["a"].endswith(" --lr 1")
    assert copied(data, keeps=True) == data


@pytest.mark.parametrize("lack", range(46))
def test_a_value_without_room_for_its_mask_gives_way_to_one(copied, lack):
    value = "--token x".ljust(lack)
    (found,) = metadata(copied(part_of(block("a", value)))).values()
    assert "MASKED-" in found and "x" not in found.replace("MASKED", "")


@pytest.mark.parametrize("cut", [1, 60, 70, 100, 127])
def test_what_was_cut_off_is_as_much_lost_as_before_and_not_copied(copied, cut):
    data = part_of(block("n", "17"), block("taupy.child.1", NOTE + "!" * 40))[:-cut]
    copy = copied(data)
    assert b"hunter2" not in copy and metadata(copy) == {"n": "17"}
    lost = [container.read("x", part, LAYOUT).lost_bytes for part in (data, copy)]
    assert lost[0] == lost[1] > 0


def test_of_a_damaged_part_it_is_copied_that_it_is_damaged(copied):
    damaged = bytearray(part_of(block("a", LINE)))
    damaged[384 + 64] = 255  # the size of a name
    copy = copied(bytes(damaged))
    assert b"hunter2" not in copy
    with pytest.raises(container.FormatError, match="does not begin with TAUPYPRT"):
        metadata(copy)


def test_parts_that_were_folded_into_one_file_are_masked(copied):
    from taupy.record.part_files import LAYOUT as FOLDER

    part = part_of(block("a", LINE))
    entry = struct.pack("<IIQ48x64s", 32, 0, 128 + len(part), b"1-1.part") + part
    data = packed_header(FOLDER, 384, used=384 + 2 * len(entry), pid=1, start_ticks=1) + entry * 2
    for whole in (data, data[:-64]):
        copy = copied(whole, f"{FOLDED}-1")
        assert b"hunter2" not in copy and copy.count(b"MASKED-") in (1, 2)
