"""Verdicts on a comparison's rows from repeated runs: a real change, noise, or too few runs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taupy.analysis import significance
from taupy.analysis.compare import Row, median
from taupy.analysis.significance import Correction, Interval
from taupy.comparison.comparison import ComparedTable
from taupy.errors import UsageError

Word = Literal["more", "less", "same", "unclear"]

MIN_EFFECT = 0.05
MIN_SHARE = 0.01
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Rule:
    """When a difference is significant.

    Attributes:
        alpha: probability of one or more false alarms among all rows of a table.
        min_effect: smaller relative changes count as "same", however certain.
        min_share: rows below this share of the whole (over all runs) are not tested: they matter
            little and reduce the power for other rows.
    """

    alpha: float = ALPHA
    min_effect: float = MIN_EFFECT
    min_share: float = MIN_SHARE
    correction: Correction = "maxt"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise UsageError(f"alpha must be between 0 and 1, not {self.alpha!r}")
        if not (self.min_effect >= 0 and self.min_share >= 0):
            raise UsageError("min_effect and min_share must be numbers of at least 0")


_FEW_PAIRS = 400
"""With more pairs of runs than this, only tested rows get intervals."""


class Verdict(NamedTuple):
    """Verdict on one row of one side, compared with the first side.

    Attributes:
        p: p-value of the row alone; `adjusted` for all rows tested. None if not tested.
        interval: confidence interval of the ratio.
        word: empty if not tested.
        untested: why it was not tested; empty if it was.
    """

    p: float | None
    adjusted: float | None
    interval: Interval | None
    word: Word | Literal[""]
    untested: str = ""


def verdicts(answer: ComparedTable, side: int, rule: Rule) -> dict[Hashable, Verdict]:
    """Verdicts by key, for rows with several runs on both sides."""
    comparison = answer.comparison
    of_sides = comparison.rows.sides
    if min(len(of_sides[0]), len(of_sides[side])) < 2:
        return {}
    rows = [*comparison.rows]
    whole = comparison.totals
    counts = len(whole[0]) if whole else 0, len(whole[side]) if whole else 0
    least = 0.0
    if whole and comparison.additive:
        least = rule.min_share * median([*whole[0], *whole[side]])
    tested = [row for row in rows if _complete(row, side) and _middle(row, side) >= least]
    p: dict[Hashable, tuple[float, float]] = {}
    if tested:
        counts = len(tested[0].runs[0]), len(tested[0].runs[side])
        if significance.can_tell(*counts, rule.alpha):
            # Each comparison with the first side is another chance of a false alarm.
            others = comparison.sides - 1
            tests = significance.tested(
                [row.runs[0] for row in tested], [row.runs[side] for row in tested], rule.correction
            )
            p = {
                row.key: (p_alone, min(1.0, both * others))
                for row, p_alone, both in zip(tested, tests.p, tests.adjusted, strict=True)
            }
    verdict_of: dict[Hashable, Verdict] = {}
    large = {row.key for row in tested}
    for row in rows:
        interval = None
        pairs = len(row.runs[0]) * len(row.runs[side])
        if _complete(row, side) and (pairs <= _FEW_PAIRS or row.key in large):
            interval = significance.ratio_interval(row.runs[0], row.runs[side], 1 - rule.alpha)
        alone, adjusted = p.get(row.key, (None, None))
        untested = ""
        if not _complete(row, side):
            untested = "not in every run"
        elif row.key not in large:
            untested = f"below {100 * rule.min_share:g} %"
        elif row.key not in p:
            untested = "too few runs"
        verdict_of[row.key] = Verdict(
            alone, adjusted, interval, _word(row, side, adjusted, interval, rule), untested
        )
    return verdict_of


def _complete(row: Row[Hashable], side: int) -> bool:
    """Does every run have a value? A test needs all of them."""
    return all(math.isfinite(value) for value in (*row.runs[0], *row.runs[side]))


def _middle(row: Row[Hashable], side: int) -> float:
    """Computed over all runs of both sides, so that the choice does not depend on the labels."""
    values = [*row.runs[0], *row.runs[side]]
    return sum(values) / len(values)


def _word(
    row: Row[Hashable],
    side: int,
    adjusted: float | None,
    interval: Interval | None,
    rule: Rule,
) -> Word | Literal[""]:
    ratio = row.ratio(side)
    if adjusted is None or ratio is None:
        return ""
    if adjusted <= rule.alpha:
        if abs(ratio - 1) < rule.min_effect:
            return "same"
        return "more" if ratio > 1 else "less"
    if interval is not None and max(abs(interval.low - 1), abs(interval.high - 1)) < (
        rule.min_effect
    ):
        return "same"
    return "unclear"


def too_few(sides: Sequence[int], alpha: float) -> str | None:
    """A note on too few runs; None if there are enough.

    Args:
        sides: number of trials of each side.
    """
    first, *others = sides
    fewest = min(others)
    if significance.can_tell(first, fewest, alpha):
        return None
    needed = significance.runs_needed(alpha)
    if first == fewest == 1:
        return (
            "one run per side: changes cannot be distinguished from noise; "
            f"use `taupy run --repeat {needed}` for both sides"
        )
    smallest = significance.smallest_p(first, fewest)
    return (
        f"too few runs to tell: the smallest achievable p-value of {first} against {fewest} is "
        f"{smallest:.2g}, above {alpha:g}; make {needed} per side (`taupy run --repeat {needed}`)"
    )
