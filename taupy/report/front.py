"""What the first two tabs of a page show: the overview, and the source text with its times.

`static/overview.js` and `static/source.js` read this. Everything comes from answers and from the
report; here it is only cut to what a page can show, by the rules below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taupy.analysis.places import Place
from taupy.answers import memory, places
from taupy.answers.answer import Nothing
from taupy.answers.own_code import (
    KINDS,
    Callee,
    Kind,
    OwnCode,
    OwnLine,
    OwnRoutine,
    apart,
    by_kind,
)
from taupy.answers.places import GroupPlaces, short
from taupy.escaping import visible
from taupy.model.finding import Evidence, Finding
from taupy.model.kernel_names import told_apart
from taupy.model.profile import Steps
from taupy.model.rows import TimerRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.model.thread_groups import MAIN
from taupy.profiledb import query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.source_texts import Source
from taupy.profiledb.steps import steps_of
from taupy.report import screen
from taupy.report.forest import lane_names
from taupy.report.lanes import RANKS, Lanes
from taupy.report.report import Report
from taupy.report.strip import kind_of_phase
from taupy.units import count, duration, percent, several, size

MOST_POINTS = 400
"""Points of a series over time or steps; more are joined: of memory the largest is kept, of steps
the mean and the slowest."""

LONGEST = 1000
"""Characters of a place's source text."""

MOST_LINES = 3
"""Lines of a routine beside its box of the flame graph."""

MOST_CALLEES = 8
"""Callees of a routine."""

MOST_EVIDENCE = 3
"""Tables of evidence of a finding, and rows of each; `taupy report --json` has all."""

MOST_ROUTINES = 8
"""Routines of libraries in threads that run no code of the program."""

MOST_CALLS = 20
"""Calls into which a run divides; `taupy report --json` has more."""

MOST_LANES = 16
"""Bars of each group of ranks, processes or threads."""

STEADY = 0.9
"""Memory that never falls below this share of its peak is a number, not a curve."""

LEAST_SHARE = 0.001
"""Callees with less than this share of their caller's time are left out."""


def overview(db: ProfileDB, report: Report, unmeasured_paths: int) -> dict[str, Any]:
    """The data of the overview."""
    series = [of for _, of in steps_of(db, report.trial.id) if of.kind == "training"]
    facts = {fact.name: str(fact.value) for fact in query.trial_metadata(db, report.trial.id)}
    rows = query.threads(db, report.trial.id)
    threads = {
        f"{row.node}.{row.context}.{row.thread}": name
        for row, name in zip(rows, lane_names(rows), strict=True)
    }
    return {
        "run_ns": report.trial.duration_ns,
        "command": visible(report.typed),
        "facts": [visible(fact) for fact in _facts(db, report, series, facts)],
        "own": KINDS["own"] if report.with_c else "your code",
        "strip": [
            {"kind": band.kind, "name": band.name, "ns": round(band.ns)} for band in report.strip
        ],
        "groups": [_group(report, group) for group in report.places],
        "hottest": _hottest(report.places),
        "findings": [_finding(report, finding, threads) for finding in report.judgement.findings],
        "gpu": [
            visible(line)
            for lines in (*report.gpu_times, (report.autotuning,))
            for line in lines
            if line
        ],
        "nothing": "" if report.judgement.findings else visible(screen.no_findings(report)),
        "ranks": [visible(line) for line in report.ranks],
        "lanes": [_lanes(of) for of in report.lanes],
        "steps": _steps(series, query.begun_ns(db, report.trial.id)),
        "memory": _memory(db, report.trial.id),
        "health": [visible(line) for line in _problems(report, unmeasured_paths)],
        "unmeasured": [visible(line) for line in report.unmeasured],
        "silent": [
            {"kind": visible(rule.kind), "fact": visible(rule.fact), "reason": visible(rule.reason)}
            for rule in report.judgement.abstentions
        ],
    }


