"""Files that were once a trouble, and some changed at random: see `formats.py`."""

from __future__ import annotations

import time
from random import Random

import pytest

from taupy.formats import registry
from tests.fuzz.formats import CORPUS, attempt, run, seeds

FOUND = sorted(CORPUS.glob("*")) if CORPUS.is_dir() else []


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_what_was_found_stays_mended(tmp_path, file):
    format = registry.reader(file.name.rsplit("-", 1)[0])
    assert attempt(format, file, tmp_path / "taupy.db") in ("stored", "refused")


@pytest.mark.parametrize("format", registry.readers(), ids=lambda format: format.name)
def test_changed_files_are_refused_or_stored_never_more(tmp_path, format):
    found = run(format, Random(f"1 {format.name}"), time.monotonic() + 0.4, tmp_path, 100)
    assert found == []


@pytest.mark.parametrize("format", registry.readers(), ids=lambda format: format.name)
def test_unchanged_files_are_stored(tmp_path, format):
    for content in seeds(format):
        file = tmp_path / "profile.0.0.0"
        file.write_bytes(content)
        assert attempt(format, file, tmp_path / "taupy.db") == "stored"
