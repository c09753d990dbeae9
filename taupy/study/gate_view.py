"""The result of a gate as a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from taupy import units
from taupy.comparison.comparison_views import interval_text
from taupy.model.metric import Metric
from taupy.pprof.view import Cell, Column, View
from taupy.study.conditions import Condition, Ruling
from taupy.study.gate import Conclusion, Judgement

PASSED_ROWS = 5
"""Number of rows shown of a gate that passed."""

_GATE_WORDS = {"fails": "FAILED", "undecided": "UNDECIDED", "passes": "passed"}


def conclusion_view(
    conditions: Sequence[Condition],
    judgement: Judgement,
    conclusion: Conclusion,
    machines: bool,
    confidence: float = 0.95,
) -> View:
    """The rulings, with the conclusion as title."""
    title = f"GATE {conclusion.word}: " + "; ".join(condition.text for condition in conditions)
    rulings = [(judged_row.ruling, judged_row.metric) for judged_row in judgement.judged]
    view = gate_view(rulings, title, conclusion.notes, machines, confidence)
    return replace(view, warnings=judgement.warnings, kernels=judgement.kernels)


def gate_view(
    rulings: Sequence[tuple[Ruling, Metric]],
    title: str,
    notes: Sequence[str],
    machines: bool,
    confidence: float = 0.95,
) -> View:
    """Failed and undecided rulings; in CSV and JSON, all rulings.

    If all conditions passed, people see the largest changes.
    """
    columns = [
        Column("verdict", "text", "Verdict"),
        Column("condition", "text", "Condition"),
        Column("name", "text", "Of"),
        Column("a", "text", "A", "people"),
        Column("b", "text", "B", "people"),
        Column("value_a", "float", audience="machines"),
        Column("value_b", "float", audience="machines"),
        Column("unit", "text", audience="machines"),
        Column("change", "float", audience="machines"),
        Column("change_percent", "percent", "Change %", "people"),
        Column("interval", "range", f"{100 * confidence:g} % of ratio", "people"),
        Column("ratio_low", "float", audience="machines"),
        Column("ratio_high", "float", audience="machines"),
        Column("p_adjusted", "tau_count", "p"),
        Column("why", "text", "Why", sentence=True),
    ]
    rows: list[list[Cell]] = []
    if not machines:
        not_passed = [ruling for ruling in rulings if ruling[0].verdict != "passes"]
        rulings = not_passed or rulings[:PASSED_ROWS]
    for judged, metric in rulings:
        low = judged.interval.low if judged.interval else None
        high = judged.interval.high if judged.interval else None
        rows.append(
            [
                _GATE_WORDS[judged.verdict],
                judged.condition.text,
                judged.name,
                quantity(judged.first, metric),
                quantity(judged.second, metric),
                judged.first,
                judged.second,
                metric.unit,
                judged.change,
                None if judged.change is None else 100 * judged.change,
                interval_text(low, high),
                low,
                high,
                judged.p,
                judged.why,
            ]
        )
    return View(title, columns, rows, notes)


def quantity(value: float, metric: Metric) -> str:
    """A value with its unit, for people."""
    if value != value:
        return ""
    if metric.unit == "ns":
        return units.duration(value)
    if metric.unit in ("B", "KiB"):
        return units.size(value * (1024 if metric.unit == "KiB" else 1))
    return units.number(value) if metric.unit == "call" else units.tau_count(value)
