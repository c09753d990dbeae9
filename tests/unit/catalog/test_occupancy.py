"""Theoretical occupancy against NVIDIA's own calculator, and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from taupy.catalog.architectures import CHIPS
from taupy.catalog.occupancy import LIMITS, occupancy

LINES = Path(__file__).with_name("occupancy.txt").read_text().splitlines()


def test_blocks_are_those_of_nvidias_calculator():
    checked = set()
    for line in LINES:
        if line.startswith("#"):
            continue
        capability, threads, registers, shared, blocks = line.split()
        found = occupancy(capability, int(threads), int(registers), int(shared))
        assert (found.blocks if found else 0) == int(blocks), line
        checked.add(capability)
    assert checked >= {"7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"}


def test_limits_are_known_for_every_chip_of_the_catalog():
    assert {chip.compute_capability for chip in CHIPS} <= LIMITS.keys()


@pytest.mark.parametrize(
    ("arguments", "share", "limiter"),
    [
        # 1024 threads are 32 warps of 64: two blocks.
        (("8.0", 1024, 32, 0), 1.0, "warps, registers"),
        # 16 warps a block; 64 registers: 2048 a warp, 32 warps of registers: 2 blocks.
        (("8.0", 512, 64, 0), 0.5, "registers"),
        # 48 KiB and 1 KiB for the system: three blocks of 4 warps in 164 KiB.
        (("8.0", 128, 16, 48 << 10), 12 / 64, "shared memory"),
        # One warp a block: 32 blocks are all that fit.
        (("8.0", 32, 16, 0), 0.5, "blocks"),
        (("7.5", 32, 16, 0), 0.5, "blocks"),
        # Shared memory was set to 32 KiB only: two blocks of 16.
        (("7.5", 128, 16, 16 << 10, 32 << 10), 8 / 32, "shared memory"),
    ],
)
def test_known_launches(arguments, share, limiter):
    found = occupancy(*arguments)
    assert found is not None
    assert (found.share, found.limiter) == (share, limiter)


@pytest.mark.parametrize(
    "arguments",
    [("6.1", 128, 32, 0), ("", 128, 32, 0), ("9.0", 0, 32, 0), ("9.0", 4096, 32, 0),
     ("9.0", 128, 32, 300 << 10)],
)  # fmt: skip
def test_what_cannot_be_determined_is_none(arguments):
    assert occupancy(*arguments) is None
