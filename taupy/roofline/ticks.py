"""Ticks of logarithmic axes, and their labels."""

from __future__ import annotations

import math

from taupy.roofline.chart import Axis


def ticks(axis: Axis, most: int = 9) -> list[float]:
    """Powers of ten within an axis, thinned out to a maximum number; with multiples of 2 and 5 if
    there are few."""
    first = math.ceil(math.log10(axis.low) - 1e-9)
    last = math.floor(math.log10(axis.high) + 1e-9)
    step = max(1, -(-(last - first + 1) // most))
    if step > 1 and step % 3:
        step += 3 - step % 3  # whole SI prefixes
    if last - first < 2:  # too few powers of ten for a readable axis
        values = [
            part * 10.0**exponent for exponent in range(first - 1, last + 1) for part in (1, 2, 5)
        ]
        return [value for value in values if axis.low <= value <= axis.high]
    start = first + (-first) % step
    return [10.0**exponent for exponent in range(start, last + 1, step)]


_SUPERSCRIPT = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)


def tick_label(value: float) -> str:
    """A power of ten, possibly times 2 or 5."""
    exponent = math.floor(math.log10(value) + 1e-9)
    front = round(value / 10.0**exponent)
    power = f"10{str(exponent).translate(_SUPERSCRIPT)}"
    return power if front == 1 else f"{front}\u00b7{power}"
