"""The result of a gate as a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    columns: list[tuple[Column, Callable[[Ruling, Metric], Cell]]] = [
        (Column("verdict", "text", "Verdict"), lambda ruling, _: _GATE_WORDS[ruling.verdict]),
        (Column("condition", "text", "Condition"), lambda ruling, _: ruling.condition.text),
        (Column("name", "text", "Of"), lambda ruling, _: ruling.name),
        (Column("a", "text", "A", "people"), lambda ruling, metric: quantity(ruling.first, metric)),
        (
            Column("b", "text", "B", "people"),
            lambda ruling, metric: quantity(ruling.second, metric),
        ),
        (Column("value_a", "float", audience="machines"), lambda ruling, _: ruling.first),
        (Column("value_b", "float", audience="machines"), lambda ruling, _: ruling.second),
        (Column("unit", "text", audience="machines"), lambda _, metric: metric.unit),
        (Column("change", "float", audience="machines"), lambda ruling, _: ruling.change),
        (
            Column("change_percent", "percent", "Change %", "people"),
            lambda ruling, _: None if ruling.change is None else 100 * ruling.change,
        ),
        (
            Column("interval", "range", f"{100 * confidence:g} % of ratio", "people"),
            lambda ruling, _: interval_text(*_ends(ruling)),
        ),
        (Column("ratio_low", "float", audience="machines"), lambda ruling, _: _ends(ruling)[0]),
        (Column("ratio_high", "float", audience="machines"), lambda ruling, _: _ends(ruling)[1]),
        (Column("p_adjusted", "tau_count", "p"), lambda ruling, _: ruling.p),
        (Column("why", "text", "Why", sentence=True), lambda ruling, _: ruling.why),
    ]
    if not machines:
        not_passed = [ruling for ruling in rulings if ruling[0].verdict != "passes"]
        rulings = not_passed or rulings[:PASSED_ROWS]
    rows = [[cell(*ruling) for _, cell in columns] for ruling in rulings]
    return View(title, [column for column, _ in columns], rows, notes)


def _ends(ruling: Ruling) -> tuple[float | None, float | None]:
    return (ruling.interval.low, ruling.interval.high) if ruling.interval else (None, None)


def quantity(value: float, metric: Metric) -> str:
    """A value with its unit, for people."""
    if value != value:
        return ""
    if metric.unit == "ns":
        return units.duration(value)
    if metric.unit in ("B", "KiB"):
        return units.size(value * (1024 if metric.unit == "KiB" else 1))
    return units.number(value) if metric.unit == "call" else units.tau_count(value)
