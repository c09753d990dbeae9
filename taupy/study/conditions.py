"""Conditions of `--fail-on`: parse them, and judge the rows of a comparison.

    time > +5%                       any routine or kernel, or the whole, takes 5 % more
    total time > +5%                 the whole only
    each time > +5%                  routines and kernels only
    time of Net.forward > +5%        inclusive, as seen from outside
    exclusive time of *gemm* > +10%
    calls of load > +0               no more calls than before
    flop_tensor < -5%                less is worse
    time of step > +2 ms             a change in the metric's own unit
    time of step > 20 ms             no sign: the value itself, not its change
    maximum of Resident Memory > +10%  a statistic of a user event
    duration > +5%                   the trial from start to end

A percentage is always a change. `analysis/significance.py` decides whether there are enough runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from taupy.analysis import significance
from taupy.analysis.compare import median
from taupy.analysis.significance import Interval
from taupy.errors import UsageError
from taupy.model.metric import Metric

Scope = Literal["all", "total", "each"]
Value = Literal["inclusive", "exclusive"]
Verdict = Literal["fails", "undecided", "passes"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The worst first."""

COUNTS = ("calls", "subroutines")
"""Quantities that are counted, not timed: if all runs agree, there is no noise."""

STATISTICS = ("mean", "samples", "minimum", "maximum", "sum")
"""Statistics of user events, as in `maximum of EVENT`."""

DURATION = "duration"

FAILED = 3
UNDECIDED = 4
"""Exit codes: a condition is met; there are too few runs to decide whether one is."""

NOTHING = "no row that every run of both sides has"
"""Why a condition is undecided that judged nothing."""

_CONDITION = re.compile(
    r"""\s*
    (?:(?P<scope>total|each)\s+)?
    (?:(?P<value>inclusive|exclusive)\s+)?
    (?P<metric>"[^"]+"|[^\s"<>]+)
    (?:\s+of\s+(?P<pattern>"[^"]+"|.+?))?
    \s*(?P<sense>[<>])\s*
    (?P<amount>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    \s*(?P<unit>%|[A-Za-z][\w/*^%]*)?\s*""",
    re.VERBOSE,
)

