"""Files of a second user, where one can be had."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

OTHER = 65533
"""A user whom nobody else needs."""


@pytest.fixture
def give_away(tmp_path: Path) -> Callable[[Path], None]:
    """Make a file or folder another user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files to a second user")
    probe = tmp_path / "probe"
    probe.touch()
    try:
        os.chown(probe, OTHER, OTHER)
    except OSError as problem:
        pytest.skip(f"files cannot be given to a second user here: {problem}")
    probe.unlink()
    return lambda path: os.chown(path, OTHER, OTHER, follow_symlinks=False)
