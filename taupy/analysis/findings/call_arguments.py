"""Whether a routine is called with the same arguments again, as the engine counted it in the calls
that it looked at (`_native/arguments.h`): evidence for what rules read from the source, and against
it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from taupy.units import count

LEAST = 32
"""Minimum calls looked at and compared: fewer show nothing."""

FEW = 4
"""One in so many calls looked at, or fewer, has arguments that none before had."""

_WORTH = 10
"""Results that are kept are worth it where each is asked for so often."""
_EXPECTED = 20
"""Where results are worth it, so many of the calls looked at have arguments that came before, or
what was looked at shows nothing."""
_SEEN = 4
"""Of which there is not one in so many."""


class CallArguments(NamedTuple):
    """Of the calls of a routine that were looked at.

    Attributes:
        compared: calls with arguments that are compared: immutable ones.
        different: of these, calls with arguments that none before had.
        others: calls with others.
    """

    compared: int = 0
    different: int = 0
    others: int = 0

    @property
    def is_known(self) -> bool:
        return self.compared >= LEAST and self.others * FEW <= self.compared

    @property
    def come_again(self) -> bool:
        return self.is_known and self.different * FEW <= self.compared

    def differ(self, calls: float) -> bool:
        """Whether arguments come again less often than where it is worth to keep results.

        Args:
            calls: of the routine, of which only some are looked at, in time apart and in a row.
        """
        if not self.is_known:
            return False
        worth = calls / _WORTH
        expected = self.compared - worth * -math.expm1(-self.compared / worth)
        return expected >= _EXPECTED and (self.compared - self.different) * _SEEN < expected

    @property
    def clause(self) -> str:
        seen, different = count(self.compared), count(self.different)
        if self.different == 1:
            return f"{seen} calls looked at, all with the same arguments"
        return f"of {seen} calls looked at, {different} different arguments"