_SCALES = (
    {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9},
    {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
)

GRAMMAR = (
    "write [total|each] [inclusive|exclusive] METRIC [of ROUTINE] >|< AMOUNT, such as "
    "'time > +5%', 'time of forward > +2 ms', 'calls of load > +0', 'maximum of EVENT > +10%'"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of `--fail-on`.

    Attributes:
        text: as the user wrote it.
        scope: always "each" if there is a pattern.
        value: which value of routines; None if not stated.
        pattern: names of routines and kernels, or of user events; None for all.
        rises: True for `>`.
        amount: a fraction if `percent` (0.05 for 5 %), otherwise a number of `unit`; `in_unit`
            converts it to the metric's unit.
        percent: whether the amount is a share of the first side's value.
        change: whether the amount is a change, not a value.
        unit: as written; empty for none.
        of_event: whether `metric` is one of `STATISTICS`, for user events.
    """

    text: str
    metric: str
    rises: bool
    amount: float
    percent: bool
    change: bool
    scope: Scope = "all"
    value: Value | None = None
    pattern: str | None = None
    unit: str = ""
    of_event: bool = False

    @property
    def counted(self) -> bool:
        """Whether its values are counts."""
        return self.metric == "samples" if self.of_event else self.metric in COUNTS

    def in_unit(self, unit: str) -> float:
        """The amount in the metric's unit.

        Raises:
            UsageError: the condition's unit does not fit the metric.
        """
        if self.percent or self.unit == unit:
            return self.amount
        scales = next((scales for scales in _SCALES if unit in scales), {})
        if self.unit in scales:
            return self.amount * scales[self.unit] / scales[unit]
        if not self.unit and (self.amount == 0 or not scales):
            return self.amount
        unit_names = ", ".join([*(scales or [unit]), "%"]) if unit else "%"
        problem = f"'{self.unit}' is not a unit of it" if self.unit else "its amount needs a unit"
        raise UsageError(f"--fail-on '{self.text}': {self.metric} is in {unit_names}; {problem}")

    def met(self, first: float | None, second: float | None, amount: float) -> bool | None:
        """Whether these values meet the condition; None if one is absent."""
        if second is None or (self.change and first is None):
            return None
        if not self.change:
            return second > amount if self.rises else second < amount
        assert first is not None
        change = second - first
        bound = amount * abs(first) if self.percent else amount
        return change > bound if self.rises else change < bound


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        UsageError: it is not a condition; the message explains how to write one.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-on '{text}' is not a condition: {GRAMMAR}")
    pattern = _unquoted(match["pattern"])
    if pattern is not None and match["scope"] == "total":
        raise UsageError(f"--fail-on '{text}': use either `total` or a routine, not both")
    of_event = match["metric"] in STATISTICS and pattern is not None
    if of_event and match["value"]:
        raise UsageError(
            f"--fail-on '{text}': user events are neither inclusive nor exclusive; "
            f"remove '{match['value']}'"
        )
    if match["metric"] == DURATION and (pattern is not None or match["value"]):
        raise UsageError(f"--fail-on '{text}': only trials have a duration; for a routine use time")
    amount = float(match["amount"])
    percent = match["unit"] == "%"
    signed = match["amount"][0] in "+-"
    change = percent or signed
    rises = match["sense"] == ">"
    if change and (amount < 0 if rises else amount > 0):
        says = "more than it was" if rises else "less than it was"
        raise UsageError(
            f"--fail-on '{text}': '{match['sense']}' is for changes to {says}; "
            f"write {match['sense']} {'+' if rises else '-'}{abs(amount):g}{match['unit'] or ''}"
        )
    return Condition(
        text=text.strip(),
        metric=_unquoted(match["metric"]) or "",
        rises=rises,
        amount=amount / 100 if percent else amount,
        percent=percent,
        change=change,
        scope="each" if pattern is not None else match["scope"] or "all",  # type: ignore[arg-type]
        value=match["value"],  # type: ignore[arg-type]
        pattern=pattern,
        unit="" if percent else match["unit"] or "",
        of_event=of_event,
    )


def _unquoted(text: str | None) -> str | None:
    return text[1:-1] if text and len(text) > 1 and text[0] == text[-1] == '"' else text


class RowRuns(NamedTuple):
    """A row that a condition applies to: its name, and each side's runs."""

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]


class Applies(NamedTuple):
    """The rows that a condition applies to.

    Attributes:
        metric: metric of the values; `own`: exceptions by row.
        left: names of rows missing in some run.
        warnings: where the names of the sides hardly match.
        kernels: full names of the kernels among the rows.
    """

    rows: list[RowRuns]
    metric: Metric
    left: Sequence[str] = ()
    own: Mapping[str, Metric] = {}
    warnings: Sequence[str] = ()
    kernels: Sequence[str] = ()


class Ruling(NamedTuple):
    """The outcome of one condition for one row.

    Attributes:
        change: relative to the first side; None if that is 0. With an interval, it is the estimate
            that belongs to it, which need not be that of the medians.
        interval: of the ratio second / first; None if a value is 0 or there are too few runs.
        p: p-value of a change no larger than the limit, adjusted for all rows of the condition;
            None if not tested.
        why: the basis of the verdict, if that is not p.
        metric: of the values.
    """

    condition: Condition
    name: str
    first: float
    second: float
    verdict: Verdict
    why: str = ""
    change: float | None = None
    interval: Interval | None = None
    p: float | None = None
    metric: Metric = Metric("", "")

    @property
    def rank(self) -> int:
        """The position of its verdict in `VERDICTS`: 0 if it fails."""
        return VERDICTS.index(self.verdict)


def judged(
    condition: Condition,
    rows: Iterable[RowRuns],
    unit: str,
    alpha: float = 0.05,
    families: int = 1,
) -> list[Ruling]:
    """Judge all rows of a condition.

    A condition on a change has three outcomes. It *fails* if the confidence interval of the
    change is entirely beyond the limit and a joint test of all rows is significant: the
    probability of one or more false failures in all `families` conditions is at most `alpha`. It
    *passes* if the interval is entirely within the limit; the condition as a whole passes only if
    all of its rows do, which needs no correction. Otherwise it is *undecided*. Counts that agree
    in all runs of each side need no test, and neither does a condition on the value itself.

    Args:
        rows: rows that every run has.
        families: how many conditions share `alpha`.
    """
    amount, level = condition.in_unit(unit), alpha / families
    candidates = list(rows)
    exact = [exact_ruling(condition, row, amount) for row in candidates]
    noisy = [row for row, ruling in zip(candidates, exact, strict=True) if ruling is None]
    # The first side is moved to the limit (`> +5%`: times 1.05). The test of all rows together is
    # then whether the second side differs from it.
    limits = [
        [value + (amount * abs(value) if condition.percent else amount) for value in row.first]
        for row in noisy
    ]
    p: Sequence[float | None] = [None] * len(noisy)
    if noisy and significance.can_tell(len(noisy[0].first), len(noisy[0].second), level):
        p = significance.tested(limits, [row.second for row in noisy]).adjusted
    tested = (
        _tested(condition, row, limit, p_of_row, alpha, level)
        for row, limit, p_of_row in zip(noisy, limits, p, strict=True)
    )
    return in_order([ruling or next(tested) for ruling in exact])


def _tested(
    condition: Condition,
    row: RowRuns,
    limit: Sequence[float],
    p: float | None,
    alpha: float,
    level: float,
) -> Ruling:
    """The ruling by where the interval of the change lies, as seen from the limit."""
    first, second = median(row.first), median(row.second)
    verdict: Verdict = "undecided"
    why = ""
    if p is None:
        why = _too_few(len(row.first), len(row.second), level)
    else:
        apart = significance.difference_interval(limit, row.second, 1 - alpha)
        low, high = (apart.low, apart.high) if apart else (-math.inf, math.inf)
        if not condition.rises:
            low, high = -high, -low
        if high <= 0:
            verdict = "passes"
        elif low <= 0:
            why = "the limit is inside the interval; more runs narrow it"
        elif p <= level:
            verdict = "fails"
        else:
            why = "with so many rows, one may be this far beyond by chance"
    change, interval = relative_change(first, second), None
    if len(row.first) > 1 and len(row.second) > 1:
        interval = significance.ratio_interval(row.first, row.second, 1 - alpha)
    if interval is not None:
        change = median([y / x for x in row.first for y in row.second]) - 1
    return Ruling(condition, row.name, first, second, verdict, why, change, interval, p)


def in_order(rulings: Iterable[Ruling]) -> list[Ruling]:
    """Sort failures first, then undecided rulings; large changes first."""
    return sorted(rulings, key=lambda ruling: (ruling.rank, -abs(ruling.second - ruling.first)))


def exact_ruling(condition: Condition, row: RowRuns, amount: float) -> Ruling | None:
    """The ruling without a test: on a value itself, or on counts that agree in all runs of each
    side. None if noise must be distinguished from a change."""
    agree = len(set(row.first)) == 1 and len(set(row.second)) == 1
    if condition.change and not (condition.counted and agree):
        return None
    why = "all runs agree" if condition.change else "the median itself"
    return without_test(condition, row.name, median(row.first), median(row.second), amount, why)


def without_test(
    condition: Condition,
    name: str,
    first: float | None,
    second: float | None,
    amount: float,
    why: str = "",
) -> Ruling:
    """The ruling on values without noise; undecided if a kernel's code does not tell one."""
    met = condition.met(first, second, amount)
    return Ruling(
        condition,
        name,
        first=math.nan if first is None else first,
        second=math.nan if second is None else second,
        verdict="undecided" if met is None else "fails" if met else "passes",
        why="the code does not tell" if met is None else why,
        change=relative_change(first, second),
    )


def relative_change(first: float | None, second: float | None) -> float | None:
    """Relative to the first value; None if that is 0, or one is not known."""
    return (second - first) / abs(first) if first and second is not None else None


def unjudged(condition: Condition) -> Ruling:
    """The ruling on a condition that no row of both sides meets: it is not passed."""
    return Ruling(condition, "(nothing)", math.nan, math.nan, "undecided", NOTHING)


def _too_few(first: int, second: int, alpha: float) -> str:
    needed = significance.runs_needed(alpha)
    smallest = significance.smallest_p(first, second)
    return (
        f"too few runs to tell: the smallest achievable p-value of {first} against {second} is "
        f"{smallest:.2g}; make {needed} per side"
    )


def outcome(rulings: Sequence[Ruling]) -> int:
    """The exit code: `FAILED` if any row fails, else `UNDECIDED` if any is undecided, else 0."""
    worst = min((ruling.rank for ruling in rulings), default=len(VERDICTS) - 1)
    return (FAILED, UNDECIDED, 0)[worst]
