"""A few hundred damaged files of each format; `gpu_formats.py` goes on for hours."""

from __future__ import annotations

import pytest

from taupy.formats import ncu_rep
from tests.fuzz import gpu_formats


@pytest.mark.parametrize("name", gpu_formats.FORMATS)
def test_damaged_files_are_read_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ncu_rep, "find_spec", lambda name: None)
    wholes = gpu_formats.seeds(name)
    path = tmp_path / ("damaged" + gpu_formats.FORMATS[name][2])
    for seed in range(120):
        path.write_bytes(gpu_formats.damaged(name, wholes, seed))
        assert gpu_formats.fault(name, path) == "", f"seed {seed}"
