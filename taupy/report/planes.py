"""Columns of numbers as bytes for a page: all lowest bytes first, then all second bytes ...

The numbers of a column are mostly small and similar, so the higher planes are nearly empty and
compress well (`static/columns.js` reads this).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping


def packed(columns: Mapping[str, array[int]]) -> tuple[bytes, dict[str, int]]:
    """The columns one after the other, and the bytes per number of each."""
    planes, widths = [], {}
    for name, values in columns.items():
        own = _planes(values)
        planes.extend(own)
        widths[name] = len(own)
    return b"".join(planes), widths


def _planes(values: array[int]) -> list[bytes]:
    """The byte planes of zigzag-coded numbers, the lowest plane first."""
    import numpy as np

    numbers = np.array(values, "i8")
    coded = ((numbers << 1) ^ (numbers >> 63)).view("u8")
    raw = coded.astype("<u8").tobytes()
    width = max(1, (int(coded.max(initial=0)).bit_length() + 7) // 8)
    return [raw[plane::8] for plane in range(width)]
