"""Many short measurements of the same quantity give a ceiling: the best, and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Windows:
    """Results of many short windows: rates, or for a latency times.

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
        """Summarise at least one value; with `lowest`, the smallest is the best."""
        middle = median(values)
        spread = 0.0
        if len(values) > 1:
            low, _, high = quantiles(values, n=4)
            spread = (high - low) / middle if middle else 0.0
        return cls(min(values) if lowest else max(values), middle, spread, len(values))
