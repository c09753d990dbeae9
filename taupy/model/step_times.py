"""Step times: median, spread, warm-up and outliers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from taupy.dataclass import dataclass
from taupy.model.profile import UNKNOWN, Steps

TOKENS = "tokens"
"""Name of the value that counts the tokens of a step."""
Mark = Literal["", "warm-up", "outlier"]

_SETTLED = 1.25
"""Initial steps are warm-up, up to the first that takes at most this many times the median."""
_FAR, _SLOWER = 5.0, 1.2
"""An outlier is slower than the median by this many deviations, and by this factor."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Statistics of one series of steps.

    Attributes:
        marks: one per row. `warm-up`: no row so far took at most 1.25 times the
            median. `outlier`: a later row that is slower than the
            median by more than 20 % and by more than 5 standard deviations, estimated as
            1.4826 times the median absolute deviation, so that outliers do not mask themselves.
        median_ns, p95_ns: over rows after the warm-up; a row of several steps counts by its mean.
        per_second: steps per second after the warm-up; None if there are no such steps.
        samples_per_second: over rows with known samples, after the warm-up.
        tokens_per_second: over rows with known tokens, after the warm-up.
    """

    marks: list[Mark]
    median_ns: float
    p95_ns: float
    per_second: float | None
    samples_per_second: float | None
    tokens_per_second: float | None = None


def per_step(steps: Steps) -> list[float]:
    """Time of one step of each row [ns]."""
    return [time / count for time, count in zip(steps.time_ns, steps.count, strict=True)]


def step_times(steps: Steps) -> StepTimes:
    """Classify the steps of a series, which must not be empty."""
    times = per_step(steps)
    middle = statistics.median(times)
    settled = next(at for at, time in enumerate(times) if time <= _SETTLED * middle)
    rest = times[settled:]
    median = statistics.median(rest)
    deviation = 1.4826 * statistics.median(abs(time - median) for time in rest)
    bound = max(median + _FAR * deviation, _SLOWER * median)
    marks: list[Mark] = ["warm-up"] * settled
    marks += ["outlier" if time > bound else "" for time in rest]
    samples = [math.nan if value == UNKNOWN else value for value in steps.samples]
    tokens: Sequence[float] = steps.values.get(TOKENS, [])
    return StepTimes(
        marks,
        median,
        quantile(rest, 0.95),
        _rate(sum(steps.count[settled:]), sum(steps.time_ns[settled:])),
        _rate_of(samples, steps, settled),
        _rate_of(tokens, steps, settled),
    )


def _rate_of(amounts: Sequence[float], steps: Steps, settled: int) -> float | None:
    counted = [at for at in range(settled, len(amounts)) if not math.isnan(amounts[at])]
    return _rate(sum(amounts[at] for at in counted), sum(steps.time_ns[at] for at in counted))


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, interpolated linearly between the two nearest values, as NumPy does."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _rate(amount: float, time_ns: float) -> float | None:
    return amount / time_ns * 1e9 if amount and time_ns else None
