"""Whether differences between repeated runs are more than noise, for many routines at once.

There are few runs and many routines: five runs per side, a thousand routines. The smallest p of a
rank test of five against five, 2/252, survives no Bonferroni or Holm correction over more than six
routines. Therefore all routines are tested together: the runs' labels are permuted, each
permutation gives the largest statistic that *any* routine has by chance, and an adjusted p is the
share of permutations whose largest statistic reaches the observed one (Westfall and Young's
step-down maxT). This controls the probability of one or more false alarms among all routines for
any noise and any dependence between routines, provided that runs are exchangeable: made
alternately, not one side in the morning and the other at night. All permutations are used if they
can be listed, otherwise a fixed set of 9,999.

Confidence intervals are exact, too: for a ratio, the Hodges-Lehmann interval (the inverted
Mann-Whitney test); for a median, between two order statistics.

NumPy is imported on demand.

Sources: Westfall, Young, Resampling-Based Multiple Testing, 1993; Hodges, Lehmann, Ann.
Math. Statist. 34, 1963; Holm, Scand. J. Statist. 6, 1979; Benjamini, Hochberg, JRSS B 57,
1995; the constant beside the standard error is that of Tusher, Tibshirani, Chu, PNAS 98,
2001.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Correction = Literal["maxt", "holm", "bh", "none"]
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)

MOST_SHUFFLES = 9_999
ENOUGH = 5
"""Recommended number of runs per side."""

STEADY = 0.02
"""Added to a difference's relative standard error, so that tiny differences of routines with
almost no variation do not get the largest statistics."""

_SEED = 20171


class Interval(NamedTuple):
    """A confidence interval with its actual confidence (0 to 1)."""

    low: float
    high: float
    confidence: float


def smallest_p(first: int, second: int) -> float:
    """The smallest two-sided p that these numbers of runs can give."""
    if not first or not second:
        return 1.0
    return min(1.0, 2 / math.comb(first + second, first))


def can_tell(first: int, second: int, alpha: float) -> bool:
    """Whether there are enough runs for any significant result at this level."""
    return smallest_p(first, second) <= alpha


def runs_needed(alpha: float) -> int:
    """Minimum number of runs per side; at least `ENOUGH`."""
    runs = 2
    while not can_tell(runs, runs, alpha):
        runs += 1
    return max(runs, ENOUGH)


# --- intervals -----------------------------------------------------------------


def ratio_interval(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> Interval | None:
    """The Hodges-Lehmann interval of the ratio second / first; None for too few runs.

    Exact if one side's distribution is the other's times a factor. None also if any value is not
    above 0.
    """
    if min(*first, *second, math.inf) <= 0:
        return None
    return _of_pairs([y / x for x in first for y in second], first, second, confidence)


def difference_interval(
    first: Sequence[float], second: Sequence[float], confidence: float = 0.95
) -> Interval | None:
    """The Hodges-Lehmann interval of the difference second - first; None for too few runs.

    Exact if one side's distribution is the other's, shifted.
    """
    return _of_pairs([y - x for x in first for y in second], first, second, confidence)


def _of_pairs(
    values: list[float], first: Sequence[float], second: Sequence[float], confidence: float
) -> Interval | None:
    cut = _interval_cut(len(first), len(second), confidence)
    if cut is None:
        return None
    below, reached = cut
    values.sort()
    return Interval(values[below - 1], values[-below], reached)


@lru_cache(maxsize=256)
def _interval_cut(first: int, second: int, confidence: float) -> tuple[int, float] | None:
    """The rank of the ordered pair at which the interval begins, from 1, and its confidence."""
    if first * second > 2500:  # the normal approximation is exact to all digits shown
        sigma = math.sqrt(first * second * (first + second + 1) / 12)
        z = _normal_quantile(0.5 + confidence / 2)
        return max(1, math.floor(first * second / 2 - z * sigma)), confidence
    counts = _rank_sum_counts(first, second)
    ways = math.comb(first + second, first)
    below, missed = 0, 0
    while below < len(counts) and 1 - 2 * (missed + counts[below]) / ways >= confidence:
        missed += counts[below]
        below += 1
    return (below, 1 - 2 * missed / ways) if below else None


def _rank_sum_counts(first: int, second: int) -> list[int]:
    """The number of orders of the runs for which Mann and Whitney's U is 0, 1, 2, ..."""
    # Number of partitions of u into at most `first` parts of at most `second`.
    counts = [1] + [0] * (first * second)
    for part in range(1, first + 1):
        for u in range(len(counts) - 1, second + part - 1, -1):
            counts[u] -= counts[u - second - part]
        for u in range(part, len(counts)):
            counts[u] += counts[u - part]
    return counts