def _lanes(of: Lanes) -> dict[str, Any]:
    """The ranks, processes or threads that do most; the others are in `taupy report --json`."""
    shown = sorted(of.lanes, key=lambda lane: lane.waits_ns - lane.ns)[:MOST_LANES]
    return {
        "title": of.title,
        "more": len(of.lanes) - len(shown),
        "lanes": [
            {
                "name": visible(lane.name),
                "bands": [
                    {"kind": band.kind, "name": band.name, "ns": round(band.ns)}
                    for band in lane.bands
                ],
            }
            for lane in of.lanes
            if lane in shown
        ],
    }


def _hottest(groups: Sequence[GroupPlaces]) -> dict[str, Any] | None:
    """The line whose surroundings are shown: of the place to look at first, unless it waits."""
    _, place = places.hottest(groups) or (None, None)
    if place is None or place.kind != "own" or place.mostly_waits:
        return None
    file = (place.timer and place.timer.file) or ""
    return {"file": visible(file), "line": places.line(place)}


def source(code: OwnCode, of: str = "your code") -> list[dict[str, Any]]:
    """The data of the source tab: files, the dearest first.

    Args:
        of: whose files they are.
    """
    by_path: dict[str, list[OwnRoutine]] = {}
    for routine in code.routines:
        if routine.path is not None:
            by_path.setdefault(routine.path, []).append(routine)
    files = [
        (sum(routine.ns for routine in by_path.get(file.path, ())), file) for file in code.files
    ]
    files.sort(key=lambda pair: (-pair[0], pair[1].file))
    lines: dict[str | None, list[OwnLine]] = {}
    for line in code.lines:
        lines.setdefault(line.path, []).append(line)
    return [
        {"of": of, **_file(file, by_path.get(file.path, ()), lines.get(file.path, ()), ns)}
        for ns, file in files
    ]


def lines_of_routines(code: OwnCode) -> dict[TimerRow, list[str]]:
    """In words, the lines of each routine with the most time, wherever it is called."""
    text = {file.path: file.lines for file in code.files}
    words: dict[TimerRow, list[str]] = {}
    for line in code.lines:
        of_routine = words.setdefault(line.timer, [])
        if len(of_routine) < MOST_LINES:
            about = "~" if line.count is None else ""
            where = f"line {line.line}, {about}{duration(line.ns)}"
            where += f" in {line.group}" if line.group else ""
            source = text.get(line.path or "", ())[line.line - 1 : line.line]
            of_routine.append(visible(": ".join((where, *map(str.strip, source)))))
    return words


def _file(
    file: Source, routines: Sequence[OwnRoutine], lines: Sequence[OwnLine], ns: float
) -> dict[str, Any]:
    return {
        "file": visible(file.file),
        "note": visible(file.note),
        "ns": round(ns),
        "text": "\n".join(map(visible, file.lines)),
        "routines": [_routine(routine) for routine in routines if routine.line is not None],
        "lines": [_line(line) for line in lines],
    }


def _line(line: OwnLine) -> dict[str, Any]:
    return {
        "line": line.line,
        "name": visible(short(line.timer)),
        "group": visible(line.group),
        "ns": line.ns,
        "error": round(line.error_ns),
        "looks": line.looks,
        "parts": line.by_kind,
        "calls": None if line.calls is None else visible(line.calls),
        "count": line.count,
        "whole": line.whole_ns,
    }


