"""A report as a document for programs: the objects behind the screen, unrounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from taupy.analysis.division import Division
from taupy.answers import places
from taupy.answers.places import GroupPlaces
from taupy.escaping import json_visible
from taupy.model.finding import Evidence, Finding
from taupy.pprof.cells import seen_by
from taupy.pprof.view import Cell, View
from taupy.report.report import Report

_MOST_CALLEES = 8
"""Callees of a place, and routines of a group of threads without places."""
_MOST_CALLS = 50
"""Calls into which a run divides, such as tests."""


def text(report: Report) -> str:
    """The report as JSON."""
    lines = json.dumps(document(report), ensure_ascii=False, indent=1).split("\n")
    return "".join(f"{json_visible(line)}\n" for line in lines)


def document(report: Report) -> dict[str, Any]:
    trial = report.trial
    return {
        "trial": {
            "id": trial.id,
            "name": f"{trial.application}/{trial.experiment}/{trial.name}",
            "command": report.command,
            "started_at": trial.started_at,
            "duration_ns": trial.duration_ns,
            "exit_code": trial.exit_code,
            "state": trial.state,
            "gpus": list(report.gpus),
            "threads": report.threads,
            "processes": report.processes,
            "cpu_ns": sum(report.cpu_ns.values()) if report.cpu_ns else None,
            "runnable_ns": report.runnable_ns,
        },
        "health": dict(report.remarks),
        "unmeasured": list(report.unmeasured),
        "steps": report.steps,
        "strip": [
            {"kind": band.kind, "name": band.name, "time_ns": band.ns} for band in report.strip
        ],
        "phases": [
            {"phase": phase.kind, "time_ns": phase.ns, "share": phase.share}
            for phase in report.phases
        ],
        "gpu_ns": report.gpu_ns,
        "gpu_busy_ns": report.gpu_busy_ns,
        "gpu_times": [{"why": why, "what": what} for why, what in report.gpu_times],
        "autotuning": report.autotuning,
        "ranks": list(report.ranks),
        "lanes": [
            {
                "title": of.title,
                "name": lane.name,
                "time_ns": lane.ns,
                "bands": [
                    {"kind": band.kind, "name": band.name, "time_ns": band.ns}
                    for band in lane.bands
                ],
            }
            for of in report.lanes
            for lane in of.lanes
        ],
        "places": [place for group in report.places for place in _places(group)],
        "packages": [
            {
                "threads_group": group.group,
                "package": package.name,
                "time_ns": package.ns,
                "outside_ns": package.outside_ns,
            }
            for group in report.places
            for package in group.packages
        ],
        "routines": [
            {
                "threads_group": group.group,
                "routine": places.short(part.timer),
                "file": part.timer.file,
                "line": part.timer.line,
                "time_ns": part.ns,
                "calls": part.calls,
            }
            for group in report.places
            for part in group.routines[:_MOST_CALLEES]
        ],
        "division": _division(report.division),
        "findings": [_finding(report, finding) for finding in report.judgement.findings],
        "abstentions": [
            {"kind": abstention.kind, "reason": abstention.reason, "fact": abstention.fact}
            for abstention in report.judgement.abstentions
        ],
    }


def _division(of: Division | None) -> dict[str, Any] | None:
    if of is None:
        return None
    return {
        "routine": places.short(of.timer),
        "file": of.timer.file,
        "line": of.timer.line,
        "time_ns": of.ns,
        "calls": [
            {"routine": places.called(part.timer), "time_ns": part.ns, "calls": part.calls}
            for part in of.parts[:_MOST_CALLS]
        ],
    }


def _places(group: GroupPlaces) -> Iterator[dict[str, Any]]:
    """The rows of `taupy places`, each with the callees that screens and pages show."""
    names, rows = _for_machines(places.view(group))
    for place, row in zip(group.first(None), rows, strict=True):
        yield {
            **dict(zip(names, row, strict=True)),
            "callees": [
                {"routine": places.called(part.timer), "time_ns": part.ns, "calls": part.calls}
                for part in place.callees[:_MOST_CALLEES]
            ],
        }


def _for_machines(view: View) -> tuple[list[str], list[list[Cell]]]:
    columns, positions = seen_by(view, "machines")
    names = [column.name for column in columns]
    return names, [[row[at] for at in positions] for row in view.rows]


def _finding(report: Report, finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "place": finding.place,
        "sentence": finding.sentence,
        "saved_ns": finding.saved_ns,
        "saved_bytes": finding.saved_bytes,
        "saved_share": finding.saved_share,
        "saved_share_of_rest": report.share_of_rest(finding),
        "speedup": finding.speedup,
        "confidence": finding.confidence,
        "attempt": finding.attempt,
        "refuted_by": finding.refuted_by,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "question": json.loads(evidence.question.text()),
        "in_words": str(evidence.question),
        "rows": [dict(zip(evidence.headings, row, strict=True)) for row in evidence.rows],
        "row_count": evidence.count,
    }
