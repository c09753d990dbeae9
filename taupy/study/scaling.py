"""The effect of a parameter: PerfExplorer's operations on the trials of a sweep.

Numbers in, rows out: independent of trials, databases and names of routines. docs/sweeps.md has
the formulas.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, median
from typing import Literal, NamedTuple, get_args

Scaling = Literal["strong", "weak", "none"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)

OUTLYING = 3.5
"""A modified z-score beyond this is an outlier (Iglewicz and Hoaglin, 1993)."""

LEAST_RUNS = 5
"""With fewer runs, none of them can be called an outlier."""

LEAST_TRIALS = 4
"""With fewer trials a correlation is meaningless: three points are nearly always collinear."""


class Scaled(NamedTuple):
    """One value of the parameter: statistics of its runs, relative to the baseline.

    Attributes:
        series: the trials that differ in the parameter only.
        value: the parameter's value as text.
        runs: number of runs, summarized by `median`, `minimum` and `maximum`.
        speedup: T(baseline) / T; for weak scaling, multiplied by p / p(baseline).
        efficiency: 1 is ideal; None without a scaling, or if p is not a number above 0.
    """

    series: str
    value: str
    runs: int
    median: float
    minimum: float
    maximum: float
    speedup: float | None
    efficiency: float | None


class Balance(NamedTuple):
    """How evenly several threads (nodes, GPUs) share something.

    Attributes:
        parts: number of threads.
        imbalance: maximum / mean - 1; 0 is even.
        lost: maximum - mean: the largest possible gain from balancing.
    """

    parts: int
    mean: float
    minimum: float
    maximum: float
    stddev: float
    imbalance: float
    lost: float


class Correlation(NamedTuple):
    """How a quantity correlates with a fact about the trials.

    Attributes:
        trials: number of trials that have both.
        pearson, spearman: -1 to 1; None if the fact is text.
        explained: share of the variance that the fact explains: pearson squared, or, if the fact
            is text, eta squared (between groups / total).
    """

    fact: str
    quantity: str
    trials: int
    pearson: float | None
    spearman: float | None
    explained: float


def as_number(text: str) -> float | None:
    """A parameter's value as a number; None if it is not a finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def in_order(values: Sequence[str]) -> list[str]:
    """The distinct values: sorted if all are numbers, otherwise in order of appearance."""
    once = list(dict.fromkeys(values))
    numbers = [as_number(value) for value in once]
    if any(number is None for number in numbers):
        return once
    return [value for _, value in sorted(zip(numbers, once, strict=True))]


def scaled(
    samples: Mapping[str, Sequence[float]],
    scaling: Scaling = "none",
    baseline: str | None = None,
    series: str = "",
) -> list[Scaled]:
    """Speed-up and relative efficiency over the values of a parameter.

    Args:
        samples: value -> times of its runs; values without runs are omitted.
        scaling: how the work depends on p: constant (strong), proportional (weak); or p is not a
            resource, and only the ratio of times is computed (none).
        baseline: one of the values; if None or without runs, the first in order.
        series: name of the series, for the rows.
    """
    order = [value for value in in_order(list(samples)) if samples[value]]
    if not order:
        return []
    middle = {value: median(samples[value]) for value in order}
    first = baseline if baseline in middle else order[0]
    assert first is not None
    rows = []
    for value in order:
        ratio = middle[first] / middle[value] if middle[value] > 0 else None
        growth = _growth(value, first)
        speedup, efficiency = ratio, None
        if ratio is not None and growth is not None:
            if scaling == "strong":
                efficiency = ratio / growth
            elif scaling == "weak":
                speedup, efficiency = ratio * growth, ratio
        elif scaling == "weak":
            speedup = None
        runs = samples[value]
        of_runs = len(runs), middle[value], min(runs), max(runs)
        rows.append(Scaled(series, value, *of_runs, speedup, efficiency))
    return rows


def _growth(value: str, first: str) -> float | None:
    """p / p(baseline); None if either is not a positive number."""
    p, start = as_number(value), as_number(first)
    return p / start if p is not None and start is not None and p > 0 and start > 0 else None


def balance(values: Sequence[float]) -> Balance | None:
    """Load balance of two or more parts; None for fewer parts, or if their mean is not positive."""
    if len(values) < 2:
        return None
    mean = fmean(values)
    if not mean > 0:
        return None
    stddev = math.sqrt(fmean([(value - mean) ** 2 for value in values]))
    most = max(values)
    return Balance(len(values), mean, min(values), most, stddev, most / mean - 1, most - mean)


