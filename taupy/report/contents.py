"""The contents of a page about a trial, queried from the database, in the order of the tabs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from taupy.analysis.findings.calls import trees
from taupy.answers import ANSWERS, EXCEPTIONS, events, kernels, memory, steps, waiting
from taupy.answers.answer import Nothing, module
from taupy.answers.own_code import OwnCode, own_code
from taupy.answers.places import without_text
from taupy.doors import door
from taupy.model.gpu_time import GpuTime, gpu_name
from taupy.model.options import Asked
from taupy.model.profile import Steps
from taupy.model.progress import SILENT, Progress
from taupy.model.rows import TrialRow
from taupy.model.sampled import CPU_TIME, CUDA, CUDA_ALLOCATED, HOST, RESIDENT, is_answered
from taupy.model.step_times import per_step
from taupy.model.table import Table
from taupy.network.operators import NOT_OPERATORS
from taupy.network.phase_sums import NO_PHASE
from taupy.pprof.cells import seen_by
from taupy.pprof.estimated import marked
from taupy.pprof.view import Cell, Column, Kind, View
from taupy.profiledb import activities, gpu_query, query, sources
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.steps import steps_of
from taupy.profiledb.values import values
from taupy.report import front
from taupy.report.forest import ALONE, Aligned, Forest
from taupy.report.heat import HeatMap
from taupy.report.library_source import library_code
from taupy.report.report import report
from taupy.report.timeline import MOST, Timeline
from taupy.units import duration, several

_Options = TypeVar("_Options", bound=Asked)

_UNDIVIDED = {"(no layer)", NO_PHASE, "import", "exit", memory.BETWEEN_LOOKS}
"""Rows that, if there are no others, say no more than the tables by routine."""
_MOST_GAPS, _PATH_ROWS = 12, 12
_UNTRACED = "when routines ran (--trace=host)"
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
class Bar:
    """Times beside each other, as wide as their share of the widest bar.

    Attributes:
        parts: a kind of `static/kinds.js`, which has a colour, words, and nanoseconds.
        is_named: the words of all parts stand below the bar, not only where the mouse is.
    """

    name: str
    parts: Sequence[tuple[str, str, int]]
    note: str = ""
    is_named: bool = True


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
    bars: Sequence[Bar] = ()
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
        overview, source: what `static/overview.js` and `static/source.js` show, from `front.py`.
        roofline: what `static/roofline.js` draws on the tab `roofline`; None for nothing.
        end: lines at the end of the page.
        is_sampled: whether times of routines are estimates.
        theme: "light" or "dark"; "" to follow the reader's system.
    """

    title: str
    subtitle: str
    sections: list[Section] = field(default_factory=list)
    forest: Forest = field(default_factory=Forest)
    timeline: Timeline = field(default_factory=Timeline)
    roofline: Mapping[str, Any] | None = None
    heat: HeatMap = field(default_factory=HeatMap)
    overview: Mapping[str, Any] | None = None
    source: list[dict[str, Any]] = field(default_factory=list)
    end: Sequence[str] = ()
    theme: str = ""
    is_sampled: bool = False


def of_trial(
    db: ProfileDB,
    trial: TrialRow,
    progress: Progress = SILENT,
    *,
    with_source: bool = True,
    with_libraries: bool = False,
) -> Contents:
    """The page of one trial.

    Args:
        with_source: with the text of the program's own files.
        with_libraries: with that of library files on this machine.
    """
    contents = Contents(_title(trial), _subtitle(trial), is_sampled=trial.is_sampled)
    progress.begin("building the page", len(ANSWERS) + 3, "parts")
    of_threads = values(db, trees(trial.id))
    judged = report(db, trial, of_threads=of_threads)
    if not with_source:
        judged = replace(judged, places=without_text(judged.places))
    code = own_code(db, trial.id, judged.places, with_text=with_source)
    own = {routine.file for routine in code.routines if routine.file}
    add_trees(db, trial, of_threads, contents.forest, Aligned(own=own))
    del of_threads  # of a million call paths, and what follows needs memory
    contents.forest.add_lines(front.lines_of_routines(code))
    progress.advance()
    colors: dict[str, str] = {}
    for entry in contents.forest.names:  # a layer's name may be that of its class
        if colors.get(entry["name"], "own") == "own":
            colors[entry["name"]] = entry["color"]
    _add_timeline(db, trial, contents.timeline, colors)
    if not judged.is_capture and not contents.timeline.has_host:
        judged = replace(judged, unmeasured=(*judged.unmeasured, _UNTRACED))
    contents.overview = front.overview(db, judged, contents.forest.unmeasured)
    contents.source = front.source(code)
    of_libraries = library_code(db, trial, own) if with_libraries else None
    if of_libraries is not None:
        contents.source += front.source(of_libraries, of="libraries")
    roofline = Section("roofline", "Roofline", door("roofline.tab").tab(db, trial, contents))
    progress.advance()
    answers: dict[str, list[Part]] = {}
    for name in ANSWERS:
        if (name, "page") not in EXCEPTIONS:
            answers[name] = _answer(db, trial, name, contents)
        progress.advance()
    if {phase.kind for phase in judged.phases} <= {"import", "exit", NO_PHASE}:
        answers["phases"] = []  # the overview shows as much
    sections = (
        *_tabs(answers, roofline),
        Section("machine", "Machine and run", _metadata(db, trial)),
    )
    contents.sections = [section for section in sections if section.parts]
    contents.end = [*_end(code, of_libraries)]
    progress.advance()
    return contents


