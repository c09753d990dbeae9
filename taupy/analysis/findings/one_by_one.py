"""The finding of the rule `piecemeal.py`, and what its parts have in common."""

from __future__ import annotations

from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Finding
from taupy.model.question import Value
from taupy.model.rows import TimerRow

ONE_BY_ONE = "one by one"

LEAST_TIMES = 100
"""Minimum calls of a routine that does it once in each call."""


def one_by_one(
    trial: Trial, what: str, timer: TimerRow | None, sentence: str, ns: float, attempt: str,
    refuted_by: str,
) -> Finding:  # fmt: skip
    values: tuple[Value, ...] = ("inclusive", "calls")
    kind = f"{ONE_BY_ONE}: {what}"
    return trial.finding(kind, timer, sentence, ns, attempt, refuted_by, values=values)