def correlations(
    facts: Mapping[str, Sequence[str | None]], quantities: Mapping[str, Sequence[float | None]]
) -> list[Correlation]:
    """Every varying fact against every quantity, the closest pairs first.

    Args:
        facts: name -> its value in each trial, None if the trial lacks it.
        quantities: name -> its value in each trial, None if it was not measured.

    Returns:
        No row if fewer than `LEAST_TRIALS` trials have both, if either does not vary, or if a
        textual fact differs in every trial.
    """
    rows = []
    for (fact, texts), (quantity, measured) in product(facts.items(), quantities.items()):
        pairs = [
            (text, value)
            for text, value in zip(texts, measured, strict=True)
            if text is not None and value is not None and math.isfinite(value)
        ]
        rows.append(_correlation(fact, quantity, pairs))
    return sorted(filter(None, rows), key=lambda row: (-_sureness(row), row.fact, row.quantity))


def _sureness(row: Correlation) -> float:
    """Sort key: a single distant point makes a high Pearson, but not a high Spearman."""
    if row.pearson is None or row.spearman is None:
        return row.explained
    return min(row.pearson**2, row.spearman**2)


def _correlation(
    fact: str, quantity: str, pairs: Sequence[tuple[str, float]]
) -> Correlation | None:
    texts, values = [text for text, _ in pairs], [value for _, value in pairs]
    kinds = len(set(texts))
    if len(pairs) < LEAST_TRIALS or kinds < 2 or len(set(values)) < 2:
        return None
    numbers = [number for number in map(as_number, texts) if number is not None]
    if len(numbers) == len(texts):
        if len(set(numbers)) < 2:
            return None
        pearson = _pearson(numbers, values)
        spearman = _pearson(_ranks(numbers), _ranks(values))
        return Correlation(fact, quantity, len(pairs), pearson, spearman, pearson**2)
    if kinds == len(texts):
        return None
    return Correlation(fact, quantity, len(pairs), None, None, _eta_squared(texts, values))


def _pearson(first: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation; both must vary. The scale of the numbers does not affect rounding."""
    ones, others = _standard(first), _standard(other)
    return max(-1.0, min(1.0, math.fsum(a * b for a, b in zip(ones, others, strict=True))))


def _standard(values: Sequence[float]) -> list[float]:
    """The values shifted and scaled to mean 0 and Euclidean norm 1."""
    scale = max(map(abs, values)) or 1.0
    mean = math.fsum(value / scale for value in values) / len(values)
    apart = [value / scale - mean for value in values]
    length = math.sqrt(math.fsum(value * value for value in apart)) or 1.0
    return [value / length for value in apart]


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values get the mean of their ranks."""
    ordered = sorted(values)
    return [(bisect_left(ordered, x) + bisect_right(ordered, x) + 1) / 2 for x in values]


def _eta_squared(texts: Sequence[str], values: Sequence[float]) -> float:
    """Variance between the groups of equal texts, divided by the total variance."""
    mean = fmean(values)
    in_all = math.fsum((value - mean) ** 2 for value in values)
    groups: dict[str, list[float]] = {}
    for text, value in zip(texts, values, strict=True):
        groups.setdefault(text, []).append(value)
    between = math.fsum(len(group) * (fmean(group) - mean) ** 2 for group in groups.values())
    return min(1.0, between / in_all) if in_all else 0.0


def outliers(values: Sequence[float]) -> list[tuple[int, float]]:
    """Index and modified z-score of each outlier; empty for fewer than `LEAST_RUNS` values.

    The score is 0.6745 (x - median) / MAD, where MAD is the median distance from the median; if
    more than half of the values are equal, it is (x - median) / (1.2533 mean distance).

    Source:
        Iglewicz and Hoaglin, How to Detect and Handle Outliers, ASQC, 1993.
    """
    if len(values) < LEAST_RUNS:
        return []
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    spread = median(distances) / 0.6745 or 1.2533 * fmean(distances)
    if not spread > 0:
        return []
    scores = [(value - middle) / spread for value in values]
    return [(place, score) for place, score in enumerate(scores) if abs(score) > OUTLYING]
