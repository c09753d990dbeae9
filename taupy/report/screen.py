"""A report as the lines of one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from taupy.analysis.findings.limits import MOST_FINDINGS
from taupy.escaping import visible
from taupy.model.finding import Finding
from taupy.report.report import Report
from taupy.units import duration, percent, several, size

WIDTH, HEIGHT = 80, 24
"""The size of a standard terminal."""

_BAR = 34
_REMARKS = 3


def text(report: Report, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The report as text: all findings, and as many details as the height allows.

    Args:
        width: 0 for no limit.
    """
    width = width or WIDTH
    head = [*_what_ran(report), *_health(report, width), "", *_phases(report), ""]
    for advice in (True, False):
        lines = [*head, *_findings(report, width, advice), *_end(report)]
        if len(lines) <= height:
            break
    return "".join(f"{line}\n" for line in (_cut(line, width) for line in lines))


def _what_ran(report: Report) -> Iterator[str]:
    trial = report.trial
    name = f"{trial.application}/{trial.experiment}/{trial.name}"
    yield f"TRIAL {trial.id}  {name}: {report.command or trial.source}"
    parts = [duration(trial.duration_ns)]
    parts += [f"exit {trial.ending}"] if trial.ending else []
    parts.append(several(report.threads, "thread"))
    parts += [f"{report.processes} processes"] if report.processes > 1 else []
    parts += [", ".join(dict.fromkeys(report.gpus))] if report.gpus else []
    yield f"  {trial.started_at[:19].replace('T', ' ')} UTC, {', '.join(parts)}"


def _health(report: Report, width: int) -> Iterator[str]:
    state = "complete" if report.trial.state == "complete" else report.trial.state.upper()
    measured = f"measured: {state}"
    if report.unmeasured:
        measured += f"; without {', '.join(report.unmeasured)}"
    yield from textwrap.wrap(
        visible(measured), width, initial_indent="  ", subsequent_indent="    ",
        break_on_hyphens=False,
    )  # fmt: skip
    remarks = list(report.remarks.items())
    for name, remark in remarks[:_REMARKS]:
        yield f"  note: {name}: {remark}"
    if len(remarks) > _REMARKS:
        yield f"  note: {several(len(remarks) - _REMARKS, 'more note')}: taupy trials show"


def _phases(report: Report) -> Iterator[str]:
    largest = max((phase.share for phase in report.phases), default=0.0) or 1.0
    for phase in report.phases:
        bar = "#" * round(_BAR * phase.share / largest)
        share = f"{percent(100 * phase.share)} %"
        yield f"  {phase.kind:13} {share:>7} {duration(phase.ns):>12}  {bar}"
    if report.steps:
        yield f"  {several(report.steps, 'step')}"


def _findings(report: Report, width: int, advice: bool) -> Iterator[str]:
    findings = report.judgement.findings
    if not findings:
        yield "no findings: none of the faults in docs/report.md is seen in this trial"
    for number, finding in enumerate(findings[:MOST_FINDINGS], 1):
        yield from _finding(number, finding, width, advice)
    if len(findings) > MOST_FINDINGS:
        more = several(len(findings) - MOST_FINDINGS, "smaller finding")
        yield f"   and {more}: --json lists them"


def _finding(number: int, finding: Finding, width: int, advice: bool) -> Iterator[str]:
    headline = f"{number}. {finding.kind}, {_saved(finding)}: {finding.sentence}"
    if not advice:
        yield headline
        return
    for lines, indent in ((headline, "   "), (f"try: {finding.attempt}", "   ")):
        first = "" if lines is headline else indent
        yield from textwrap.wrap(
            visible(lines), width, initial_indent=first, subsequent_indent=indent,
            break_on_hyphens=False,
        )  # fmt: skip


def _saved(finding: Finding) -> str:
    if not finding.saved_ns:
        return size(finding.saved_bytes)
    return f"at most {duration(finding.saved_ns)} ({percent(100 * finding.saved_share)} %)"


def _end(report: Report) -> Iterator[str]:
    abstained = len({abstention.kind for abstention in report.judgement.abstentions})
    if abstained:
        yield f"{several(abstained, 'rule')} gave no verdict: --json says why"


def _cut(line: str, width: int) -> str:
    line = visible(line)
    return line if len(line) <= width else line[: width - 3] + "..."
