"""SQL functions that one call keeps busy for hours, which SQLite cannot interrupt: they give up.

The time of some functions grows with the product of the lengths of their arguments: that of trim
for two texts of a megabyte is hours. Views of a file from elsewhere may call them.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from taupy.state.sqlite import in_memory

_MOST_STEPS = 1 << 28
"""Comparisons of letters, or letters written one by one, in one call: two seconds or less."""

_BY_PRODUCT = {"instr": 2, "json_patch": 2, "ltrim": 2, "replace": 3, "rtrim": 2, "trim": 2}
"""Functions, and how many arguments they have."""


def bound(connection: sqlite3.Connection) -> None:
    """Replace these functions on a connection; too much work is "string or blob too big"."""
    original = in_memory()

    def call(name: str, steps: Callable[..., int], *values: Any) -> Any:
        if steps(*values) > _MOST_STEPS:
            raise OverflowError
        try:
            marks = ", ".join("?" * len(values))
            return original.execute(f"SELECT {name}({marks})", values).fetchone()[0]
        except sqlite3.DataError:
            raise OverflowError from None

    for name, count in _BY_PRODUCT.items():
        function = partial(call, name, _product)
        connection.create_function(name, count, function, deterministic=True)
    for name in ("format", "printf"):
        function = partial(call, name, _longest_width)
        connection.create_function(name, -1, function, deterministic=True)


def _product(text: Any, *others: Any) -> int:
    return _length(text) * max(map(_length, others))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 20


def _longest_width(text: Any = "", *values: Any) -> int:
    """The largest number in a format, or that a `*` in it may stand for."""
    numbers = [value for value in values if isinstance(value, int)] if "*" in str(text) else []
    return max([0, *numbers, *(int(digits[:20]) for digits in re.findall(r"\d+", str(text)))])
