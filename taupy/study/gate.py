"""The gate: test the conditions of `--fail-on` on trials of the database."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

from taupy import units
from taupy.answers.compare import Compared
from taupy.comparison import cpu_share
from taupy.comparison.comparison import ComparedTable, ComparisonOptions, answers, warnings
from taupy.comparison.sides import Side, both_sided
from taupy.errors import MissingMetric, UsageError
from taupy.escaping import visible
from taupy.model.kernel_names import is_kernel
from taupy.model.metric import CPU_TIME, NOT_ROUTINES, Metric
from taupy.pprof.selection import name_test
from taupy.study import conditions as gate
from taupy.study import gate_work, sequential
from taupy.study.conditions import Applies, Condition, RowRuns, Ruling
from taupy.units import listing

_WHERE = {"host": " on the host", "gpu": " on the GPU", None: ""}

Judge = Callable[[Condition, Sequence[RowRuns], str, float, int], list[Ruling]]


class Judgement(NamedTuple):
    """The rulings of all conditions.

    Attributes:
        apart: by condition, rows that were not judged because a run or a side lacks them.
        warnings: where the names of the sides hardly match.
        kernels: full names of the kernels among the rows.
    """

    judged: list[Ruling]
    apart: list[str]
    warnings: Sequence[str] = ()
    kernels: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        return gate.outcome(self.judged)

    @property
    def summary(self) -> str:
        """`judged 3: 1 failed, 0 undecided, 2 passed`; a condition without rows counts as
        undecided, not as judged."""
        counts = Counter(ruling.verdict for ruling in self.judged)
        judged = sum(ruling.why != gate.NOTHING for ruling in self.judged)
        return (
            f"judged {judged}: {counts['fails']} failed, "
            f"{counts['undecided']} undecided, {counts['passes']} passed"
        )


class Conclusion(NamedTuple):
    """The outcome of a judgement.

    Attributes:
        word: PASSED, FAILED or UNDECIDED, and the reason if that differs from the rulings.
        code: the exit code.
    """

    word: str
    notes: list[str]
    code: int


def judge(
    compared: Compared, conditions: Sequence[Condition], judged_rows: Judge = gate.judged
) -> Judgement:
    """Test every condition for every side, compared with the first.

    Args:
        compared: its options say how to match names and combine threads; metric and value come
            from the condition.
        judged_rows: judges the rows of one condition: `gate.judged` for finished measurements,
            `sequential.judged` for pairs of runs as they complete.

    Raises:
        UsageError: a pattern matches nothing, or a trial lacks a condition's metric.
    """
    sides, alpha = compared.sides, compared.options.alpha
    # A limit on the value itself is not tested statistically and cannot raise a false alarm.
    families = max(1, sum(condition.change for condition in conditions)) * (len(sides) - 1)
    judged: list[Ruling] = []
    apart: dict[str, None] = {}
    names_apart: dict[str, None] = {}
    kernels: list[str] = []
    shares = cpu_share.cpu_shares(compared.db, sides)
    for condition, at in product(conditions, range(1, len(sides))):
        pair = replace(compared, sides=[sides[0], sides[at]])
        sides_rows = (_of_events if condition.of_event else _candidates)(pair, condition)
        level = (sides_rows.metric.unit, alpha, families)
        rulings = judged_rows(condition, sides_rows.rows, *level) or [gate.unjudged(condition)]
        both = (shares[0], shares[at])
        slowed = (
            cpu_share.slowed(sides[0], sides[at], both) if is_elapsed(sides_rows.metric) else ()
        )
        if sides_rows.rows and slowed not in ((), (1.0, 1.0)):
            free = judged_rows(condition, _unslowed(sides_rows.rows, *slowed), *level)
            rulings = _that_stand(rulings, free, _why_busy(pair.sides, both, *slowed))
        for ruling in rulings:
            metric = sides_rows.own.get(ruling.name, sides_rows.metric)
            name = ruling.name if len(sides) == 2 else f"{sides[at].letter}: {ruling.name}"
            judged.append(ruling._replace(name=name, metric=metric))
        names_apart |= dict.fromkeys(sides_rows.warnings)
        kernels += sides_rows.kernels
        if sides_rows.left:
            shown = listing(sides_rows.left, 5)
            apart[f"'{condition.text}': not judged, because not in every run: {shown}"] = None
    judged.sort(key=lambda ruling: ruling.rank)
    return Judgement(judged, list(apart), list(names_apart), kernels)


# --- a busier machine ------------------------------------------------------------


def on_cpu_time(condition: Condition) -> Condition:
    """The same condition on CPU time, which other programs on the machine change little."""
    text = condition.text.replace(condition.metric, CPU_TIME.name, 1)
    return replace(condition, text=text, metric=CPU_TIME.name)


def spreads(compared: Compared) -> tuple[float, float] | None:
    """By how much elapsed and CPU time of the whole program differ from pair to pair, relative to
    their medians. None if unknown."""
    first, second = cpu_share.cpu_shares(compared.db, compared.sides)
    if first is None or second is None:
        return None
    used = list(zip(first.cpu_ns, second.cpu_ns, strict=False))
    shares = list(zip(first.shares, second.shares, strict=False))
    if not used or min(map(min, used)) <= 0:
        return None
    on_cpu = [after / before for before, after in used]
    of_shares = [before / after for before, after in shares]
    elapsed = [ratio * share for ratio, share in zip(on_cpu, of_shares, strict=True)]
    return sequential.spread(elapsed), sequential.spread(on_cpu)


def is_elapsed(metric: Metric) -> bool:
    """Whether a busier machine makes it larger."""
    return metric.unit == "ns" and metric.name != CPU_TIME.name


def _unslowed(rows: Iterable[RowRuns], first: float, second: float) -> list[RowRuns]:
    """The rows as if both sides had had the same share of the CPU; twice over, because others do
    not slow every routine alike."""
    return [
        RowRuns(
            name,
            tuple(value / first**2 for value in before),
            tuple(value / second**2 for value in after),
        )
        for name, before, after in rows
    ]


def _that_stand(rulings: Sequence[Ruling], free: Iterable[Ruling], why: str) -> list[Ruling]:
    """Rulings that a busier machine could have made are undecided."""
    otherwise = {ruling.name: ruling.verdict for ruling in free}
    return gate.in_order(
        ruling
        if ruling.verdict in ("undecided", otherwise[ruling.name])
        else ruling._replace(verdict="undecided", why=why)
        for ruling in rulings
    )


def _why_busy(
    pair: Sequence[Side],
    shares: Sequence[cpu_share.CpuShares | None],
    slowed_first: float,
    slowed_second: float,
) -> str:
    first, second = (share.middle for share in shares if share is not None)
    busier = pair[0] if slowed_first > 1 else pair[1]
    return (
        f"CPU time / elapsed time is {first:.2f} in {pair[0].letter} and {second:.2f} in "
        f"{pair[1].letter}: the machine was busier for {busier.letter}, or it waits more; a "
        "condition on cpu_time tells"
    )


# --- the conclusion --------------------------------------------------------------


def concluded(
    compared: Compared,
    judgement: Judgement,
    allowed: Collection[str] = (),
    undecided: Literal["pass", "fail"] | None = None,
    database: str = "",
) -> Conclusion:
    """The outcome of the judgement, given how the trials were measured.

    Args:
        allowed: permitted kinds of differences, or "all".
        undecided: how to treat an undecided gate.
        database: what commands need to find it, such as ` --db FILE`.
    """
    against = [("", difference) for difference in compared.apart]
    against += [(f"the trials of {letter} differ: ", apart) for letter, apart in compared.within]
    forbidden = [
        (whose, difference)
        for whose, difference in against
        if not {difference.kind, "all"} & {*allowed}
    ]
    notes = [f"not comparable: {whose}{difference.text}" for whose, difference in forbidden]
    notes += [f"not comparable: trial {id} is on both sides" for id in both_sided(compared.sides)]
    if forbidden:
        kinds = ",".join(dict.fromkeys(difference.kind for _, difference in forbidden))
        notes.append(f"to allow these differences: --allow {kinds}")
    concluded_so = conclusion(judgement, undecided, notes)
    failed = {ruling.condition for ruling in judgement.judged if ruling.verdict == "fails"}
    if any(
        condition.rises and condition.change and condition.pattern is None for condition in failed
    ):
        concluded_so.notes.extend(_grown(compared, database))
    return concluded_so


def _grown(compared: Compared, database: str) -> Iterator[str]:
    """The routine that grew most, and the command that shows where."""
    grown = [
        ((row.values[at] or 0) - (row.values[0] or 0), answer, row, at)
        for answer in compared.answers
        if answer.comparison.additive
        for row in answer.comparison.rows
        if answer.keys[row.key].timer not in NOT_ROUTINES
        for at in range(1, len(compared.sides))
    ]
    more, answer, row, at = max(grown, key=lambda growth: growth[0], default=(0, None, None, 0))
    if more <= 0 or answer is None or row is None:
        return
    key = answer.keys[row.key]
    sides = compared.sides[0], compared.sides[at]
    first, second = (
        units.duration(value or 0) if answer.metric.unit == "ns" else units.tau_count(value or 0)
        for value in (row.values[0], row.values[at])
    )
    ids = " ".join(str(side.trials[-1].id) for side in sides)
    yield (
        f"grew most: {visible(key.short_name)}, {answer.value} {answer.metric.name} {first} -> "
        f"{second}; next: taupy compare {ids} --by callpath --filter "
        f"{shlex.quote(key.short_name)}{database}"
    )


def conclusion(
    judgement: Judgement,
    undecided: Literal["pass", "fail"] | None = None,
    obstacles: Sequence[str] = (),
) -> Conclusion:
    """The outcome of the judgement; with obstacles to a comparison, it is undecided."""
    code = gate.UNDECIDED if obstacles else judgement.exit_code
    word = {0: "PASSED", gate.FAILED: "FAILED", gate.UNDECIDED: "UNDECIDED"}[code]
    if obstacles:
        word += " (not comparable)"
    if code == gate.UNDECIDED and undecided is not None:
        word += f" (counts as {undecided}: --undecided {undecided})"
        code = 0 if undecided == "pass" else gate.FAILED
    return Conclusion(word, [judgement.summary, *obstacles, *judgement.apart], code)


# --- the rows of a condition -----------------------------------------------------


def _candidates(pair: Compared, condition: Condition) -> Applies:
    db, sides = pair.db, pair.sides
    if condition.metric == gate.DURATION:
        runs = [tuple(float(trial.duration_ns) for trial in side.trials) for side in sides]
        return Applies([RowRuns("duration", *runs)], Metric("duration", "ns"))
    if condition.metric == CPU_TIME.name and condition.scope == "total":
        used = [side.cpu_ns for side in cpu_share.cpu_shares(db, sides) if side is not None]
        if len(used) == len(sides):
            return Applies([RowRuns("total on the host", *used)], CPU_TIME)
    is_meant = _meant(condition)
    try:
        of_tables = answers(db, sides, _question_of(condition, pair.options))
    except MissingMetric as problem:
        # Flop or bytes that no counter counted.
        noted = gate_work.noted(db, sides, condition, is_meant)
        if noted is None:
            raise UsageError(f"--fail-on '{condition.text}': {problem}") from None
        if is_meant and not noted.rows and not noted.left:
            raise UsageError(
                f"--fail-on '{condition.text}': no routine with {condition.metric} matches "
                f"'{condition.pattern}'"
            ) from None
        return noted
    names: set[str] = set()
    rows: list[RowRuns] = []
    kernels: list[str] = []
    left: list[str] = []
    for answer in of_tables:
        whole = answer.comparison.whole
        if condition.scope in ("all", "total") and whole is not None:
            rows.append(RowRuns(f"total{_WHERE[answer.where]}", *whole.runs))
        if condition.scope == "total":
            continue
        least = 0.0 if is_meant else _least(answer, pair.options.min_share)
        for row in answer.comparison.rows:
            key = answer.keys[row.key]
            if is_meant and not is_meant(key.timer, key.short_name):
                continue
            name = f"{key.timer} ({key.groups})" if key.timer in names else key.timer
            values = [value for side in row.runs for value in side]
            if not all(map(math.isfinite, values)):
                if is_meant or max(value or 0 for value in row.values) >= least:
                    left.append(name)
            elif sum(values) / len(values) >= least:
                names.add(name)
                kernels += [key.timer] if is_kernel(key.groups) else []
                rows.append(RowRuns(name, *row.runs))
    if is_meant and not rows and not left:
        raise UsageError(_nothing(condition, of_tables))
    if not rows and condition.scope == "total":
        raise UsageError(
            f"--fail-on '{condition.text}': {condition.metric} has no total, because it is not "
            "additive; name a routine or kernel with `of`"
        )
    apart = warnings(sides, of_tables)
    return Applies(rows, of_tables[0].metric, left, warnings=apart, kernels=kernels)


def _of_events(pair: Compared, condition: Condition) -> Applies:
    of_condition = replace(pair.options, by="event", value=condition.metric, filter=())  # type: ignore[arg-type]
    (answer,) = answers(pair.db, pair.sides, of_condition)
    is_meant = _meant(condition)
    assert is_meant is not None
    rows: list[RowRuns] = []
    left: list[str] = []
    own: dict[str, Metric] = {}
    for row in answer.comparison.rows:
        key = answer.keys[row.key]
        if not is_meant(key.timer, key.timer):
            continue
        name = f"{key.timer} [{key.groups}]" if key.timer in own else key.timer
        own[name] = Metric(condition.metric, "count" if condition.counted else key.groups)
        if all(math.isfinite(value) for side in row.runs for value in side):
            rows.append(RowRuns(name, *row.runs))
        else:
            left.append(name)
    if not own:
        raise UsageError(_nothing(condition, [answer]))
    units = {metric.unit for metric in own.values()}
    if len(units) > 1 and not condition.percent:
        raise UsageError(
            f"--fail-on '{condition.text}': these user events are in "
            f"{', '.join(sorted(visible(unit) or 'no unit' for unit in units))}; use a limit in %, "
            "or one condition per event"
        )
    return Applies(
        rows, Metric(condition.metric, units.pop() if len(units) == 1 else ""), left, own
    )


def _question_of(condition: Condition, question: ComparisonOptions) -> ComparisonOptions:
    """The default value: inclusive for routines named in a condition, exclusive for all."""
    value = condition.value or ("inclusive" if condition.pattern is not None else "exclusive")
    of_condition = replace(question, by="routine", group=(), filter=(), imports=True)
    if condition.metric in gate.COUNTS:
        return replace(of_condition, metric="time", value=condition.metric)  # type: ignore[arg-type]
    return replace(of_condition, metric=condition.metric, value=value)


def _meant(condition: Condition) -> Callable[[str, str], bool] | None:
    """Whether a condition means a routine of this name and short name; None if it means all. A
    plain word matches a whole name or its last part: `forward`, but not `forward_hook`."""
    pattern = condition.pattern
    if pattern is None:
        return None
    if any(letter in pattern for letter in "*?/"):
        return name_test(pattern)
    return lambda name, short: pattern in (name, short) or short.endswith("." + pattern)


def _least(answer: ComparedTable, min_share: float) -> float:
    values = [value for side in answer.comparison.totals for value in side]
    return min_share * sum(values) / len(values) if values else 0.0


def _nothing(condition: Condition, of_tables: Iterable[ComparedTable]) -> str:
    from difflib import get_close_matches

    names = {
        answer.keys[row.key].short_name for answer in of_tables for row in answer.comparison.rows
    }
    near = get_close_matches(condition.pattern or "", names, n=3, cutoff=0.4) or sorted(names)[:5]
    what = "user event" if condition.of_event else "routine or kernel"
    return (
        f"--fail-on '{visible(condition.text)}': no {what} matches "
        f"'{visible(condition.pattern or '')}' (near it: {', '.join(map(visible, near))})"
    )
