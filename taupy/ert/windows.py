"""Many short measurements of one thing become one ceiling: the best, and how steady it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Windows:
    """What was seen in many short windows; rates, or times for a latency.

    Attributes:
        best: the highest rate or the shortest time.
        median: of all windows.
        spread: the middle half of the windows, as a share of the median.
        samples: how many windows.
    """

    best: float
    median: float
    spread: float
    samples: int

    @classmethod
    def of(cls, values: Sequence[float], *, lowest: bool = False) -> Windows:
        """Sum up one value or more; `lowest`: the smallest is the best."""
        middle = median(values)
        spread = 0.0
        if len(values) > 1:
            low, _, high = quantiles(values, n=4)
            spread = (high - low) / middle if middle else 0.0
        return cls(min(values) if lowest else max(values), middle, spread, len(values))