def _facts(
    db: ProfileDB, report: Report, series: Sequence[Steps], facts: Mapping[str, str]
) -> Iterator[str]:
    """The line below the command; numbers stand between asterisks."""
    trial = report.trial
    if trial.state != "complete":
        yield f"*{trial.state}*"
    if trial.ending:
        yield f"exit *{trial.ending}*"
    for of in series[:1]:
        times = sorted(
            time / count for time, count in zip(of.time_ns, of.count, strict=True) if count
        )
        median = f", median *{duration(times[len(times) // 2])}*" if times else ""
        number, word = several(sum(of.count), "step").split()
        yield f"*{number}* {word}{median}"
    if report.gpus:
        yield f"*{', '.join(dict.fromkeys(report.gpus))}*"
    ranks = next((len(of.lanes) for of in report.lanes if of.title == RANKS), 0)
    if ranks:
        yield f"*{ranks}* ranks"
    elif report.processes > 1:
        yield f"*{report.processes}* processes"
    elif report.threads > 1:
        yield f"*{report.threads}* threads"
    node = query.metadata_by_node(db, trial.id).get(0) or {}
    of_process = {**facts, **{name: str(value) for name, value in node.items()}}
    with_memory = of_process.get("Peak Resident Memory (KiB)", "")
    if with_memory.isdigit():
        yield f"peak *{size(1024 * int(with_memory))}*"
    if report.cpu_ns:
        spent, among = screen.cpu_time(report)
        yield f"*{spent}* of CPU time{among}"
    if report.runnable_ns:
        yield f"*busy machine*: {screen.waited_for_processor(report)}"
    yield f"trial {trial.id}, {trial.started_at[:16].replace('T', ' ')} UTC"


def _group(report: Report, group: GroupPlaces) -> dict[str, Any]:
    """Of a group of threads, its places or those of libraries, what is apart from them, and what
    else the screen says of it."""
    own = group.places[: group.places.own]
    whole = sum(group.places.ns) or 1
    mark, is_main = screen.mark_of(report), group.group == MAIN
    is_alone = not own and any(of.group == group.group for of in report.lanes)
    of_libraries = screen.of_libraries(group)[:MOST_ROUTINES] if is_alone else []
    named = sum(place.share for place in screen.main_places(group)) if is_main else 1.0
    divided = screen.division(report, named) if is_main else None
    notes = [] if divided is None else [(divided[0], divided[1][:MOST_CALLS])]
    if (is_main or is_alone) and (packages := screen.packages(report, group)):
        notes.append(("by package", packages))
    return {
        "title": "" if is_main else visible(group.title),
        "places": [
            *(_place(place, "own", place.ns, place.share, mark) for place in own),
            *(_place(place, "lib", place.ns, place.share, mark) for place in of_libraries),
        ],
        "apart": [_place(place, kind, ns, ns / whole, mark) for kind, ns, place in apart(group)],
        "notes": [
            {"title": visible(title), "parts": [*map(visible, parts)]} for title, parts in notes
        ],
    }


def _place(place: Place, kind: Kind, ns: float, share: float, mark: str) -> dict[str, Any]:
    """A row of the overview, in the words of the screen."""
    text = screen.text_of(place, LONGEST) if kind in ("own", "wait", "import") else ""
    parts = by_kind(place) if kind == "own" else {kind: ns}
    return {
        "kind": kind,
        "name": KINDS[kind],
        "routine": visible(screen.routine_of(place)),
        "at": visible(screen.line_of(place)),
        "file": visible((place.timer and place.timer.file) or ""),
        "line": places.line(place),
        "text": visible(text),
        "about": [visible(part) for part in screen.details_of(place, mark)],
        "parts": {kind: round(ns) for kind, ns in parts.items() if ns >= 1},
        "ns": round(ns),
        "share": share,
    }


def _routine(routine: OwnRoutine) -> dict[str, Any]:
    return {
        "name": visible(routine.name.rpartition("<locals>.")[2]),
        "file": visible(routine.file or ""),
        "line": routine.line,
        "group": visible(routine.group),
        "parts": {kind: round(ns) for kind, ns in routine.by_kind.items() if ns >= 1},
        "ns": round(routine.ns),
        "whole": None if routine.whole_ns is None else round(routine.whole_ns),
        "share": routine.share,
        "calls": routine.calls,
        "callees": [
            _callee(callee)
            for callee in routine.callees[:MOST_CALLEES]
            if callee.ns >= LEAST_SHARE * routine.ns
        ],
    }


