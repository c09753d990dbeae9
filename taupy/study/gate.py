"""The gate: test the conditions of `--fail-on` on trials of the database."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from taupy.analysis.compare import Row
from taupy.answers.compare import Compared
from taupy.comparison import cpu_share
from taupy.comparison.comparison import ComparedTable, ComparisonOptions, answers, warnings
from taupy.comparison.sides import Side, both_sided
from taupy.errors import MissingMetric, UsageError
from taupy.escaping import visible
from taupy.model.kernel_names import is_kernel
from taupy.model.metric import CPU_TIME, Metric
from taupy.pprof.selection import name_test
from taupy.study import conditions as gate
from taupy.study import gate_work, sequential
from taupy.study.conditions import Condition, RowRuns, Ruling
from taupy.units import listing

_WHERE = {"host": "on the host", "gpu": "on the GPU", None: ""}


Judge = Callable[[Condition, Sequence[RowRuns], str, float, int], list[Ruling]]


class Judged(NamedTuple):
    """A ruling, and the metric of its values."""

    ruling: Ruling
    metric: Metric


class Judgement(NamedTuple):
    """The rulings of all conditions.

    Attributes:
        apart: by condition, rows that were not judged because a run or a side lacks them.
        warnings: where the names of the sides hardly match.
        kernels: full names of the kernels among the rows.
    """

    judged: list[Judged]
    apart: list[str]
    warnings: Sequence[str] = ()
    kernels: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        return gate.outcome([judged_row.ruling for judged_row in self.judged])

    @property
    def summary(self) -> str:
        """`judged 3: 1 failed, 0 undecided, 2 passed`; a condition without rows counts as
        undecided, not as judged."""
        rulings = [judged_row.ruling for judged_row in self.judged]
        counts = Counter(ruling.verdict for ruling in rulings)
        judged = sum(ruling.why != gate.NOTHING for ruling in rulings)
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


class _There(NamedTuple):
    """The rows that a condition applies to.

    Attributes:
        metric: metric of the values; `own`: exceptions by row.
        left: names of rows missing in some run.
        warnings: where the names of the sides hardly match.
        kernels: full names of the kernels among the rows.
    """

    rows: list[RowRuns]
    metric: Metric
    left: list[str]
    own: Mapping[str, Metric] = {}
    warnings: Sequence[str] = ()
    kernels: Sequence[str] = ()


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
    judged: list[Judged] = []
    apart: list[str] = []
    names_apart: list[str] = []
    kernels: list[str] = []
    shares = cpu_share.cpu_shares(compared.db, sides)
    for condition in conditions:
        for at in range(1, len(sides)):
            pair = [sides[0], sides[at]]
            find = _of_events if condition.of_event else _candidates
            candidates = find(replace(compared, sides=pair), condition)
            rulings = judged_rows(
                condition, candidates.rows, candidates.metric.unit, alpha, families
            )
            if is_elapsed(candidates.metric):
                slowed = cpu_share.slowed(pair[0], pair[1], (shares[0], shares[at]))
                if slowed != (1.0, 1.0):
                    free = judged_rows(
                        condition, [_unslowed(row, slowed) for row in candidates.rows],
                        candidates.metric.unit, alpha, families,
                    )  # fmt: skip
                    why = _why_busy(pair, (shares[0], shares[at]), slowed)
                    rulings = _that_stand(rulings, free, why)
            if not rulings:
                rulings = [gate.unjudged(condition)]
            for ruling in rulings:
                metric = candidates.own.get(ruling.name, candidates.metric)
                name = ruling.name if len(sides) == 2 else f"{sides[at].letter}: {ruling.name}"
                judged.append(Judged(ruling._replace(name=name), metric))
            names_apart += candidates.warnings
            kernels += candidates.kernels
            if candidates.left:
                apart.append(_left_out(condition, candidates.left))
    judged.sort(key=lambda judged_row: judged_row.ruling.rank)
    return Judgement(judged, list(dict.fromkeys(apart)), list(dict.fromkeys(names_apart)), kernels)


def on_cpu_time(condition: Condition) -> Condition:
    """The same condition on CPU time, which other programs on the machine change little."""
    return replace(
        condition,
        text=condition.text.replace(condition.metric, CPU_TIME.name, 1),
        metric=CPU_TIME.name,
    )


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


def _unslowed(row: RowRuns, slowed: tuple[float, float]) -> RowRuns:
    """The row as if both sides had had the same share of the CPU; twice over, because others do
    not slow every routine alike."""
    first, second = (factor**2 for factor in slowed)
    return RowRuns(
        row.name,
        tuple(value / first for value in row.first),
        tuple(value / second for value in row.second),
    )


def _that_stand(rulings: Sequence[Ruling], free: Sequence[Ruling], why: str) -> list[Ruling]:
    """Rulings that a busier machine could have made are undecided."""
    otherwise = {ruling.name: ruling.verdict for ruling in free}
    return gate.in_order(
        ruling
        if ruling.verdict == "undecided" or otherwise[ruling.name] == ruling.verdict
        else ruling._replace(verdict="undecided", why=why)
        for ruling in rulings
    )


def _why_busy(
    pair: Sequence[Side],
    shares: Sequence[cpu_share.CpuShares | None],
    slowed: tuple[float, float],
) -> str:
    (first, base), (second, other) = zip(pair, shares, strict=True)
    assert base is not None and other is not None
    busier = first if slowed[0] > 1 else second
    return (
        f"CPU time / elapsed time is {base.middle:.2f} in {first.letter} and {other.middle:.2f} in "
        f"{second.letter}: the machine was busier for {busier.letter}, or it waits more; a "
        "condition on cpu_time tells"
    )


def concluded(
    compared: Compared,
    judgement: Judgement,
    allowed: Collection[str] = (),
    undecided: Literal["pass", "fail"] | None = None,
) -> Conclusion:
    """The outcome of the judgement, given how the trials were measured.

    Args:
        allowed: permitted kinds of differences, or "all".
        undecided: how to treat an undecided gate.
    """
    against = [(difference, difference.text) for difference in compared.apart]
    against += [
        (difference, f"the trials of {letter} differ: {difference.text}")
        for letter, difference in compared.within
    ]
    forbidden = [
        (difference, text)
        for difference, text in against
        if not {difference.kind, "all"} & {*allowed}
    ]
    notes = [f"not comparable: {text}" for _, text in forbidden]
    notes += [f"not comparable: trial {id} is on both sides" for id in both_sided(compared.sides)]
    if forbidden:
        kinds = ",".join(dict.fromkeys(difference.kind for difference, _ in forbidden))
        notes.append(f"to allow these differences: --allow {kinds}")
    return conclusion(judgement, undecided, notes)


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


def _candidates(pair: Compared, condition: Condition) -> _There:
    db, sides = pair.db, pair.sides
    if condition.metric == gate.DURATION:
        runs = [tuple(float(trial.duration_ns) for trial in side.trials) for side in sides]
        return _There([RowRuns("duration", *runs)], Metric("duration", "ns"), [])
    if condition.metric == CPU_TIME.name and condition.scope == "total":
        used = [side.cpu_ns for side in cpu_share.cpu_shares(db, sides) if side is not None]
        if len(used) == len(sides):
            return _There([RowRuns("total on the host", *used)], CPU_TIME, [])
    try:
        of_tables = answers(db, sides, _question_of(condition, pair.options))
    except MissingMetric as problem:
        stated = _of_noted(pair, condition)
        if stated is None:
            raise UsageError(f"--fail-on '{condition.text}': {problem}") from None
        return stated
    names: dict[str, tuple[ComparedTable, Row[Hashable]]] = {}
    candidates: list[RowRuns] = []
    kernels: list[str] = []
    left: list[str] = []
    test = name_test(condition.pattern) if condition.pattern is not None else None
    for answer in of_tables:
        comparison = answer.comparison
        if condition.scope in ("all", "total") and comparison.whole is not None:
            label = f"total {_WHERE[answer.where]}".strip()
            candidates.append(RowRuns(label, *comparison.whole.runs))
        if condition.scope == "total":
            continue
        least = _least(answer, pair.options.min_share) if test is None else 0.0
        for row in comparison.rows:
            key = answer.keys[row.key]
            if test is not None and not _meant(test, condition.pattern, key.timer, key.short_name):
                continue
            name = key.timer
            if name in names:
                name = f"{key.timer} ({key.groups})"
            values = [value for side in row.runs for value in side]
            if not all(map(math.isfinite, values)):
                if max(value or 0 for value in row.values) >= least or test is not None:
                    left.append(name)
                continue
            if sum(values) / len(values) >= least:
                names[name] = (answer, row)
                kernels += [key.timer] if is_kernel(key.groups) else []
                candidates.append(RowRuns(name, *row.runs))
    if test is not None and not candidates and not left:
        raise UsageError(_nothing(condition, of_tables))
    if not candidates and condition.scope == "total":
        raise UsageError(
            f"--fail-on '{condition.text}': {condition.metric} has no total, because it is not "
            "additive; name a routine or kernel with `of`"
        )
    apart = warnings(sides, of_tables)
    return _There(candidates, of_tables[0].metric, left, warnings=apart, kernels=kernels)


def _of_noted(pair: Compared, condition: Condition) -> _There | None:
    """Flop or bytes that no counter counted."""
    is_meant = None
    if condition.pattern is not None:
        is_meant = partial(_meant, name_test(condition.pattern), condition.pattern)
    work = gate_work.noted(pair.db, pair.sides, condition, is_meant)
    if work is None:
        return None
    if is_meant is not None and not work.rows and not work.left:
        raise UsageError(
            f"--fail-on '{condition.text}': no routine with {condition.metric} matches "
            f"'{condition.pattern}'"
        )
    return _There(work.rows, work.metric, work.left)


def _of_events(pair: Compared, condition: Condition) -> _There:
    assert condition.pattern is not None
    of_condition = replace(pair.options, by="event", value=condition.metric, filter=())  # type: ignore[arg-type]
    (answer,) = answers(pair.db, pair.sides, of_condition)
    test = name_test(condition.pattern)
    rows: list[RowRuns] = []
    left: list[str] = []
    own: dict[str, Metric] = {}
    for row in answer.comparison.rows:
        key = answer.keys[row.key]
        if not _meant(test, condition.pattern, key.timer, key.timer):
            continue
        name, unit = key.timer, key.groups
        if name in own:
            name = f"{name} [{unit}]"
        own[name] = Metric(condition.metric, "count" if condition.counted else unit)
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
    return _There(rows, Metric(condition.metric, units.pop() if len(units) == 1 else ""), left, own)


def _question_of(condition: Condition, question: ComparisonOptions) -> ComparisonOptions:
    """The default value: inclusive for routines named in a condition, exclusive for all."""
    value = condition.value or ("inclusive" if condition.pattern is not None else "exclusive")
    of_condition = replace(question, by="routine", group=(), filter=(), imports=True)
    if condition.metric in gate.COUNTS:
        return replace(of_condition, metric="time", value=condition.metric)  # type: ignore[arg-type]
    return replace(of_condition, metric=condition.metric, value=value)


def _meant(test: object, pattern: str | None, timer: str, short_name: str) -> bool:
    """A plain word matches a whole name or its last part: `forward`, but not `forward_hook`."""
    assert pattern is not None and callable(test)
    if any(letter in pattern for letter in "*?/"):
        return bool(test(timer, short_name))
    return pattern in (timer, short_name) or short_name.endswith("." + pattern)


def _least(answer: ComparedTable, min_share: float) -> float:
    totals = answer.comparison.totals
    if not totals:
        return 0.0
    values = [value for side in totals for value in side]
    return min_share * sum(values) / len(values)


def _nothing(condition: Condition, of_tables: Sequence[ComparedTable]) -> str:
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


def _left_out(condition: Condition, names: Sequence[str]) -> str:
    shown = listing(names, 5)
    return f"'{condition.text}': not judged, because not in every run: {shown}"
