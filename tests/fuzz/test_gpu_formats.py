"""A few hundred damaged files of each format; `gpu_formats.py` goes on for hours."""

from __future__ import annotations

import pytest

from tests.fuzz import gpu_formats


@pytest.mark.parametrize("name", gpu_formats.FORMATS)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    wholes = gpu_formats.seeds(name)
    path = tmp_path / ("damaged" + gpu_formats.FORMATS[name][2])
    for seed in range(120):
        path.write_bytes(gpu_formats.damaged(name, wholes, seed))
        assert gpu_formats.fault(name, path) == "", f"seed {seed}"


# Rounds of the long run that found something, long mended.
FOUND = [("nsys", 6291), ("nsys", 111191), ("nsys", 162771), ("ncu-csv", 1186), ("ncu-csv", 1202),
         ("ncu-csv", 1210), ("ncu-csv", 1568), ("ncu-csv", 2319), ("ncu-csv", 2405)]  # fmt: skip


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_was_found_before_stays_mended(name, seed, tmp_path):
    path = tmp_path / ("damaged" + gpu_formats.FORMATS[name][2])
    path.write_bytes(gpu_formats.damaged(name, gpu_formats.seeds(name), seed))
    assert gpu_formats.fault(name, path) == ""
