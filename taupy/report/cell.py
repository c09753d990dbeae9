"""A report as a piece of HTML below a cell of a notebook.

Styles are inline and take the notebook's own colours, light or dark: notebooks leave out style
sheets and scripts of output that they do not trust.
"""

from __future__ import annotations

from collections.abc import Iterator

from taupy.analysis.places import Place
from taupy.escaping import html
from taupy.model.thread_groups import MAIN
from taupy.report import screen
from taupy.report.report import Report
from taupy.units import duration, several

_CELL = "padding:1px 8px;border:0;vertical-align:top;white-space:nowrap"
_LEFT = f"{_CELL};text-align:left"
_RIGHT = f"{_CELL};text-align:right;font-variant-numeric:tabular-nums"
_FAINT = "opacity:.7"
_BAR = "display:inline-block;height:.7em;background:#3b82c4;border-radius:2px"
_BAR_PIXELS = 90
_LEAST_FULL = 0.1  # share of the time that a full bar stands for, at least
_FINDINGS = 3
_WIDTH = 100
_PAGE = (
    "the page, with source and flame graph: <code>.report()</code> of this trial, such as "
    "<code>taupy.last().report()</code>, or <code>%%taupy -o page.html</code>"
)


def fragment(report: Report, page: str = "") -> str:
    """What ran and for how long, the first places of the program's own code, and findings.

    Args:
        page: address of the trial's page, to which a link leads; without one, how to get it.
    """
    return "".join(_parts(report, page))


def _parts(report: Report, page: str) -> Iterator[str]:
    trial = report.trial
    name = f"{trial.application}/{trial.experiment}/{trial.name}"
    facts = [name]
    facts += [several(report.threads, "thread")] if report.threads > 1 else []
    facts += [f"exit {trial.ending}"] if trial.ending not in ("", "0") else []
    yield "<div style='overflow-x:auto'>"
    yield f"<div><b>{html(duration(trial.duration_ns))}</b> "
    facts.append(f"trial {trial.id}")
    yield f"<span style='{_FAINT}'>{html(' · '.join(facts))}</span></div>"
    if trial.state != "complete":
        yield f"<div><b>{html(trial.state)}</b>: what follows is a part of the run</div>"
    for remark in report.remarks.values():
        yield f"<div>note: {html(remark)}</div>"
    yield "<table style='border-collapse:collapse;margin:4px 0'>"
    for group in report.places:
        if group.group == MAIN:
            rows = screen.main_places(group)
            full = max([_LEAST_FULL, *(place.share for place in rows)])
            for place in rows:
                yield from _row(place, full, screen.mark_of(report))
    yield "</table>"
    findings = report.judgement.findings
    for finding in findings[:_FINDINGS]:
        yield f"<div><b>{html(finding.kind)}</b>, {html(screen.saved(finding))}: "
        yield html(finding.sentence)
        yield f" <i>try: {html(finding.attempt)}</i></div>" if finding.attempt else "</div>"
    if not findings:
        yield f"<div style='{_FAINT}'>{html(screen.no_findings(report))}</div>"
    if report.unmeasured:
        yield f"<div style='{_FAINT}'>not measured: {html(', '.join(report.unmeasured))}</div>"
    if page:
        yield f"<div><a href='{html(page)}' target='_blank'>the page</a></div>"
    else:
        yield f"<div style='{_FAINT}'>{_PAGE}</div>"
    yield "</div>"


def _row(place: Place, full: float, mark: str) -> Iterator[str]:
    wide = round(_BAR_PIXELS * place.share / full) or 1
    text = screen.text_of(place, _WIDTH)
    about = html(", ".join(screen.details_of(place, mark)))
    yield f"<tr style='background:none'><td style='{_RIGHT}'>{mark}{html(duration(place.ns))}</td>"
    yield f"<td style='{_RIGHT}'>{mark}{html(screen.percent(place.share))}</td>"
    yield f"<td style='{_LEFT};width:{_BAR_PIXELS}px'>"
    yield f"<span style='{_BAR};width:{wide}px'></span></td>"
    yield f"<td style='{_LEFT}'>{html(screen.routine_of(place))}</td>"
    yield f"<td style='{_LEFT}'>{html(screen.line_of(place))}</td>"
    yield f"<td style='{_LEFT}'><code>{html(text)}</code>"
    yield "<br>" if text and about else ""
    yield f"<span style='{_FAINT}'>{about}</span></td></tr>"
