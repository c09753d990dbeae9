"""A sequential test of pairs of runs: decides early, without more errors.

Baseline and candidate run alternately; each pair of runs is beyond a condition's limit or within
it. Without a change beyond the limit, a pair is beyond it with a probability of at most 1/2 (the
limit bounds the median change). Betting against this, with the Krichevsky-Trofimov mixture over
that probability, yields a wealth that ever exceeds 1/alpha with a probability of at most alpha,
however often one looks (Ville's inequality). The gate may therefore look after every pair and stop
as soon as it can decide. Nothing is assumed about the noise except that pairs are independent and
identically distributed.

The intervals are confidence sequences of the median change, from the same wealth: they are valid
at all times simultaneously.

Sources: Krichevsky, Trofimov, IEEE Trans. Inf. Theory 27, 1981; Howard, Ramdas, Bernoulli
28(3), 2022 (quantiles at all times); Ramdas et al., Statistical Science 38(4), 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from taupy.analysis.compare import median
from taupy.analysis.significance import Interval
from taupy.study.conditions import (
    Condition,
    RowRuns,
    Ruling,
    Verdict,
    exact_ruling,
    in_order,
    relative_change,
)

FEWEST_EXACT = 3
"""Minimum number of pairs for equal counts to be considered exact."""


def wealth(beyond: int, pairs: int) -> float:
    """The wealth, starting from 1, if `beyond` of the pairs are beyond the limit: the mixture of
    2^pairs share^beyond (1 - share)^(pairs - beyond) over all shares."""
    log = (
        pairs * math.log(2)
        + math.lgamma(beyond + 0.5)
        + math.lgamma(pairs - beyond + 0.5)
        - math.lgamma(pairs + 1)
        - math.log(math.pi)
    )
    return math.exp(min(log, 700.0))


def fewest_pairs(alpha: float) -> int:
    """The smallest number of pairs that can lead to a decision: all of them on one side."""
    pairs = 1
    while wealth(0, pairs) < 1 / alpha:
        pairs += 1
    return pairs


def decision(beyond: Sequence[bool], level: float) -> tuple[Verdict, int, float]:
    """The decision from pairs that are beyond the limit or not; the first decision is final.

    Returns:
        The verdict, the number of pairs after which it was reached, and the largest wealth.
    """
    outside, most = 0, 1.0
    for pairs, lies_beyond in enumerate(beyond, 1):
        outside += lies_beyond
        now = wealth(outside, pairs)
        most = max(most, now)
        if now >= 1 / level:
            return ("fails" if 2 * outside > pairs else "passes"), pairs, most
    return "undecided", len(beyond), most


MOST_FORESEEN = 10_000


def pairs_to_go(beyond: int, pairs: int, level: float) -> int | None:
    """How many more pairs a decision takes if as large a share of them lies beyond the limit as of
    those before; None for more than `MOST_FORESEEN`."""
    share = beyond / pairs if pairs else 0.0
    for more in range(1, MOST_FORESEEN + 1):
        if wealth(round(beyond + share * more), pairs + more) >= 1 / level:
            return more
    return None


def spread(values: Sequence[float]) -> float:
    """By how much ratios typically differ from their median, relative to it."""
    middle = median(values)
    return median([abs(value / middle - 1) for value in values])


def median_sequence(values: Sequence[float], alpha: float) -> Interval | None:
    """The confidence interval of the median after all of `values`, valid however often one has
    looked before. None for too few values.
    """
    low, high = -math.inf, math.inf
    for pairs in range(fewest_pairs(alpha), len(values) + 1):
        ordered = sorted(values[:pairs])
        outside = 0  # order statistics that may be left out at either end
        while wealth(outside + 1, pairs) >= 1 / alpha and 2 * (outside + 1) < pairs:
            outside += 1
        low, high = max(low, ordered[outside]), min(high, ordered[pairs - 1 - outside])
    return Interval(low, high, 1 - alpha) if low > -math.inf else None


def judged(
    condition: Condition,
    rows: Iterable[RowRuns],
    unit: str,
    alpha: float = 0.05,
    families: int = 1,
) -> list[Ruling]:
    """Judge all rows of a condition after any number of pairs, like `gate.judged`.

    The probability of one or more false failures in all `families` conditions, over all looks, is
    at most `alpha`, and so is that of falsely passing a row.

    Args:
        rows: run n of the first side and run n of the second form a pair.
    """
    amount = condition.in_unit(unit)
    candidates = list(rows)
    level = alpha / families / max(1, len(candidates))
    return in_order([_ruling(condition, row, amount, level) for row in candidates])


def _ruling(condition: Condition, row: RowRuns, amount: float, level: float) -> Ruling:
    ruling = exact_ruling(condition, row, amount)
    if ruling is not None and len(row.first) >= FEWEST_EXACT:
        return ruling
    pairs = list(zip(row.first, row.second, strict=False))
    beyond = [bool(condition.met(before, after, amount)) for before, after in pairs]
    verdict, count, most = decision(beyond, level)
    fewest = fewest_pairs(level)
    why = f"{sum(beyond[:count])} of {count} pairs lie beyond the limit"
    if verdict == "undecided" and len(pairs) < fewest:
        why = f"too few pairs to tell: {len(pairs)}, and {fewest} are needed"
    elif verdict == "undecided":
        more = pairs_to_go(sum(beyond), count, level)
        many = f"more than {MOST_FORESEEN:,}" if more is None else f"about {more:,}"
        why += f"; at this noise it takes {many} more"
    first, second = median(row.first), median(row.second)
    change = relative_change(first, second)
    interval = None
    if min(*row.first, *row.second) > 0:
        ratios = [after / before for before, after in pairs]
        interval = median_sequence(ratios, level)
        change = median(ratios) - 1
    p = min(1.0, 1 / most)
    return Ruling(
        condition, row.name, first, second, verdict, why, change=change, interval=interval, p=p
    )