def _callee(callee: Callee) -> dict[str, Any]:
    name = visible(callee.name)
    return {"name": name, "kind": callee.kind, "ns": round(callee.ns), "calls": callee.calls}


def _finding(report: Report, finding: Finding, threads: Mapping[str, str]) -> dict[str, Any]:
    saved = size(finding.saved_bytes)
    if finding.saved_ns:
        saved = f"up to {duration(finding.saved_ns)}, {percent(100 * finding.saved_share)} %"
        if (of_rest := report.share_of_rest(finding)) is not None:
            saved += f" ({percent(100 * of_rest)} % without imports and exit)"
    return {
        "kind": visible(finding.kind),
        "severity": finding.severity,
        "saved": saved,
        "sentence": visible(finding.sentence),
        "attempt": visible(finding.attempt),
        "refuted": visible(finding.refuted_by),
        "confidence": finding.confidence,
        "evidence": [
            _evidence(evidence, threads if report.threads > 1 else {})
            for evidence in finding.evidence[:MOST_EVIDENCE]
            if evidence.rows
        ],
    }


def _evidence(evidence: Evidence, threads: Mapping[str, str]) -> dict[str, Any]:
    """The first rows, in the words of people; `threads` has the names of several."""
    rows = _readable(evidence.headings, evidence.rows[:MOST_EVIDENCE])
    rows = [_in_units(evidence.headings, row) for row in rows]
    left_out = {"trial", "metric"} | (set() if threads else {"thread"})
    kept = [
        at
        for at, name in enumerate(evidence.headings)
        if name not in left_out and any(row[at] not in (None, "") for row in rows)
    ]
    names = [evidence.headings[at] for at in kept]
    by = [_word(name) for name in evidence.question.by if name not in left_out]
    measured = [_word(name) for name in names if name not in evidence.question.by]
    return {
        "title": visible(f"Evidence: {_listed(measured)}" + (f" by {_listed(by)}" if by else "")),
        "headings": [visible(_word(name)) for name in names],
        "rows": [
            [
                visible(threads.get(text, text) if evidence.headings[at] == "thread" else text)
                for at in kept
                for text in [_evidence_cell(evidence.headings[at], row[at])]
            ]
            for row in rows
        ],
        "more": evidence.count - len(rows),
    }


def _readable(
    headings: Sequence[str], rows: Sequence[Sequence[object]]
) -> Sequence[Sequence[object]]:
    """Of launches, with short names of kernels and the numbers of GPUs."""
    if not any(name.startswith("launch.") for name in headings):
        return rows
    columns = dict(zip(headings, zip(*rows, strict=True), strict=True))
    if "timer" in columns:
        short = told_apart(map(str, columns["timer"]))
        columns["timer"] = tuple(short[str(name)] for name in columns["timer"])
    if "device" in columns:
        columns["device"] = tuple(_gpu(str(device)) for device in columns["device"])
    return [*zip(*columns.values(), strict=True)]


def _in_units(headings: Sequence[str], row: Sequence[object]) -> Sequence[object]:
    """Of a user event of times, its values as such, instead of their unit beside its name."""
    cells = dict(zip(headings, row, strict=True))
    event = str(cells.get("event", ""))
    if not event.endswith(" ns"):
        return row
    cells["event"] = event.removesuffix(" ns")
    for name in ("total", "least", "most"):
        if isinstance(value := cells.get(f"event.{name}"), int | float):
            cells[f"event.{name}"] = duration(value)
    return [*cells.values()]


def _gpu(device: str) -> str:
    """`0 1`: a process, and 1 + the number of its GPU."""
    node, _, context = device.partition(" ")
    number = str(int(context) - 1) if context.isdigit() else device
    return number if node == "0" else f"{number} of process {node}"


