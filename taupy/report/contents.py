"""The contents of a page about a trial, queried from the database, in the order of the tabs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from taupy.answers import ANSWERS, EXCEPTIONS, memory, places, steps
from taupy.answers.answer import Nothing, module
from taupy.doors import door
from taupy.model.finding import Finding
from taupy.model.options import Asked
from taupy.model.profile import Steps
from taupy.model.progress import SILENT, Progress
from taupy.model.question import VALUES, Question
from taupy.model.rows import ThreadRow, TrialRow
from taupy.model.sampled import CUDA_ALLOCATED, RESIDENT
from taupy.model.step_times import per_step
from taupy.pprof.view import Column, Kind, View
from taupy.profiledb import activities, query, sources
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values
from taupy.report.forest import ALONE, DIMENSIONS, Aligned, Forest
from taupy.report.heat import HeatMap
from taupy.report.report import Report, report
from taupy.report.timeline import MOST, Timeline
from taupy.units import duration, percent, several

_Options = TypeVar("_Options", bound=Asked)

_MOST_LINES = 8
"""Maximum number of processes whose memory is drawn."""

_FACTS = (Column("name", heading="What"), Column("value", heading="Value"))


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity over time or steps, as a line.

    Attributes:
        points: (x, value); x is seconds since the start, or the number of a step.
        kind: how values are formatted.
    """

    name: str
    points: Sequence[tuple[float, float]]
    kind: Kind
    over: Literal["second", "step"] = "second"


@dataclass(frozen=True, slots=True)
class Part:
    """A heading with lines, tables or a line chart below it.

    Attributes:
        is_folded: only the title is visible until clicked.
    """

    title: str = ""
    lines: Sequence[str] = ()
    views: Sequence[View] = ()
    series: Sequence[Series] = ()
    is_warning: bool = False
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """One tab: its name in addresses, its title, and its contents."""

    name: str
    title: str
    parts: Sequence[Part]


@dataclass(slots=True)
class Contents:
    """Everything on a page.

    Attributes:
        roofline: what `static/roofline.js` draws on the tab `roofline`; None for nothing.
        theme: "light" or "dark"; "" to follow the reader's system.
    """

    title: str
    subtitle: str
    sections: list[Section] = field(default_factory=list)
    forest: Forest = field(default_factory=Forest)
    timeline: Timeline = field(default_factory=Timeline)
    roofline: Mapping[str, Any] | None = None
    heat: HeatMap = field(default_factory=HeatMap)
    theme: str = ""


def of_trial(db: ProfileDB, trial: TrialRow, progress: Progress = SILENT) -> Contents:
    """The page of one trial."""
    contents = Contents(_title(trial), _subtitle(trial))
    progress.begin("building the page", len(ANSWERS) + 3, "parts")
    add_trees(db, trial, contents.forest)
    progress.advance()
    _add_activities(db, trial, contents.timeline)
    roofline = Section("roofline", "Roofline", door("roofline.tab").tab(db, trial, contents))
    progress.advance()
    answers: dict[str, list[Part]] = {}
    for name in ANSWERS:
        if (name, "page") not in EXCEPTIONS:
            answers[name] = _answer(db, trial, name, contents)
        progress.advance()
    of_phases = [view for part in answers["phases"] for view in part.views]
    sections = (
        Section("overview", "Overview", _overview(report(db, trial), contents.forest, of_phases)),
        *_tabs(answers, roofline),
        Section("machine", "Machine and run", _metadata(db, trial)),
    )
    contents.sections = [section for section in sections if section.parts]
    progress.advance()
    return contents


def _tabs(answers: Mapping[str, Sequence[Part]], roofline: Section) -> Iterator[Section]:
    """Those of the answers, with the roofline next to the kernels."""
    for name, parts in answers.items():
        yield Section(name, ANSWERS[name][0], parts)
        if name == "kernels":
            yield roofline


@of_a_sound_file
def add_trees(db: ProfileDB, trial: TrialRow, forest: Forest, aligned: Aligned = ALONE) -> None:
    """Add a trial's call paths, including those of GPUs."""
    table = values(db, Question((trial.id,), by=DIMENSIONS, values=VALUES))
    forest.add(table, sources.timer_paths(db, trial.id), aligned)


def _add_activities(db: ProfileDB, trial: TrialRow, timeline: Timeline) -> None:
    """Add the activities of a traced trial."""
    timeline.count = activities.count(db, trial.id)
    if timeline.count:
        ahead = door("ranks.host_times").offsets_ns(db, trial.id)
        longest = activities.longest(db, trial.id, MOST, ahead)
        timeline.add(longest, query.begun_ns(db, trial.id))


def _title(trial: TrialRow) -> str:
    return f"Trial {trial.id}: {trial.application} > {trial.experiment} > {trial.name}"


def _subtitle(trial: TrialRow) -> str:
    started = trial.started_at[:19].replace("T", " ")
    return f"started {started} UTC; {trial.state}; exit code {trial.ending or 'unknown'}"


# --- sections ----------------------------------------------------------------


def _answer(db: ProfileDB, trial: TrialRow, name: str, contents: Contents) -> list[Part]:
    """The tab of an answer; no parts if the trial lacks it."""
    if name in _DRAWN:
        return _DRAWN[name](db, trial, contents)
    answer = module(name)
    return [Part(views=[view]) for view in _views(db, trial, answer.views, *answer.PAGES)]


def _views(
    db: ProfileDB,
    trial: TrialRow,
    views: Callable[[ProfileDB, int, _Options], list[View]],
    *options: _Options,
) -> list[View]:
    """The tables of an answer; none where a command would say why there are none."""
    tables: list[View] = []
    for choice in options:
        with suppress(Nothing):
            tables += views(db, trial.id, choice)
    return tables


