"""The result of a gate as a JUnit report, which CI systems show: one test case for each row."""

from __future__ import annotations

from collections import Counter

from taupy.escaping import html
from taupy.study import conditions as gate
from taupy.study.conditions import Ruling
from taupy.study.gate import Conclusion, Judged, Judgement
from taupy.study.gate_view import quantity

_ELEMENTS = {"fails": "failure", "undecided": "error", "passes": ""}


def junit(judgement: Judgement, conclusion: Conclusion) -> str:
    """The report as XML. Undecided rows are errors if the gate's exit code says so; with
    `--undecided pass` they are skipped, with `--undecided fail` they are failures."""
    elements = dict(_ELEMENTS)
    if conclusion.code != gate.UNDECIDED:
        elements["undecided"] = "failure" if conclusion.code else "skipped"
    cases = [(elements[row.ruling.verdict], _case(row, elements)) for row in judgement.judged]
    if conclusion.code == gate.UNDECIDED and not any(element == "error" for element, _ in cases):
        # The rows are decided, but the trials are not comparable.
        begin = '    <testcase classname="gate" name="comparable">'
        message = html("; ".join(conclusion.notes))
        cases.append(("error", f'{begin}<error message="{message}"/></testcase>\n'))
    counts = Counter(element for element, _ in cases)
    text = "\n".join(map(html, [f"GATE {conclusion.word}", *conclusion.notes]))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
        f'  <testsuite name="taupy gate" tests="{len(cases)}" failures="{counts["failure"]}" '
        f'errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
        f"{''.join(case for _, case in cases)}"
        f"    <system-out>{text}</system-out>\n  </testsuite>\n</testsuites>\n"
    )


def _case(judged: Judged, elements: dict[str, str]) -> str:
    ruling = judged.ruling
    begin = f'    <testcase classname="{html(ruling.condition.text)}" name="{html(ruling.name)}"'
    element = elements[ruling.verdict]
    if not element:
        return f"{begin}/>\n"
    return f'{begin}><{element} message="{html(_message(judged, ruling))}"/></testcase>\n'


def _message(judged: Judged, ruling: Ruling) -> str:
    first, second = quantity(ruling.first, judged.metric), quantity(ruling.second, judged.metric)
    parts = [f"{first} -> {second}"] if first and second else []
    if ruling.change is not None:
        parts.append(f"{100 * ruling.change:+.1f} %")
    if ruling.interval is not None:
        parts.append(f"ratio {ruling.interval.low:.3f} .. {ruling.interval.high:.3f}")
    return "; ".join([*parts, *([ruling.why] if ruling.why else [])])
