"""The commands print what they printed: a meant change is stored by
`python -m tests.differential --update`, and read in `git diff` before it is committed."""

from __future__ import annotations

import pytest

from tests.differential.outputs import ASKED, STORED, summary


@pytest.mark.parametrize("name", ASKED)
def test_commands_print_what_they_printed(name, tmp_path):
    stored = (STORED / f"{name}.txt").read_text("utf-8")
    assert summary(name, tmp_path).splitlines() == stored.splitlines()