def _overview(answer: Report, forest: Forest, of_phases: Sequence[View]) -> list[Part]:
    findings = answer.judgement.findings
    parts = [_finding(number, finding) for number, finding in enumerate(findings, 1)]
    if not findings:
        parts = [Part(lines=["no findings of the kinds that docs/report.md lists"])]
    lines = [line for both in answer.gpu_times for line in both]
    return [
        *([Part("Why the GPU did not compute", lines)] if lines else []),
        *_places(answer),
        *([Part("What the ranks say", answer.ranks)] if answer.ranks else []),
        Part("What to do"),
        *parts,
        Part("Phases of the main thread", views=_of_thread(answer.thread, of_phases)),
        *_health(answer, forest),
        Part("Not judged", _abstentions(answer), is_folded=True),
    ]


def _places(answer: Report) -> list[Part]:
    """The first places of each group of threads, under one heading."""
    views = [places.view(group, places.FIRST) for group in answer.places]
    return [Part("Where the time went in your code", views=views)] if views else []


def _finding(number: int, finding: Finding) -> Part:
    saved = f"{duration(finding.saved_ns)} ({percent(100 * finding.saved_share)} %)"
    lines = [
        *([f"try: {finding.attempt}"] if finding.attempt else []),
        f"it would be refuted by: {finding.refuted_by}",
        f"confidence: {finding.confidence}",
    ]
    views = [
        View(
            f"evidence: {several(evidence.count, 'row')}",
            [Column(name, "any") for name in evidence.headings],
            evidence.rows,
        )
        for evidence in finding.evidence
    ]
    title = f"{number}. {finding.kind}, at most {saved}: {finding.sentence}"
    return Part(title, lines, views, is_folded=True)


def _of_thread(thread: ThreadRow | None, views: Sequence[View]) -> list[View]:
    place = thread and (thread.node, thread.thread)
    return [view for view in views if tuple(view.rows[0][:2]) == place]


def _health(answer: Report, forest: Forest) -> list[Part]:
    lines = [f"{name}: {remark}" for name, remark in answer.remarks.items()]
    if answer.trial.state != "complete":
        lines.insert(0, f"the trial is {answer.trial.state}")
    if forest.unmeasured:
        lines.append(f"{forest.unmeasured} call paths have no time; they are drawn without width")
    missing = [f"not measured: {what}" for what in answer.unmeasured]
    title = "Health of the measurement"
    return [
        Part(title, lines or ["no problem was recorded"], is_warning=bool(lines)),
        *([Part(lines=missing)] if missing else []),
    ]


def _abstentions(answer: Report) -> list[str]:
    return [f"{rule.kind}: {rule.reason}" for rule in answer.judgement.abstentions]


def _steps(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    parts = []
    views = _views(db, trial, steps.views, *steps.PAGES)
    for (_thread, series), view in zip(steps_of(db, trial.id), views, strict=True):
        lines = [_line(f"time of a step of {series.kind}", series, per_step(series), "time_ns")]
        kinds: dict[str, Kind] = {RESIDENT: "bytes", CUDA_ALLOCATED: "bytes"}
        lines += [
            _line(name, series, logged, kinds.get(name, "float"))
            for name, logged in series.values.items()
        ]
        parts += [Part(series=[line]) for line in lines if line.points]
        parts.append(Part(views=[view]))
    return parts


def _line(name: str, series: Steps, values: Sequence[float], kind: Kind) -> Series:
    """A quantity by step number."""
    points = zip(map(float, series.number), values, strict=True)
    return Series(name, [point for point in points if math.isfinite(point[1])], kind, "step")


def _ranks(db: ProfileDB, trial: TrialRow, contents: Contents) -> list[Part]:
    """The ranks, and which of them others waited for; sets the heat map of their steps."""
    answer = module("ranks")
    of_ranks = _views(db, trial, answer.views, *answer.PAGES)
    if not of_ranks:
        return []
    contents.heat = door("ranks.heat").of_trial(db, trial.id)
    return [Part(views=of_ranks)]


def _memory(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    grown = _views(db, trial, memory.views, *memory.PAGES)
    if not grown:
        return []
    parts = [Part(lines=[*dict.fromkeys(note for view in grown for note in view.notes)])]
    for view in _views(db, trial, memory.views, memory.Options(series=True)):
        lines = _over_time(view)[:_MOST_LINES]
        parts.insert(0, Part("Resident memory over time (sampled)", series=lines))
    views = [replace(view, notes=()) for view in grown if view.rows]
    return [*parts, Part("Where it grew (sampled)", views=views)]


_DRAWN: Mapping[str, Callable[[ProfileDB, TrialRow, Contents], list[Part]]] = {
    "steps": _steps,
    "ranks": _ranks,
    "memory": _memory,
}
"""Answers with lines or a map beside their tables."""


def _over_time(view: View) -> list[Series]:
    """A line for each process."""
    names = [column.name for column in view.columns]
    lines: dict[int, list[tuple[float, float]]] = {}
    for row in view.rows:
        cell: dict[str, Any] = dict(zip(names, row, strict=True))
        if cell["resident_bytes"] is not None:
            moment = (cell["start_ns"] + cell["end_ns"]) / 2e9
            lines.setdefault(cell["node"], []).append((moment, cell["resident_bytes"]))
    return [Series(f"process {node}", points, "bytes") for node, points in lines.items()]


def _metadata(db: ProfileDB, trial: TrialRow) -> list[Part]:
    return [
        Part(
            views=[View("the trial" if node is None else f"process {node}", _FACTS, [*own.items()])]
        )
        for node, own in query.metadata_by_node(db, trial.id).items()
    ]
