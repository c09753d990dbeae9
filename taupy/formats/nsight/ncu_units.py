"""Convert values and units printed by Nsight Compute to numbers in base units."""

from __future__ import annotations

import math
import re
from typing import Final

from taupy.formats import limits
from taupy.model.gpu import Extent

_PREFIXES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}

# Units that take metric prefixes; ncu's K is 1000, also for bytes.
_SCALED: Final = {"byte": "B", "hz": "Hz", "inst": "inst", "sector": "sector", "cycle": "cycle",
                  "request": "request", "warp": "warp", "flop": "flop"}  # fmt: skip

_TIMES: Final = {
    "s": 1e9, "second": 1e9, "ms": 1e6, "msecond": 1e6, "us": 1e3, "usecond": 1e3,
    "ns": 1.0, "nsecond": 1.0,
}  # fmt: skip

# Numbers with an unambiguous format, which reveal the locale.
_WITH_COMMA: Final = re.compile(
    r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|\d+,(?:\d{1,2}|\d{4,})|0,\d+"
    r"|\d{1,3}(?: \d{3})+(?:,\d+)?)"
)
_WITH_POINT: Final = re.compile(
    r"[-+]?(?:\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}|\d+\.(?:\d{1,2}|\d{4,})|0\.\d+)"
)
_ONE_POINT: Final = re.compile(r"[-+]?\d{1,3}\.\d{3}")
_ONE_COMMA: Final = re.compile(r"[-+]?\d{1,3},\d{3}")
_COUNTED: Final = frozenset(("ns", "nsecond", "byte", *_SCALED))
_BLANKS: Final = re.compile(r"(?<=\d)[ \u202f\xa0\ufffd'\u2019](?=\d{3}(?!\d))")

_EXTENT: Final = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")
_GROUPED: Final = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PLAIN: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

_SWAPPED: Final = str.maketrans(".,", ",.")


def decimal(name: str, unit: str, text: str) -> str:
    """The decimal mark used by a value: "." or ","; "" if it is ambiguous.

    ncu writes numbers according to the system's locale, as 117,344.50 or 117.344,50. It writes 1, 2
    or 6 decimals, so three digits after the only mark are thousands; for whole numbers, such as
    sums in `ns`, this is certain.
    """
    text = text.strip().replace("\u202f", " ").replace("\xa0", " ").replace("\ufffd", " ")
    if _WITH_POINT.fullmatch(text):
        return "."
    if _WITH_COMMA.fullmatch(text):
        return ","
    if name.endswith(".sum") and unit.strip().lower() in _COUNTED:
        if _ONE_POINT.fullmatch(text):
            return ","
        if _ONE_COMMA.fullmatch(text):
            return "."
    return ""


def number(text: str, decimal: str = ".") -> int | float | None:
    """A value with or without thousands separators; None for `nan` and other text.

    Args:
        decimal: the decimal mark; with ",", thousands are separated by points or blanks.
    """
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)  # the most frequent case
    text = _BLANKS.sub("", text.strip())
    if decimal == ",":
        text = text.translate(_SWAPPED)
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not _PLAIN.fullmatch(text) or len(text) > 400:
        return None
    if text.lstrip("+-").isdigit():
        whole = int(text)
        return whole if abs(whole) < limits.VALUE else None
    value = float(text)
    return value if math.isfinite(value) and abs(value) < limits.VALUE else None


def base(unit: str) -> tuple[float, str]:
    """The factor that converts values to the base unit, and the base unit.

    `Gbyte/s` gives 1e9 and `B/s`, `usecond` 1e3 and `ns`, `cycle/nsecond` 1e9 and `cycle/s`; an
    unknown unit is kept.
    """
    over, slash, under = unit.strip().partition("/")
    factor, name = _word(over)
    if not slash:
        return factor, name
    word = under.strip().lower()
    if word in _TIMES:
        return factor * (1e9 / _TIMES[word]), f"{name}/s" if name else "1/s"
    divisor, named = _word(under)
    return factor / divisor, f"{name}/{named}"


def extent(text: str) -> Extent | None:
    """The extent in a text such as `(128, 1, 1)`; None if it is missing or the launch failed."""
    match = _EXTENT.fullmatch(text.strip())
    if match is None or any(len(group) > 18 for group in match.groups()):
        return None
    x, y, z = (int(group) for group in match.groups())
    return (x, y, z) if x and y and z else None


def _word(text: str) -> tuple[float, str]:
    word = text.strip()
    lower = word.lower()
    if lower in _TIMES:
        return _TIMES[lower], "ns"
    for suffix, name in _SCALED.items():
        if lower.endswith(suffix) and lower[: -len(suffix)] in _PREFIXES:
            return _PREFIXES[lower[: -len(suffix)]], name
    return 1.0, word
