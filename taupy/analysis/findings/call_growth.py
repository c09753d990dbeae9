"""How the time per call of a routine changes with the number of its calls, as the engine noted it
(`_native/growth.h`): evidence for what rules read from the source, and against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from taupy.units import count, duration

DOUBLINGS = 3
"""So often the number of calls must have doubled since the first note."""

GROWS, STAYS = 0.7, 0.3
"""Of the power of the number of calls that the time per call goes with: it is 1 where each call
goes through what all calls before have left, and 0 where calls take the same."""

_FIRST_PART = 16  # one in so many calls, or fewer, are the first ones, if that is known
_LAST_PART = 4  # the calls since the last note are the last ones if they are one in so many
_EARLY_PART = 4  # early calls are among the first one in so many

_STEADY = 0.8
"""Of the time per call before each doubling, at least so much is it after that."""


class CallGrowth(NamedTuple):
    """The first and the last calls of a call path, and the time per call of each [ns].

    Attributes:
        power: of the number of calls that the time per call goes with, from the first to the last.
        is_steady: whether it became shorter with none of the doublings between.
        power_from_least: the same from the cheapest of the early calls: the first ones may have
            prepared what all others use.
    """

    first: int
    first_ns: float
    last: int
    last_ns: float
    power: float
    is_steady: bool
    power_from_least: float

    @property
    def grows(self) -> bool:
        return self.is_steady and self.power >= GROWS

    @property
    def stays(self) -> bool:
        return self.power_from_least < STAYS

    @property
    def clause(self) -> str:
        return (
            "time per call grows with the number of calls: "
            f"{duration(self.first_ns)} in the first {count(self.first)}, "
            f"{duration(self.last_ns)} in the last {count(self.last)}"
        )


def call_growth(parts: Iterable[tuple[int, float]]) -> CallGrowth | None:
    """From the number of calls and the time of each part of the calls, in their order. None if
    there are too few of them."""
    parts = [(calls, ns) for calls, ns in parts if calls > 0]
    whole = sum(calls for calls, _ in parts)
    if len(parts) > 1 and parts[-1][0] * _LAST_PART < whole:
        (calls, ns), (more, took) = parts[-2:]
        parts[-2:] = [(calls + more, ns + took)]
    from_least = _power_from_least(parts, whole)
    first, first_ns = parts.pop(0) if parts else (0, 0.0)
    if not parts or whole < first << DOUBLINGS:
        return None
    while len(parts) > DOUBLINGS and (first + parts[0][0]) * _FIRST_PART <= whole:
        calls, ns = parts.pop(0)
        first, first_ns = first + calls, first_ns + ns
    per_call = [first_ns / first, *(ns / calls for calls, ns in parts)]
    last = parts[-1][0]
    apart = math.log((whole - last / 2) / (first / 2))
    power = math.log(per_call[-1] / per_call[0]) / apart if min(per_call) > 0 else 0.0
    is_steady = all(_STEADY * before <= after for before, after in pairwise(per_call))
    return CallGrowth(first, per_call[0], last, per_call[-1], power, is_steady, from_least)


def _power_from_least(parts: list[tuple[int, float]], whole: int) -> float:
    """Of the number of calls that the time per call goes with, from the cheapest part of the first
    quarter of the calls to the last part."""
    early: list[tuple[float, float]] = []
    end = 0
    for calls, ns in parts[:-1]:
        if early and (end + calls) * _EARLY_PART > whole:
            break
        early.append((ns / calls, end + calls / 2))
        end += calls
    if not early:
        return 0.0
    last, last_ns = parts[-1]
    least, middle = min(early)
    apart = math.log((whole - last / 2) / middle)
    return math.log(last_ns / last / least) / apart if min(least, last_ns) > 0 else 0.0
