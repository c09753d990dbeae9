"""A number that is not there: NaN in columns of numbers, None in cells and (as NULL) in SQLite."""

from __future__ import annotations

import math


def nan_if_none(value: float | None) -> float:
    """The number in a column."""
    return math.nan if value is None else value


def none_if_nan(value: float | None) -> float | None:
    """The number in a cell."""
    return value if value == value else None