_WORDS: Mapping[str, str] = {
    "timer": "routine", "callpath": "call path", "node": "process", "parent": "caller",
    "inclusive time": "time with callees", "exclusive time": "own time",
    "event.count": "samples", "event.total": "total", "event.least": "minimum",
    "event.most": "maximum", "device": "GPU", "launch.count": "launches", "launch.time": "time",
}  # fmt: skip
"""What people call the dimensions and values of a question."""


def _word(name: str) -> str:
    return _WORDS.get(name, name.replace("_ns", "").replace("_", " "))


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


_TIMES = re.compile(r"inclusive|exclusive|(.*[ :_.])?time|.*_ns")
"""Columns of nanoseconds; `inclusive time` is a value and its metric."""


def _evidence_cell(name: str, cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int | float):
        if _TIMES.fullmatch(name):
            return duration(cell)
        return count(cell) if isinstance(cell, int) else f"{cell:.6g}"
    return str(cell)


def _steps(series: Sequence[Steps], begun_ns: int) -> dict[str, Any] | None:
    """The longest training's steps, by phase, and what it logged."""
    if not series:
        return None
    of = max(series, key=lambda steps: sum(steps.count))
    if not len(of):
        return None
    size_of_part = math.ceil(len(of) / MOST_POINTS)
    rows = [range(at, min(at + size_of_part, len(of))) for at in range(0, len(of), size_of_part)]
    phases = [name for name, times in of.phases.items() if any(times)]
    return {
        "number": [of.number[part[0]] for part in rows],
        "start": [of.start_ns[part[0]] - begun_ns for part in rows],
        "count": [sum(of.count[row] for row in part) for part in rows],
        "ns": [sum(of.time_ns[row] for row in part) for part in rows],
        "longest": [max(of.longest_ns[row] for row in part) for part in rows],
        "phases": [
            {
                "name": name,
                "kind": kind_of_phase(name),
                "ns": [sum(max(of.phases[name][row], 0) for row in part) for part in rows],
            }
            for name in phases
        ],
        "logged": _logged(of),
    }


def _logged(of: Steps) -> list[dict[str, Any]]:
    """Values that change, the loss first; memory has a chart of its own."""
    logged: list[dict[str, Any]] = []
    for name, column in of.values.items():
        points = [
            (number, value)
            for number, value in zip(of.number, column, strict=True)
            if math.isfinite(value)
        ]
        if name in (RESIDENT, CUDA_ALLOCATED) or len({value for _, value in points}) < 3:
            continue
        step = math.ceil(len(points) / MOST_POINTS)
        logged.append({"name": visible(name), "points": points[::step]})
    logged.sort(key=lambda values: "loss" not in str(values["name"]).lower())
    return logged[:2]


def _memory(db: ProfileDB, trial: int) -> dict[str, Any] | None:
    """The resident memory of the first process over time."""
    try:
        (view,) = memory.views(db, trial, memory.Options(series=True))
    except Nothing:
        return None
    names = [column.name for column in view.columns]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in view.rows]
    nodes = [row["node"] for row in rows]
    first = [row for row in rows if row["node"] == min(nodes) and row["resident_bytes"]]
    step = math.ceil(len(first) / MOST_POINTS) or 1
    parts = [first[at : at + step] for at in range(0, len(first), step)]
    joined = [
        (part[0]["start_ns"], max(row["most_bytes"] or row["resident_bytes"] for row in part))
        for part in parts
    ]
    if len(joined) < 2 or min(size for _, size in joined) > STEADY * max(
        size for _, size in joined
    ):
        return None
    joined.append((first[-1]["end_ns"], joined[-1][1]))
    return {"points": joined, "processes": len(set(nodes))}


def _problems(report: Report, unmeasured_paths: int) -> Iterator[str]:
    if report.trial.state != "complete":
        yield f"the trial is {report.trial.state}"
    for name, remark in report.remarks.items():
        for line in remark.split("\n"):
            yield line if name.rstrip("0123456789") == "note" else f"{name}: {line}"
    if unmeasured_paths:
        yield f"{several(unmeasured_paths, 'call path')} without a time: drawn without width"