def _normal_quantile(p: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


# --- tests ---------------------------------------------------------------------


class Tested(NamedTuple):
    """The p-values of each routine: single, and corrected for all routines."""

    p: list[float]
    adjusted: list[float]


def tested(
    first: Sequence[Sequence[float]],
    second: Sequence[Sequence[float]],
    correction: Correction = "maxt",
) -> Tested:
    """Two-sided permutation tests of equal distributions.

    Args:
        first, second: the runs' values, one sequence per routine, all equally long.
        correction: `maxt` and `holm` bound the probability of any false alarm, `bh` bounds the
            share of false ones among the alarms, `none` applies no correction.
    """
    import numpy as np

    if not len(first):
        return Tested([], [])
    values = np.concatenate(
        [np.asarray(first, dtype=float), np.asarray(second, dtype=float)], axis=1
    )
    single, joint = shuffled(values, len(first[0]))
    p = [float(value) for value in single]
    if correction == "maxt":
        return Tested(p, [float(value) for value in joint])
    return Tested(p, corrected(p, correction))


def shuffled(
    values: NDArray[np.float64], first: int, steady: float = STEADY
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each routine's p-value without correction, and adjusted by step-down maxT.

    Args:
        values: one row per routine, one column per run, the first side's runs first.
        first: number of the first side's runs.
    """
    import numpy as np

    runs = values.shape[1]
    # Relative to the mean over all runs, which no permutation changes: all routines weigh the same.
    means = np.abs(values).mean(axis=1, keepdims=True)
    scaled = values / np.where(means > 0, means, 1.0)
    masks = _shuffles(runs, first)
    seen = _statistics(scaled, masks[:1], steady)[0]
    order = np.argsort(-seen, kind="stable")
    bounds = seen[order] * (1 - 1e-9)  # a tolerance for sums in a different order
    alone = np.zeros(len(order))
    together = np.zeros(len(order))
    step = max(1, 4_000_000 // max(1, len(order)))
    for begin in range(0, len(masks), step):
        chance = _statistics(scaled, masks[begin : begin + step], steady)[:, order]
        alone += (chance >= bounds).sum(axis=0)
        # The largest among this routine and all with a smaller statistic.
        largest = np.maximum.accumulate(chance[:, ::-1], axis=1)[:, ::-1]
        together += (largest >= bounds).sum(axis=0)
    single, joint = np.empty(len(order)), np.empty(len(order))
    single[order] = alone / len(masks)
    joint[order] = np.maximum.accumulate(together / len(masks))
    return single, joint


def _statistics(
    scaled: NDArray[np.float64], masks: NDArray[np.float64], steady: float
) -> NDArray[np.float64]:
    """|difference of means| / (its standard error + steady): one row per permutation."""
    import numpy as np

    runs = scaled.shape[1]
    first = masks.sum(axis=1, keepdims=True)
    second = runs - first
    squares = scaled**2
    sum_one, squares_one = masks @ scaled.T, masks @ squares.T
    sum_two, squares_two = scaled.sum(axis=1) - sum_one, squares.sum(axis=1) - squares_one
    mean_one, mean_two = sum_one / first, sum_two / second
    spread_one = np.maximum(squares_one / first - mean_one**2, 0) / np.maximum(first - 1, 1)
    spread_two = np.maximum(squares_two / second - mean_two**2, 0) / np.maximum(second - 1, 1)
    statistics: NDArray[np.float64] = np.abs(mean_two - mean_one) / (
        np.sqrt(spread_one + spread_two) + steady
    )
    return statistics


@lru_cache(maxsize=8)
def _shuffles(runs: int, first: int) -> Any:
    """Masks of the runs labelled as the first side's: the true ones, then all or many others."""
    import numpy as np

    if math.comb(runs, first) <= MOST_SHUFFLES + 1:
        masks = np.zeros((math.comb(runs, first), runs))
        for row, chosen in enumerate(combinations(range(runs), first)):
            masks[row, list(chosen)] = 1
        return masks  # the first is the true labelling
    random = np.random.default_rng(_SEED)
    masks = np.zeros((MOST_SHUFFLES + 1, runs))
    masks[0, :first] = 1
    for row in range(1, MOST_SHUFFLES + 1):
        masks[row, random.permutation(runs)[:first]] = 1
    return masks


def corrected(p: Sequence[float], correction: Correction) -> list[float]:
    """Holm's or Benjamini and Hochberg's adjusted p-values, in the order given."""
    count = len(p)
    if correction not in ("holm", "bh"):
        return list(p)
    order = sorted(range(count), key=p.__getitem__)
    adjusted = [1.0] * count
    bound = 0.0
    if correction == "holm":
        for rank, at in enumerate(order):
            bound = max(bound, min(1.0, p[at] * (count - rank)))
            adjusted[at] = bound
        return adjusted
    bound = 1.0
    for rank in range(count - 1, -1, -1):
        at = order[rank]
        bound = min(bound, p[at] * count / (rank + 1))
        adjusted[at] = bound
    return adjusted
