"""NVIDIA's chips: architecture, compute capability, and the names that people use for them.

Source: the chips that CUPTI 13.0 lists, and the compute capabilities that Nsight Compute 2025's
section files give for them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from taupy.errors import UsageError


class Chip(NamedTuple):
    """One chip. `known_as` lists products with it, for searches."""

    name: str
    architecture: str
    compute_capability: str
    known_as: tuple[str, ...] = ()


CHIPS = (
    Chip("GV100", "Volta", "7.0", ("V100", "Titan V")),
    Chip("GV11B", "Volta", "7.2", ("Xavier",)),
    Chip("TU102", "Turing", "7.5", ("RTX 2080 Ti", "Titan RTX")),
    Chip("TU104", "Turing", "7.5", ("T4", "RTX 2080")),
    Chip("TU106", "Turing", "7.5", ("RTX 2070", "RTX 2060")),
    Chip("TU116", "Turing", "7.5", ("GTX 1660",)),
    Chip("TU117", "Turing", "7.5", ("GTX 1650",)),
    Chip("GA100", "Ampere", "8.0", ("A100", "A800", "A30")),
    Chip("GA102", "Ampere", "8.6", ("RTX 3090", "RTX 3080", "A40", "A10", "A10G", "A6000")),
    Chip("GA103", "Ampere", "8.6", ("RTX 3080 Ti Laptop",)),
    Chip("GA104", "Ampere", "8.6", ("RTX 3070",)),
    Chip("GA106", "Ampere", "8.6", ("RTX 3060",)),
    Chip("GA107", "Ampere", "8.6", ("RTX 3050", "A2", "A16")),
    Chip("GA10B", "Ampere", "8.7", ("Orin",)),
    Chip("AD102", "Ada", "8.9", ("RTX 4090", "L40", "L40S", "RTX 6000 Ada")),
    Chip("AD103", "Ada", "8.9", ("RTX 4080",)),
    Chip("AD104", "Ada", "8.9", ("RTX 4070", "L4")),
    Chip("AD106", "Ada", "8.9", ("RTX 4060 Ti",)),
    Chip("AD107", "Ada", "8.9", ("RTX 4060",)),
    Chip("GH100", "Hopper", "9.0", ("H100", "H200", "H800", "H20", "GH200")),
    Chip("GB100", "Blackwell", "10.0", ("B100", "B200", "GB200")),
    Chip("GB102", "Blackwell", "10.0"),
    Chip("GB110", "Blackwell", "10.3", ("B300", "GB300")),
    Chip("GB10B", "Blackwell", "11.0", ("Thor",)),
    Chip("GB202", "Blackwell", "12.0", ("RTX 5090", "RTX PRO 6000")),
    Chip("GB203", "Blackwell", "12.0", ("RTX 5080", "RTX 5070 Ti")),
    Chip("GB205", "Blackwell", "12.0", ("RTX 5070",)),
    Chip("GB206", "Blackwell", "12.0", ("RTX 5060", "RTX 5060 Ti")),
    Chip("GB207", "Blackwell", "12.0", ("RTX 5050",)),
    Chip("GB20B", "Blackwell", "12.1", ("GB10", "DGX Spark")),
)

WITHOUT_RANGE_PROFILER = {"7.0", "7.2"}
"""Compute capabilities on which only Nsight Compute can count, whose files can be imported."""


def chip(name: str) -> Chip:
    """The chip for a name such as GH100, H100, 9.0, sm_90, "NVIDIA H100 80GB HBM3" or 4090; the
    first one if several match.

    Raises:
        UsageError: no chip has this name; the message lists the chips.
    """
    wanted = _plain(name)
    for listed_chip in CHIPS:
        if wanted == _plain(listed_chip.name):
            return listed_chip
    for listed_chip in CHIPS:
        number = listed_chip.compute_capability.replace(".", "")
        if wanted in (number, f"sm{number}", f"cc{number}", *map(_plain, listed_chip.known_as)):
            return listed_chip
    for listed_chip in CHIPS:
        if wanted == listed_chip.architecture.lower() and listed_chip.name != "GV11B":
            return listed_chip
    if match := _within(name):
        return match
    listed = ", ".join(listed_chip.name for listed_chip in CHIPS)
    raise UsageError(f"there is no chip '{name}' (known: {listed}); a product name or a compute "
        f"capability works, too: H100, 9.0")  # fmt: skip


def _within(name: str) -> Chip | None:
    """The chip of a product whose name is contained in a longer name, such as the driver's, or of
    which only the number is given; the most specific match."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    best: tuple[int, Chip] | None = None
    for listed_chip in CHIPS:
        for alias in listed_chip.known_as:
            parts = alias.lower().split()
            is_named = any(words[at : at + len(parts)] == parts for at in range(len(words)))
            alone = len(words) == 1 and words[0].isdigit() and parts[1:] == words
            if (is_named or alone) and (best is None or len(parts) > best[0]):
                best = len(parts), listed_chip
    return best[1] if best else None


def of_compute_capability(text: str) -> Chip | None:
    """The first chip with this compute capability, such as "9.0"; None if none is known."""
    return next((listed for listed in CHIPS if listed.compute_capability == text), None)


def _plain(name: str) -> str:
    text = "".join(letter for letter in name.lower() if letter.isalnum())
    return text.removeprefix("nvidia").removeprefix("geforce")