_FIRST = ("layers", "kernels")
"""Answers whose tabs come first, after the overview, source, flame graph and timeline."""


def _tabs(answers: Mapping[str, Sequence[Part]], roofline: Section) -> Iterator[Section]:
    """Those of the answers, with the roofline next to the kernels."""
    for name in (*_FIRST, *(name for name in answers if name not in _FIRST)):
        yield Section(name, ANSWERS[name][0], answers[name])
        if name == "kernels":
            yield roofline


def _end(code: OwnCode, of_libraries: OwnCode | None) -> Iterator[str]:
    if code.files:
        yield (
            f"This page holds the source text of {several(len(code.files), 'file')}; "
            "`taupy report -o FILE --no-source` leaves it out."
        )
    if of_libraries is not None and of_libraries.files:
        files = several(len(of_libraries.files), "library file")
        yield f"It holds the text of {files}, as they were on the machine that wrote it."
    elif of_libraries is not None:
        yield (
            "It holds no text of libraries: none of their files took time, is on this machine, and "
            "is as it was when the program ran."
        )


@of_a_sound_file
def add_trees(
    db: ProfileDB, trial: TrialRow, table: Table, forest: Forest, aligned: Aligned = ALONE
) -> None:
    """Add a trial's call paths, including those of GPUs: the answer to `trees`."""
    forest.add(table, sources.timer_paths(db, trial.id), aligned)


def _add_timeline(
    db: ProfileDB, trial: TrialRow, timeline: Timeline, colors: dict[str, str]
) -> None:
    """Add what is known over time: steps, the activities of a traced trial, memory."""
    begun = query.begun_ns(db, trial.id)
    timeline.end_ns, timeline.is_capture = trial.duration_ns, trial.is_capture
    timeline.colors = colors
    for thread, series in steps_of(db, trial.id):
        timeline.add_steps(thread, series, begun)
    timeline.count = activities.count(db, trial.id)
    if timeline.count:
        ahead = door("ranks.host_times").offsets_ns(db, trial.id)
        longest = activities.longest(db, trial.id, MOST, ahead)
        timeline.add(longest, begun)


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
    views = _views(db, trial, answer.views, *answer.PAGES)
    return [Part(views=[names_first(view)]) for view in views]


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
    return [marked(table) for table in tables] if trial.is_sampled else tables


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
        changing = [line for line in lines if len({value for _, value in line.points}) > 1]
        parts += [Part(series=[line]) for line in changing]
        parts.append(Part(views=[view]))
    return parts


def _line(name: str, series: Steps, values: Sequence[float], kind: Kind) -> Series:
    """A quantity by step number."""
    points = zip(map(float, series.number), values, strict=True)
    return Series(name, [point for point in points if math.isfinite(point[1])], kind, "step")


def names_first(view: View) -> View:
    """The view for a page, which may be narrow: what identifies a row is its last column in text,
    where long names do no harm; here it comes first, and a thread that all rows share not at all.
    """
    kept = [at for at, column in enumerate(view.columns) if not _is_shared_thread(view, at)]
    rows = [[row[at] for at in kept] for row in view.rows]
    view = replace(view, columns=[view.columns[at] for at in kept], rows=rows)
    columns, positions = seen_by(view, "people")
    if any(column.name in _NAMES for column in columns):
        return _moved_first(view, next(column.name for column in columns if column.name in _NAMES))
    if columns and columns[-1].kind == "text" and all(row[positions[-1]] for row in view.rows):
        return _moved_first(view, columns[-1].name)
    return view


_NAMES = ("name", "place")
"""Columns that identify a row although others in text follow."""


