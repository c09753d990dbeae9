"""The text of source files, as it is kept with a trial."""

import base64

import pytest

from taupy.profiledb import source_texts


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 257])
def test_a_text_is_written_as_base85(size):
    data = bytes(at * 89 % 256 for at in range(255, 255 + size))
    assert source_texts._base85(data) == base64.b85encode(data).decode()


@pytest.mark.parametrize("text", ["", "x = 1\n", "ünï\udc80\n" * 1000])
def test_a_text_is_read_as_it_was_written(text):
    packed = source_texts._packed(text)
    assert source_texts._unpacked(packed) == text.encode("utf-8", "surrogatepass").decode(
        "utf-8", "replace"
    )
