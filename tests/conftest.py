"""What holds for all tests: examples that repeat, and shares of those that cost the most.

Property tests try the same examples each time, so that a red run means a change;
HYPOTHESIS_PROFILE=explore has them look for new ones.

TAUPY_SHARE=1 runs a third of what is slow, or does not hang on the Python version, another
third on each version. CI does, since it runs all versions.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

TESTS = Path(__file__).parent
SHARED = [TESTS / "fidelity", TESTS / "fuzz", TESTS / "unit" / "roofline"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("TAUPY_SHARE") != "1":
        return
    mine, others = [], []
    for item in items:
        is_shared = item.get_closest_marker("slow") or any(
            item.path.is_relative_to(folder) for folder in SHARED
        )
        name = item.nodeid.rpartition("/")[2]
        is_mine = zlib.crc32(name.encode()) % 3 == sys.version_info.minor % 3
        (mine if is_mine or not is_shared else others).append(item)
    items[:] = mine
    config.hook.pytest_deselected(items=others)