def _moved_first(view: View, name: str) -> View:
    """The view with a column in front, if it has it."""
    order = sorted(range(len(view.columns)), key=lambda at: view.columns[at].name != name)
    rows = [[row[at] for at in order] for row in view.rows]
    return replace(view, columns=[view.columns[at] for at in order], rows=rows)


def _is_shared_thread(view: View, at: int) -> bool:
    return view.columns[at].name == "of_thread" and len({row[at] for row in view.rows}) == 1


def _events(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    """The user events of each thread, without those that other tabs say more of."""
    parts: list[Part] = []
    for view in _views(db, trial, events.views, *events.PAGES):
        title = view.title.replace("USER EVENTS Profile :", "USER EVENTS of ")
        views = [names_first(part) for part in _by_unit(replace(view, title=title))]
        parts += [Part(views=views)] if views else []
    return parts


def _by_unit(view: View) -> Iterator[View]:
    """A table of user events as one for each kind of value, each value with its unit."""
    names = [column.name for column in view.columns]
    of_kind: dict[Kind, list[list[Cell]]] = {}
    for row in view.rows:
        cells: dict[str, Any] = dict(zip(names, row, strict=True))
        if is_elsewhere(cells["event"]):
            continue
        kind, factor = _UNITS.get(cells["unit"], ("tau_count", 1))
        if cells["unit"] in _UNITS:
            cells["name"] = cells["event"]
            for name in _VALUES:
                cells[name] = None if cells[name] is None else factor * cells[name]
        of_kind.setdefault(kind, []).append([*cells.values()])
    title = view.title
    for kind, rows in of_kind.items():
        columns = [
            replace(
                column,
                heading=_STATISTICS.get(column.name, column.heading),
                kind=kind if column.name in _VALUES else column.kind,
            )
            for column in view.columns
        ]
        yield replace(view, title=title, columns=columns, rows=rows)
        title = ""


_VALUES = ("maximum", "minimum", "mean", "stddev")
_UNITS: Mapping[str, tuple[Kind, int]] = {
    "bytes": ("bytes", 1), "B": ("bytes", 1), "KiB": ("bytes", 1024), "ns": ("time_ns", 1),
}  # fmt: skip
"""How values of a unit are shown, and what they are multiplied by."""

_STATISTICS: Mapping[str, str] = {
    "samples": "Samples", "maximum": "Largest", "minimum": "Smallest", "mean": "Mean",
    "stddev": "Std. dev.", "name": "Event",
}  # fmt: skip
"""What people call the columns that TAU has other words for."""


def is_elsewhere(event: str) -> bool:
    """Whether another tab, or the head of the page, says what this event does."""
    kind = event.partition(", GPU ")[0]
    return is_answered(event) or kind in (RESIDENT, *HOST, *CUDA, CPU_TIME)


def _ranks(db: ProfileDB, trial: TrialRow, contents: Contents) -> list[Part]:
    """The ranks, and which of them others waited for; sets the heat map of their steps."""
    answer = module("ranks")
    of_ranks = _views(db, trial, answer.views, *answer.PAGES)
    if not of_ranks:
        return []
    contents.heat = door("ranks.heat").of_trial(db, trial.id)
    return [Part(views=of_ranks)]


def _gpus(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    """Where the time of each GPU went, its longest gaps, the critical path, operators, kernels."""
    views = _views(db, trial, kernels.views, *kernels.PAGES)
    if not views:
        return []
    tables = [*_operators(db, trial), *(Part(views=[names_first(view)]) for view in views)]
    times = gpu_query.gpu_times(db, trial.id)
    if not times:
        return tables
    models = gpu_query.models(db, trial.id)
    names = {gpu: gpu_name(gpu, times, models.get(gpu, "")) for gpu in times}
    bars = [_time_bar(names[gpu], time) for gpu, time in times.items()]
    paths = _views(db, trial, kernels.views, kernels.Options(critical_path=True, limit=_PATH_ROWS))
    return [
        Part("Where the time went", bars=bars),
        Part("The longest gaps, and what the host did", views=[_gaps(names, times)]),
        *(Part(views=[view]) for view in paths),
        *tables,
    ]


def _operators(db: ProfileDB, trial: TrialRow) -> Iterator[Part]:
    """What ran on each GPU by operator, if any was recorded."""
    for view in _views(db, trial, kernels.views, kernels.Options(by="operator")):
        names = [column.name for column in view.columns]
        if not {row[names.index("name")] for row in view.rows} <= {*NOT_OPERATORS}:
            yield Part(views=[names_first(view)])


def _time_bar(name: str, time: GpuTime) -> Bar:
    """From a GPU's first work to its last."""
    parts = [
        ("gpu", "computing", time.compute_ns),
        ("optimizer", "only communicating", time.communication_ns),
        ("data", "only copying", time.copies_ns),
        *(("wait", f"idle: {idle.cause}", idle.ns) for idle in time.idle),
    ]
    return Bar(f"{name}: {duration(time.span_ns)}", [part for part in parts if part[2]])


_GAP_COLUMNS = (
    Column("gpu", heading="GPU"),
    Column("at_ns", "time_ns", "After its\nfirst work"),
    Column("gap_ns", "time_ns", "Gap"),
    Column("cause", heading="Mostly"),
    Column("place", heading="Where"),
    Column("cause_ns", "time_ns", "Of it"),
)


def _gaps(names: Mapping[tuple[int, int], str], times: Mapping[tuple[int, int], GpuTime]) -> View:
    rows: list[tuple[str | int, ...]] = [
        (names[gpu], gap.at_ns, gap.ns, *gap.parts[0])
        for gpu, time in times.items()
        for gap in time.gaps
        if gap.parts
    ]
    rows.sort(key=lambda row: -int(row[2]))
    first = 0 if len(times) > 1 else 1  # the bar above names a lone GPU
    return View("", _GAP_COLUMNS[first:], [row[first:] for row in rows[:_MOST_GAPS]])


def _memory(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    grown = _views(db, trial, memory.views, *memory.PAGES)
    if not grown:
        return []
    notes = dict.fromkeys(tuple(view.notes) for view in grown)  # the same below several tables
    parts = [Part(lines=[note for of_view in notes for note in of_view])]
    for view in _views(db, trial, memory.views, memory.Options(series=True)):
        lines = _over_time(view)[:_MOST_LINES]
        parts.insert(0, Part("Resident memory over time (sampled)", series=lines))
    views = [names_first(_by(replace(view, notes=()))) for view in map(_grown, grown)]
    return [*parts, Part("Where it grew (sampled)", views=[view for view in views if view.rows])]


def _grown(view: View) -> View:
    """The rows where memory grew; none if they do not tell one from another."""
    grew = [column.name for column in view.columns].index("growth_bytes")
    rows = [row for row in view.rows if row[grew]]
    return replace(view, rows=[] if is_undivided(row[-1] for row in rows) else rows)


def is_undivided(labels: Iterable[object]) -> bool:
    """Whether the labels of a table's rows do not tell one part of the program from another."""
    return {*labels} <= _UNDIVIDED


def _waiting(db: ProfileDB, trial: TrialRow, _: Contents) -> list[Part]:
    tables = []
    for view in _views(db, trial, waiting.views, *waiting.PAGES):
        if not is_undivided(row[-1] for row in view.rows):
            tables.append(names_first(_by(view)))
    return [Part(views=[view]) for view in _notes_once(tables)]


def _by(view: View) -> View:
    """The table with what its rows are in its title: one of several with the same columns."""
    return replace(view, title=view.title.replace(" (", f", by {view.columns[-1].name} ("))


def _notes_once(views: Sequence[View]) -> list[View]:
    """The tables, whose notes stand below the last that has them."""
    last = {note: at for at, view in enumerate(views) for note in view.notes}
    return [
        replace(view, notes=[note for note in view.notes if last[note] == at])
        for at, view in enumerate(views)
    ]


_DRAWN: Mapping[str, Callable[[ProfileDB, TrialRow, Contents], list[Part]]] = {
    "steps": _steps,
    "events": _events,
    "ranks": _ranks,
    "memory": _memory,
    "waiting": _waiting,
    "kernels": _gpus,
}
"""Answers with lines or a map beside their tables."""


def _over_time(view: View) -> list[Series]:
    """A line for each process, from its first look to its last: each value in the middle of its
    time, which may be a good part of the run."""
    names = [column.name for column in view.columns]
    lines: dict[int, list[tuple[float, float]]] = {}
    for row in view.rows:
        cell: dict[str, Any] = dict(zip(names, row, strict=True))
        if cell["resident_bytes"] is not None:
            moment, value = (cell["start_ns"] + cell["end_ns"]) / 2e9, cell["resident_bytes"]
            line = lines.setdefault(cell["node"], [(cell["start_ns"] / 1e9, value)])
            line += [(moment, value), (cell["end_ns"] / 1e9, value)]
            if len(line) > 3:
                del line[-3]  # the end of the time before
    return [Series(f"process {node}", points, "bytes") for node, points in lines.items()]


def _metadata(db: ProfileDB, trial: TrialRow) -> list[Part]:
    return [
        Part(
            views=[View("the trial" if node is None else f"process {node}", _FACTS, [*own.items()])]
        )
        for node, own in query.metadata_by_node(db, trial.id).items()
    ]
