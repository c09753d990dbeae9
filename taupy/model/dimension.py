"""Units of metrics as products of powers, so that derived metrics have units, which are checked.

A unit is text: `inst`, `inst/warp`, `flop/s`, `B/inst`, `warp*cycle`, `ns^2`; `ratio` for a
pure number. Times are counted in nanoseconds and sizes in bytes; other spellings of them
(`us`, `s`, `Hz`, `KiB`, `%`) are converted. Any other word is a unit of its own.
"""

from __future__ import annotations

import re

from taupy.dataclass import NamedTuple

PURE = "ratio"
"""The unit of pure numbers."""

_SCALED: dict[str, tuple[float, dict[str, int]]] = {
    "ns": (1, {"ns": 1}),
    "us": (1e3, {"ns": 1}),
    "ms": (1e6, {"ns": 1}),
    "s": (1e9, {"ns": 1}),
    "Hz": (1e-9, {"ns": -1}),
    "B": (1, {"B": 1}),
    "byte": (1, {"B": 1}),
    "bytes": (1, {"B": 1}),
    "KiB": (1024, {"B": 1}),
    "MiB": (1024**2, {"B": 1}),
    "GiB": (1024**3, {"B": 1}),
    "launch": (1, {"call": 1}),
    "%": (0.01, {}),
    PURE: (1, {}),
    "1": (1, {}),
}

_FACTOR = re.compile(r"\s*([*/]?)\s*([A-Za-z_%1][\w%]*)\s*(?:\^\s*(-?[1-9]))?\s*")


class Dimension(NamedTuple):
    """The dimension of a quantity.

    Attributes:
        powers: unit -> power, sorted by unit, none of them 0.
        scale: factor from the unit to base units (nanoseconds, bytes ...).
    """

    powers: tuple[tuple[str, int], ...]
    scale: float = 1.0


NOTHING = Dimension(())


def dimension(unit: str) -> Dimension:
    """Parse a unit; text that cannot be parsed is a unit of its own."""
    text = unit.strip()
    if not text:
        return NOTHING
    powers: dict[str, int] = {}
    scale, at = 1.0, 0
    while at < len(text):
        match = _FACTOR.match(text, at)
        if match is None or bool(match[1]) != (at > 0):
            return Dimension(((text, 1),))
        power = int(match[3] or 1) * (-1 if match[1] == "/" else 1)
        factor, parts = _SCALED.get(match[2], (1, {match[2]: 1}))
        scale *= factor**power
        for word, own in parts.items():
            powers[word] = powers.get(word, 0) + own * power
        at = match.end()
    return Dimension(_sorted(powers), scale)


def product(left: Dimension, right: Dimension, power: int = 1) -> Dimension:
    """Left times right; `power` -1 divides. Both in base units."""
    powers = dict(left.powers)
    for word, own in right.powers:
        powers[word] = powers.get(word, 0) + own * power
    return Dimension(_sorted(powers))


def spelled(quantity: Dimension) -> tuple[str, float]:
    """The unit as text, and the factor that converts a value in base units to it.

    Rates are per second: nanoseconds in the denominator become seconds.
    """
    factor = 1.0
    above: list[str] = []
    below: list[str] = []
    for word, power in quantity.powers:
        name = word
        if word == "ns" and power < 0:
            name, factor = "s", 1e9**-power
        text = name if abs(power) == 1 else f"{name}^{abs(power)}"
        (above if power > 0 else below).append(text)
    if not above and not below:
        return PURE, factor
    return "/".join(["*".join(above) or "1", *below]), factor


def _sorted(powers: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((word, power) for word, power in powers.items() if power))
