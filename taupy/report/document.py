"""A report as a document for programs: the objects behind the screen, unrounded."""

from __future__ import annotations

import json
from typing import Any

from taupy.answers import places
from taupy.escaping import json_visible
from taupy.model.finding import Evidence, Finding
from taupy.pprof.cells import seen_by
from taupy.pprof.view import Cell, View
from taupy.report.report import Report


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
        },
        "health": dict(report.remarks),
        "unmeasured": list(report.unmeasured),
        "steps": report.steps,
        "phases": [
            {"phase": phase.kind, "time_ns": phase.ns, "share": phase.share}
            for phase in report.phases
        ],
        "gpu_times": [{"why": why, "what": what} for why, what in report.gpu_times],
        "ranks": list(report.ranks),
        "places": [
            dict(zip(names, cells, strict=True))
            for group in report.places
            for names, rows in [_for_machines(places.view(group))]
            for cells in rows
        ],
        "findings": [_finding(finding) for finding in report.judgement.findings],
        "abstentions": [
            {"kind": abstention.kind, "reason": abstention.reason}
            for abstention in report.judgement.abstentions
        ],
    }


def _for_machines(view: View) -> tuple[list[str], list[list[Cell]]]:
    columns, positions = seen_by(view, "machines")
    names = [column.name for column in columns]
    return names, [[row[at] for at in positions] for row in view.rows]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "sentence": finding.sentence,
        "saved_ns": finding.saved_ns,
        "saved_bytes": finding.saved_bytes,
        "saved_share": finding.saved_share,
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
