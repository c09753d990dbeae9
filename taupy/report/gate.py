"""The gate: conditions of `--fail-on` put to the trials of the database."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from taupy.analysis import gate
from taupy.analysis.compare import Row
from taupy.analysis.gate import Candidate, Condition, Ruling
from taupy.errors import UsageError
from taupy.model.profile import Metric
from taupy.pprof.selection import name_test
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import shown
from taupy.report.comparison import Answer, Question, answers
from taupy.report.sides import Side
from taupy.report.verdicts import Rule

_WHERE = {"host": "on the host", "gpu": "on the GPU", None: ""}


class Judged(NamedTuple):
    """A ruling, and what its values are."""

    ruling: Ruling
    metric: Metric


class Judgement(NamedTuple):
    """What all conditions gave.

    Attributes:
        apart: rows that were not judged, since a run or a side lacks them, by condition.
    """

    judged: list[Judged]
    apart: list[str]

    @property
    def exit_code(self) -> int:
        return gate.outcome([one.ruling for one in self.judged])


def judge(
    db: ProfileDB,
    sides: Sequence[Side],
    conditions: Sequence[Condition],
    question: Question,
    rule: Rule,
) -> Judgement:
    """Put every condition to every side against the first.

    Args:
        question: how names are matched and threads summed; a condition names its metric
            and value itself.

    Raises:
        UsageError: a pattern names nothing.
        MissingMetric: a trial lacks a condition's metric.
    """
    families = len(conditions) * (len(sides) - 1)
    judged: list[Judged] = []
    apart: list[str] = []
    for condition in conditions:
        for at in range(1, len(sides)):
            pair = [sides[0], sides[at]]
            rows, metric, left = _candidates(db, pair, condition, question, rule)
            if len(sides) > 2:
                rows = [row._replace(name=f"{sides[at].letter}: {row.name}") for row in rows]
            found = gate.judged(condition, rows, metric.unit, rule.alpha, families)
            judged += [Judged(one, metric) for one in found]
            if left:
                apart.append(_left_out(condition, left))
    order = {"fails": 0, "undecided": 1, "passes": 2}
    judged.sort(key=lambda one: order[one.ruling.verdict])
    return Judgement(judged, list(dict.fromkeys(apart)))


def _candidates(
    db: ProfileDB, sides: Sequence[Side], condition: Condition, question: Question, rule: Rule
) -> tuple[list[Candidate], Metric, list[str]]:
    if condition.metric == gate.DURATION:
        runs = [tuple(float(trial.duration_ns) for trial in side.trials) for side in sides]
        return [Candidate("duration", *runs)], Metric("duration", "ns"), []
    found = answers(db, sides, _asked(condition, question))
    names: dict[str, tuple[Answer, Row[Hashable]]] = {}
    candidates: list[Candidate] = []
    left: list[str] = []
    test = name_test(condition.pattern) if condition.pattern is not None else None
    for answer in found:
        comparison = answer.comparison
        if condition.scope in ("all", "total") and comparison.whole is not None:
            label = f"total {_WHERE[answer.where]}".strip()
            candidates.append(Candidate(label, *comparison.whole.runs))
        if condition.scope == "total":
            continue
        least = _least(answer, rule) if test is None else 0.0
        for row in comparison.rows:
            key = answer.keys[row.key]
            if test is not None and not _meant(test, condition.pattern, key.timer, key.short_name):
                continue
            name = key.timer
            if name in names:
                name = f"{key.timer} ({key.groups})"
            values = [value for side in row.runs for value in side]
            if not all(map(math.isfinite, values)):
                if (row.values[1] or 0) >= least or test is not None:
                    left.append(name)
                continue
            if sum(values) / len(values) >= least:
                names[name] = (answer, row)
                candidates.append(Candidate(name, *row.runs))
    if test is not None and not candidates and not left:
        raise UsageError(_nothing(condition, found))
    if not candidates and condition.scope == "total":
        raise UsageError(
            f"--fail-on '{shown(condition.text)}': values of {shown(condition.metric)} do not add "
            "up to a total; name a routine or kernel with `of`"
        )
    return candidates, found[0].metric, left


def _asked(condition: Condition, question: Question) -> Question:
    """Routines named in a condition are seen from outside, all routines from inside."""
    value = condition.value or ("inclusive" if condition.pattern is not None else "exclusive")
    asked = replace(question, by="routine", groups=(), names=())
    if condition.metric in gate.COUNTS:
        return replace(asked, metric="time", value=condition.metric)  # type: ignore[arg-type]
    return replace(asked, metric=condition.metric, value=value)


def _meant(test: object, pattern: str | None, timer: str, short_name: str) -> bool:
    """A plain word is the whole or the last part of a name: `forward` is not `forward_hook`."""
    assert pattern is not None and callable(test)
    if any(letter in pattern for letter in "*?/"):
        return bool(test(timer, short_name))
    return pattern in (timer, short_name) or short_name.endswith("." + pattern)


def _least(answer: Answer, rule: Rule) -> float:
    totals = answer.comparison.totals
    if not totals:
        return 0.0
    values = [value for side in totals for value in side]
    return rule.min_share * sum(values) / len(values)


def _nothing(condition: Condition, found: Sequence[Answer]) -> str:
    names = {answer.keys[row.key].short_name for answer in found for row in answer.comparison.rows}
    near = get_close_matches(condition.pattern or "", names, n=3, cutoff=0.4) or sorted(names)[:5]
    return (
        f"--fail-on '{shown(condition.text)}': no routine or kernel is called "
        f"'{shown(condition.pattern or '')}' (there is: {', '.join(map(shown, near))})"
    )


def _left_out(condition: Condition, names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (
        f"'{condition.text}' does not judge what is not in every run: {', '.join(names[:5])}{more}"
    )
