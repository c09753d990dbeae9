"""The result of a gate: as a view, and as a JUnit report, which CI systems show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from taupy import units
from taupy.comparison.comparison_views import interval_text
from taupy.escaping import html
from taupy.model.metric import Metric
from taupy.pprof.view import Cell, Column, View
from taupy.study import conditions as gate
from taupy.study.conditions import Condition, Ruling
from taupy.study.gate import Conclusion, Judgement

PASSED_ROWS = 5
"""Number of rows shown of a gate that passed."""

_WORDS = {"fails": "FAILED", "undecided": "UNDECIDED", "passes": "passed"}


def conclusion_view(
    conditions: Sequence[Condition],
    judgement: Judgement,
    conclusion: Conclusion,
    machines: bool,
    confidence: float = 0.95,
) -> View:
    """Failed and undecided rulings, with the conclusion as title; in CSV and JSON, all rulings.

    If all conditions passed, people see the largest changes.
    """
    columns: list[tuple[Column, Callable[[Ruling], Cell]]] = [
        (Column("verdict", "text", "Verdict"), lambda ruling: _WORDS[ruling.verdict]),
        (Column("condition", "text", "Condition"), lambda ruling: ruling.condition.text),
        (Column("name", "text", "Of"), lambda ruling: ruling.name),
        (
            Column("a", "text", "A", "people", says_empty=True),
            lambda ruling: quantity(ruling.first, ruling.metric),
        ),
        (
            Column("b", "text", "B", "people", says_empty=True),
            lambda ruling: quantity(ruling.second, ruling.metric),
        ),
        (Column("value_a", "float", audience="machines"), lambda ruling: ruling.first),
        (Column("value_b", "float", audience="machines"), lambda ruling: ruling.second),
        (Column("unit", "text", audience="machines"), lambda ruling: ruling.metric.unit),
        (Column("change", "float", audience="machines"), lambda ruling: ruling.change),
        (
            Column("change_percent", "percent", "Change %", "people"),
            lambda ruling: None if ruling.change is None else 100 * ruling.change,
        ),
        (
            Column("interval", "range", f"{100 * confidence:g} % of ratio", "people"),
            lambda ruling: interval_text(*_ends(ruling)),
        ),
        (Column("ratio_low", "float", audience="machines"), lambda ruling: _ends(ruling)[0]),
        (Column("ratio_high", "float", audience="machines"), lambda ruling: _ends(ruling)[1]),
        (Column("p_adjusted", "tau_count", "p"), lambda ruling: ruling.p),
        (Column("why", "text", "Why", sentence=True), lambda ruling: ruling.why),
    ]
    rulings = judgement.judged
    if not machines:
        not_passed = [ruling for ruling in rulings if ruling.verdict != "passes"]
        rulings = not_passed or rulings[:PASSED_ROWS]
    return View(
        f"GATE {conclusion.word}: " + "; ".join(condition.text for condition in conditions),
        [column for column, _ in columns],
        [[cell(ruling) for _, cell in columns] for ruling in rulings],
        conclusion.notes,
        judgement.warnings,
        judgement.kernels,
    )


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


def junit(judgement: Judgement, conclusion: Conclusion) -> str:
    """The report as XML, one test case for each row. Undecided rows are errors if the gate's exit
    code says so; with `--undecided pass` they are skipped, with `--undecided fail` failures."""
    elements = {"fails": "failure", "undecided": "error", "passes": ""}
    if conclusion.code != gate.UNDECIDED:
        elements["undecided"] = "failure" if conclusion.code else "skipped"
    cases = [
        (ruling.condition.text, ruling.name, elements[ruling.verdict], _message(ruling))
        for ruling in judgement.judged
    ]
    counts = Counter(element for _, _, element, _ in cases)
    if conclusion.code == gate.UNDECIDED and not counts["error"]:
        # The rows are decided, but the trials are not comparable.
        cases.append(("gate", "comparable", "error", "; ".join(conclusion.notes)))
        counts["error"] = 1
    text = "\n".join(map(html, [f"GATE {conclusion.word}", *conclusion.notes]))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
        f'  <testsuite name="taupy gate" tests="{len(cases)}" failures="{counts["failure"]}" '
        f'errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
        f"{''.join(_case(*case) for case in cases)}"
        f"    <system-out>{text}</system-out>\n  </testsuite>\n</testsuites>\n"
    )


def _case(of: str, name: str, element: str, message: str) -> str:
    begin = f'    <testcase classname="{html(of)}" name="{html(name)}"'
    if not element:
        return f"{begin}/>\n"
    return f'{begin}><{element} message="{html(message)}"/></testcase>\n'


def _message(ruling: Ruling) -> str:
    first, second = (quantity(value, ruling.metric) for value in (ruling.first, ruling.second))
    parts = [f"{first} -> {second}"] if first and second else []
    if ruling.change is not None:
        parts.append(f"{100 * ruling.change:+.1f} %")
    if ruling.interval is not None:
        parts.append(f"ratio {ruling.interval.low:.3f} .. {ruling.interval.high:.3f}")
    return "; ".join([*parts, *([ruling.why] if ruling.why else [])])
